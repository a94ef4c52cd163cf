"""Every failure that is not an unresolvable name: the rule for each symptom. Owns the table."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpucdi.diagnosis import hosts, programs, specs
from gpucdi.diagnosis.case import Case
from gpucdi.diagnosis.model import Verdict
from gpucdi.failures import Symptom


def decide(case: Case) -> Verdict:
    """Return the verdict on any symptom but an unresolvable name."""
    return RULES.get(case.failure.symptom, programs.unknown_words)(case)


RULES: Mapping[Symptom, Callable[[Case], Verdict]] = {
    Symptom.MALFORMED_NAME: specs.malformed_name,
    Symptom.MIXED_AUTOMATIC: specs.mixed_automatic,
    Symptom.NAME_CONFLICT: specs.name_conflict,
    Symptom.SPEC_LOAD_FAILED: specs.spec_load_failed,
    Symptom.SPEC_WRITE_FAILED: specs.spec_write_failed,
    Symptom.NODE_MISSING: hosts.node_missing,
    Symptom.MOUNT_FAILED: hosts.mount_failed,
    Symptom.IDMAP_FAILED: hosts.idmap_failed,
    Symptom.RUNTIME_DIED: hosts.runtime_died,
    Symptom.HOOK_MISSING: hosts.hook_missing,
    Symptom.HOOK_FAILED: hosts.hook_failed,
    Symptom.HOOK_SKIPPED: hosts.hook_skipped,
    Symptom.GENERATE_FAILED: specs.generate_failed,
    Symptom.SYMBOL_MISSING: specs.generate_failed,
    Symptom.GENERATE_WARNING: specs.generate_warning,
    Symptom.GENERATOR_ABSENT: specs.generator_absent,
    Symptom.UNIT_FAILED: specs.unit_failed,
    Symptom.PLUGIN_DISABLED: specs.plugin_disabled,
    Symptom.PREPARE_FAILED: specs.prepare_failed,
    Symptom.CDI_DISABLED: programs.cdi_disabled,
    Symptom.NOT_CDI_AWARE: programs.not_cdi_aware,
    Symptom.NO_SPEC: specs.no_spec,
    Symptom.POLICY: programs.build_policy,
    Symptom.HANDLER_MISSING: programs.handler_missing,
    Symptom.RUNTIME_CLASS_MISSING: programs.handler_missing,
    Symptom.BINARY_MISSING: programs.handler_missing,
    Symptom.CONFIG_REFUSED: programs.config_refused,
    Symptom.MODE_REFUSED: programs.mode_refused,
    Symptom.MODE_CONFLICT: programs.mode_conflict,
    Symptom.ENV_REFUSED: programs.env_refused,
    Symptom.NOT_INJECTED: programs.not_injected,
    Symptom.DRIVER_STATE: hosts.driver_state,
    Symptom.GPU_LOST: hosts.gpu_lost,
    Symptom.ACCESS_DENIED: hosts.access_denied,
    Symptom.LEGACY: programs.not_cdi,
    Symptom.IMAGE: programs.not_cdi,
}

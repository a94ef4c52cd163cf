"""Says whether a prediction is what really happened.

Owns: the comparison. Must not know: how either side came about.
"""

from __future__ import annotations

import re

from tests.differential_runtime.bench import Observed
from tests.differential_runtime.cases import Case
from tests.lab import hardware

from gpucdi.toolkit import Mode, Outcome, Verdict

PANIC_CODE = 2
_MODE = re.compile(r"(?:Auto-detected|Using requested) mode (?:as )?'([^']*)'")


def difference(case: Case, predicted: Outcome, observed: Observed) -> str | None:
    """Return what differs, ``None`` when the prediction holds."""
    if predicted.verdict is Verdict.FAILS:
        return _failure(predicted, observed)
    if observed.code != 0 or not observed.ran:
        return f"predicted {predicted.verdict}, but it failed: {observed.error or observed.stderr}"
    mode = _mode(observed)
    if mode is not None and predicted.mode is not None and mode != predicted.mode:
        return f"predicted mode {predicted.mode}, it chose {mode}"
    if predicted.verdict is Verdict.OTHER_MECHANISM:
        return None if observed.has_prestart_hook else "predicted the legacy hook, there is none"
    if observed.has_prestart_hook:
        return f"predicted {predicted.verdict}, but the legacy hook is there"
    if predicted.verdict is Verdict.DEVICES:
        return _devices(predicted, observed)
    if predicted.verdict is Verdict.WITHOUT_GPU:
        return _without_gpu(predicted, observed)
    return f"no prediction for {case.seed}: {predicted.reason}"


def _failure(predicted: Outcome, observed: Observed) -> str | None:
    if observed.code == 0:
        return f"predicted a failure ({predicted.text or predicted.reason}), but it started"
    if predicted.crashes:
        is_panic = observed.code == PANIC_CODE and "panic" in observed.stderr
        return None if is_panic else f"predicted a panic, it said {observed.error}"
    if predicted.text is None:
        is_config = "error loading config" in observed.stderr
        return None if is_config else f"predicted a refused file, it said {observed.stderr}"
    if predicted.text != observed.error:
        return f"predicted text {predicted.text!r}, it said {observed.error or observed.stderr!r}"
    return None


def _mode(observed: Observed) -> Mode | None:
    """Return the mode from the first line that names one; later ones speak of the generator."""
    found = _MODE.search(observed.debug)
    return Mode(found[1]) if found else None


def _devices(predicted: Outcome, observed: Observed) -> str | None:
    if not predicted.gpus:
        if set(predicted.nodes) != set(observed.nodes):
            return f"predicted nodes {predicted.nodes}, it gave {observed.nodes}"
        expected = {entry for entry in predicted.environment if entry.startswith("D_")}
        given = {entry for entry in observed.added_environment if entry.startswith("D_")}
        return None if expected == given else f"predicted edits {expected}, it gave {given}"
    minors = {gpu.uuid: gpu.minor for gpu in hardware.MIG_GPU.gpus}
    minors |= {mig.uuid: gpu.minor for gpu in hardware.MIG_GPU.gpus for mig in gpu.mig or ()}
    wanted = {f"/dev/nvidia{minors[uuid]}" for uuid in predicted.gpus}
    got = {node for node in observed.nodes if node.removeprefix("/dev/nvidia").isdigit()}
    return None if wanted == got else f"predicted GPUs {wanted}, it gave {got}"


def _without_gpu(predicted: Outcome, observed: Observed) -> str | None:
    gpus = [node for node in observed.nodes if node.removeprefix("/dev/nvidia").isdigit()]
    if gpus:
        return f"predicted no GPU ({predicted.reason}), it gave {gpus}"
    if not predicted.names and observed.is_changed:
        return f"predicted an unmodified container, it changed: {observed.nodes}"
    return None

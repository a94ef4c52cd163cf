"""Which fully qualified names the NVIDIA runtime asks for on behalf of a container, per release.

Owns: mode ``auto``, which source wins, the default kind, and the errors that come before any name
is looked up. Must not know: spec files, engines.

Sources: NVIDIA/nvidia-container-toolkit ``internal/modifier/{cdi,factory}.go``,
``internal/info/auto.go``, ``internal/runtime/runtime_factory.go``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpucdi.cdi import ReaderCrash, is_qualified_name, split_device
from gpucdi.cdi.gotext import quote
from gpucdi.engines.versions import Release, release
from gpucdi.toolkit.extras import extra_requests, mig_problem
from gpucdi.toolkit.model import HandlerRuntime, Mode, Toolkit, ToolkitConfig
from gpucdi.toolkit.request import (
    AUTOMATIC_KIND,
    AUTOMATIC_PREFIX,
    ContainerRequest,
    Platform,
    Requested,
    RequestOrigin,
)
from gpucdi.toolkit.rules import OLDEST_PREDICTED, RULE_SETS, Rules, library_of, rules_of
from gpucdi.toolkit.sources import (
    annotated_names,
    environment_names,
    mounted_names,
    mounted_paths,
)

EARLY = "failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier: "
LATE = "could not apply required modification to OCI specification: error modifying OCI spec: "

_MIXED = (
    "requesting a CDI device with vendor 'runtime.nvidia.com' is not supported when requesting "
    "other CDI devices"
)
_GATE = "accept-nvidia-visible-devices-envvar-when-unprivileged"


class _RefusedError(Exception):
    """The runtime fails here; the text is complete."""


@dataclass(frozen=True, slots=True)
class _Visible:
    """What one source asks for, as written."""

    names: list[str]
    origin: RequestOrigin | None = None
    ignored: str | None = None


def request_names(
    runtime: HandlerRuntime, request: ContainerRequest, platform: Platform = Platform.NVML
) -> Requested:
    """Say what the runtime behind a handler asks for on behalf of a container.

    With a toolkit of unknown version the answer is that of all releases which it could be, or
    ``unknown`` when these differ. A handler that is no NVIDIA runtime asks for nothing.
    """
    config = runtime.config
    if runtime.is_nvidia is None:
        return Requested(None, unknown="it is not known what the handler runs")
    if not runtime.is_nvidia or config is None:
        return Requested(None)
    if not config.usable:
        return Requested(None, unknown=f"the runtime refuses its configuration {config.file}")
    versions = possible_releases(runtime.toolkit)
    if not versions:
        return Requested(None, unknown="this release of the toolkit was never looked at")
    answers = [
        _Reading(runtime, config, request, platform, rules_of(one)).answer() for one in versions
    ]
    if all(answer == answers[0] for answer in answers):
        return answers[0]
    mode = answers[0].mode if len({answer.mode for answer in answers}) == 1 else None
    return Requested(mode, unknown="it depends on the toolkit's version, which is not known")


def possible_releases(toolkit: Toolkit | None) -> tuple[Release, ...]:
    """Return the releases whose rules may apply: just one when the version is known."""
    stated = None if toolkit is None else release(toolkit.version.value)
    if stated is not None:
        looked_at = stated >= OLDEST_PREDICTED and library_of(stated) is not None
        return (stated,) if looked_at else ()
    since = (0, 0, 0) if toolkit is None else toolkit.since or (0, 0, 0)
    before = None if toolkit is None else toolkit.before
    return tuple(one for one in RULE_SETS if since <= one and (before is None or one < before))


@dataclass(frozen=True, slots=True)
class _Reading:
    """One container, read by one release."""

    runtime: HandlerRuntime
    config: ToolkitConfig
    request: ContainerRequest
    platform: Platform
    rules: Rules

    def answer(self) -> Requested:
        bad = next((entry for entry in self.request.environment if "=" not in entry), None)
        if bad is not None:
            return Requested(None, error=f"{EARLY}invalid environment variable: {bad}")
        mode: Mode | None = None
        try:
            mode = self._mode()
            return self._cdi(mode) if mode in {Mode.CDI, Mode.JIT_CDI} else Requested(mode)
        except ReaderCrash:
            return Requested(mode, crashes=True)
        except _RefusedError as refusal:
            return Requested(mode, error=str(refusal))

    def _mode(self) -> Mode:
        mode = self.runtime.mode.value
        if mode is None or (mode is Mode.JIT_CDI and not self.rules.unified):
            raise _RefusedError(self._invalid_mode(self.config.mode.value))
        if mode is not Mode.AUTO:
            return mode
        if self._only_qualified():
            return Mode.CDI
        return Mode.CSV if self.platform is Platform.TEGRA else self.rules.auto_default

    def _invalid_mode(self, text: str) -> str:
        if not self.rules.late_errors:
            return f"{EARLY}invalid runtime mode: {text}"
        return f"{EARLY}invalid mode {quote(text)}" if text else f"{EARLY}a mode must be specified"

    def _only_qualified(self) -> bool:
        rules = self.rules
        if rules.unified:
            names = self._visible().names
            return bool(names) and all(is_qualified_name(name, rules.library) for name in names)
        if not rules.auto_looks_at_environment:
            return False
        names = environment_names(self.config, self.request.variables(), rules)
        # Each check may end the program, so their order matters.
        if not all(is_qualified_name(name, rules.library) for name in names):
            return False
        paths = mounted_paths(self.request) if rules.auto_looks_at_mounts else []
        return all(path.startswith("cdi/") for path in paths) and bool(names or paths)

    def _visible(self, *, annotations: bool = True) -> _Visible:
        config, request = self.config, self.request
        annotated = annotated_names(config, request) if annotations else {}
        if annotated:
            names = [name for group in annotated.values() for name in group]
            return _Visible(names, RequestOrigin.ANNOTATIONS)
        if config.accept_volume_mounts.value:
            names = mounted_names(request, self.rules)
            if names:
                return _Visible(names, RequestOrigin.MOUNTS)
        return self._environment()

    def _environment(self) -> _Visible:
        names = environment_names(self.config, self.request.variables(), self.rules)
        permitted = self.request.privileged or self.config.accept_envvar_when_unprivileged.value
        if not names or permitted:
            return _Visible(names, RequestOrigin.ENVIRONMENT if names else None)
        reason = f"the environment of an unprivileged container is not read: {_GATE} = false"
        return _Visible([], ignored=f"{reason} ({self.config.file})")

    def _before_1_18(self) -> _Visible:
        """Annotations must be qualified, and of the mounts only those below ``cdi/`` count."""
        annotated: list[str] = []
        for key, names in annotated_names(self.config, self.request).items():
            for name in names:
                if not is_qualified_name(name, self.rules.library):
                    raise _RefusedError(
                        f"{EARLY}failed to get required devices from OCI specification: "
                        "failed to parse container annotations: invalid device name "
                        f"{quote(name)} in annotation {quote(key)}"
                    )
                annotated.append(name)
        if annotated:
            return _Visible(list(dict.fromkeys(annotated)), RequestOrigin.ANNOTATIONS)
        if self.rules.reads_mounts and self.config.accept_volume_mounts.value:
            names = mounted_names(self.request, self.rules)
            if names:
                return _Visible(names, RequestOrigin.MOUNTS)
        for name in environment_names(self.config, self.request.variables(), self.rules):
            # Looked at before privileges are, which matters only for the names it crashes on.
            is_qualified_name(name, self.rules.library)
        return self._environment()

    def _cdi(self, mode: Mode) -> Requested:
        rules = self.rules
        kind = AUTOMATIC_KIND if mode is Mode.JIT_CDI else self.config.default_kind.value
        if rules.unified:
            visible = self._visible(annotations=mode is Mode.CDI)
        else:
            visible = self._before_1_18()
        if rules.unified or visible.origin is RequestOrigin.ENVIRONMENT:
            full = [self._qualified(name or rules.none_name, kind) for name in visible.names]
        else:
            full = visible.names
        if rules.unified:
            full = list(dict.fromkeys(full))
        answer = Requested(mode, tuple(full), origin=visible.origin, ignored=visible.ignored)
        automatic = [name for name in full if self._is_automatic(name)]
        if not automatic or not rules.knows_jit:
            return answer
        if len(automatic) != len(full):
            raise _RefusedError(f"{LATE if rules.late_errors else EARLY}{_MIXED}")
        return self._with_extras(answer, visible.names)

    def _qualified(self, name: str, kind: str) -> str:
        return name if is_qualified_name(name, self.rules.library) else f"{kind}={name}"

    def _is_automatic(self, name: str) -> bool:
        if self.rules.unified:
            return name.startswith(AUTOMATIC_PREFIX)
        vendor, class_, _ = split_device(name)
        return f"{vendor}/{class_}" == AUTOMATIC_KIND

    def _with_extras(self, answer: Requested, visible: list[str]) -> Requested:
        if not self.rules.reads_jit_extras:
            return answer
        problem = mig_problem(self.request, visible, self.rules)
        if problem is not None:
            raise _RefusedError(
                f"{LATE}failed to create the automatic CDI modifier: "
                f"invalid MIG capability request: {problem}"
            )
        extra = extra_requests(self.config, self.request, self.rules)
        return replace(answer, extra=extra)

"""Wordings of low-level runtimes, hooks, handlers and of NVIDIA's legacy mode.

Owns: the rows of those wordings. Must not know: whether the host has what they blame.

Sources: opencontainers/runc ``libcontainer/{rootfs_linux,container_linux}.go``, containers/crun
``src/libcrun/{linux,container}.c``, google/gvisor ``runsc``, containerd
``internal/cri/{server,config}``, cri-o ``internal/oci``, moby ``daemon``, NVIDIA/libnvidia-container
``src``, NVIDIA/nvidia-container-toolkit ``internal/{info,runtime}``,
``cmd/nvidia-container-runtime-hook``.
"""

from __future__ import annotations

from gpucdi.failures.formats import DETAIL, QUOTE, Format, spaced
from gpucdi.failures.model import EngineFamily, Resolver, Stage, Symptom

_E, _R, _S, _Y = EngineFamily, Resolver, Stage, Symptom
_HOOK = r"(?:prestart |createRuntime |createContainer |startContainer |poststart |poststop )?hook"


# Before any row about hooks: legacy mode is itself a hook, and its text is not about CDI.
LEGACY: tuple[Format, ...] = (
    Format(
        "M41",
        _Y.MODE_CONFLICT,
        spaced(r"invoking the NVIDIA Container Runtime Hook directly"),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "S11",
        _Y.ENV_REFUSED,
        spaced(r"insufficient privileges to read device list from NVIDIA_VISIBLE_DEVICES"),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "M29",
        _Y.LEGACY,
        spaced(
            r"(?:Auto-detected mode as 'legacy' )?"
            rf"(?<![\w/-])nvidia-container-cli(?:\.real)?: {DETAIL}"
        ),
        _S.UNKNOWN,
        is_cdi=False,
        usually=_S.START,
        variants=(
            (r"file creation failed", "M58"),
            (r"driver/library version mismatch", "M53"),
            (r"unknown device", "M52"),
            (r"detection error", "M51"),
        ),
    ),
    Format(
        "M29",
        _Y.LEGACY,
        spaced(r"Auto-detected mode as 'legacy'(?P<detail>)"),
        _S.UNKNOWN,
        is_cdi=False,
        usually=_S.START,
    ),
)

HOOKS: tuple[Format, ...] = (
    Format(
        "M24",
        _Y.HOOK_MISSING,
        spaced(
            rf"error running {_HOOK} #\d+: (?:error running hook: )?fork/exec "
            r"(?P<hook>/[^\s\"'`]+?): (?P<detail>no such file or directory|permission denied"
            r"|exec format error)"
        ),
        _S.UNKNOWN,
        usually=_S.START,
        gpu_only=True,
    ),
    Format(
        "M25",
        _Y.HOOK_FAILED,
        spaced(
            rf"(?:error )?(?:[Rr]unning )?{_HOOK} (?:#\d+|\d+ caused)[:\" ]*"
            rf"(?:error running hook: )?(?:exit status \d+|signal: \w+),?"
            rf"(?: stdout: [^\n]{{0,200}}?,?)?(?: stderr:)?{DETAIL}"
        ),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "M27",
        _Y.HOOK_FAILED,
        spaced(r"error executing hook `?(?P<hook>/[^`\s]+)`? \((?P<detail>exit code: \d+)\)"),
        _S.UNKNOWN,
        usually=_S.START,
        gpu_only=True,
    ),
    Format(
        "M26",
        _Y.HOOK_FAILED,
        spaced(
            r"nvidia-(?:ctk hook|cdi-hook) (?P<hook>[a-z][a-z-]+) stderr: (?P<detail>[\s\S]{0,400}?)"
            r"(?=\s+FATAL ERROR|\Z)"
        ),
        _S.START,
        _E.GVISOR,
    ),
    Format(
        "M26",
        _Y.HOOK_FAILED,
        spaced(r"error executing (?P<hook>CreateContainer|CreateRuntime|StartContainer) hooks"),
        _S.START,
        _E.GVISOR,
    ),
    Format(
        "S12",
        _Y.HOOK_FAILED,
        spaced(r"(?P<detail>No help topic for '(?P<hook>[a-z-]+)')"),
        _S.UNKNOWN,
        usually=_S.START,
    ),
    Format(
        "M28",
        _Y.HOOK_SKIPPED,
        spaced(
            rf"CDI device (?P<names>){QUOTE}[^'\"]+{QUOTE} defines a {QUOTE}?\w+{QUOTE}? hook "
            r"\((?P<hook>[^()\s]+)\) that \S+ does not know"
        ),
        _S.RUNNING,
    ),
)

HANDLERS: tuple[Format, ...] = (
    Format(
        "M44",
        _Y.HANDLER_MISSING,
        spaced(rf"no runtime for {QUOTE}(?P<subject>[^\"'`\s]+){QUOTE} is configured"),
        _S.SANDBOX,
        _E.CONTAINERD,
        gpu_only=True,
    ),
    Format(
        "S14",
        _Y.HANDLER_MISSING,
        spaced(r"failed to find runtime handler (?P<subject>\S+) from runtime list"),
        _S.SANDBOX,
        _E.CRIO,
        gpu_only=True,
    ),
    Format(
        "S15",
        _Y.HANDLER_MISSING,
        spaced(rf"RuntimeHandler {QUOTE}?(?P<subject>[\w.-]+){QUOTE}? not supported"),
        _S.SANDBOX,
        gpu_only=True,
    ),
    Format(
        "M42",
        _Y.HANDLER_MISSING,
        spaced(
            r"(?:unknown or invalid runtime name:|[Uu]nknown runtime specified) "
            r"(?P<subject>[\w.-]*\w)"
        ),
        _S.CREATE,
        _E.DOCKER,
        gpu_only=True,
    ),
    Format(
        "M42",
        _Y.MODE_CONFLICT,
        spaced(
            r"could not select device driver \"(?:nvidia)?\" with capabilities: \[\[gpu[^\]]*\]\]"
        ),
        _S.START,
        _E.DOCKER,
    ),
    Format(
        "M45",
        _Y.RUNTIME_CLASS_MISSING,
        spaced(
            rf"[Rr]untime[Cc]lass(?:\.node\.k8s\.io)?:? {QUOTE}(?P<subject>[\w.-]+){QUOTE} not found"
        ),
        _S.ADMISSION,
        gpu_only=True,
    ),
    Format(
        "S16",
        _Y.BINARY_MISSING,
        spaced(
            r"unable to retrieve OCI runtime error \([^()]*(?:\([^()]*\)[^()]*)*\): "
            rf"(?:fork/)?exec:? {QUOTE}?(?P<subject>[^\s\"'`:]+){QUOTE}?:"
        ),
        _S.UNKNOWN,
        usually=_S.SANDBOX,
        gpu_only=True,
    ),
    Format(
        "S17",
        _Y.BINARY_MISSING,
        spaced(rf"runtime {QUOTE}(?P<subject>[\w.]+){QUOTE} binary not installed"),
        _S.UNKNOWN,
        _E.CONTAINERD,
        usually=_S.SANDBOX,
        gpu_only=True,
    ),
    Format(
        "S18",
        _Y.HANDLER_MISSING,
        spaced(
            r"no corresponding runtime configured in `?containerd\.runtimes`? for `?containerd`? "
            r"`?default_runtime_name = \"{1,2}(?P<subject>[^\"\s]+)\""
        ),
        _S.CONFIGURE,
        _E.CONTAINERD,
        gpu_only=True,
    ),
    Format(
        "S19",
        _Y.MODE_REFUSED,
        spaced(
            r"(?P<detail>invalid (?:runtime )?mode:? \"?(?P<subject>[\w-]+)\"?"
            r"|a mode must be specified)"
        ),
        _S.UNKNOWN,
        resolver=_R.NVIDIA_RUNTIME,
        usually=_S.START,
    ),
    Format(
        "S20",
        _Y.CONFIG_REFUSED,
        spaced(
            r"(?P<detail>(?:failed to (?:load|unmarshal) TOML|drop-in config version|failed to "
            r"configure CDI registry|unable to load config|error loading config)[^\n]{0,300})"
        ),
        _S.CONFIGURE,
    ),
)

"""Wordings of those who write specs (nvidia-ctk, plugins, DRA drivers) and of the driver below.

Owns: the rows of those wordings. Must not know: which cause their innermost words name.

Sources: NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk/cdi/generate``, ``pkg/nvcdi``,
``deployments/systemd``; NVIDIA/k8s-device-plugin ``internal/cdi``; kubernetes/kubernetes
``pkg/kubelet/cm/dra``; NVML's error strings.
"""

from __future__ import annotations

from gpucdi.failures.formats import DETAIL, ERRNO, PATH, QUOTE, Format, spaced
from gpucdi.failures.model import EngineFamily, Stage, Symptom

_E, _S, _Y = EngineFamily, Stage, Symptom

GENERATORS: tuple[Format, ...] = (
    Format(
        "M16",
        _Y.GENERATE_FAILED,
        spaced(rf"failed to gene?re?ate (?:CDI spec|spec for|CDI edits)[^:\n]{{0,60}}: {DETAIL}"),
        _S.UNKNOWN,
        usually=_S.GENERATE,
        variants=(
            (r"ERROR_LIBRARY_NOT_FOUND", "M30"),
            (r"failed to locate|pattern \S+ not found", "M31"),
            (r"device minor number: Not Supported", "M33"),
            (r"Driver Not Loaded", "M34"),
            (r"unsupported device id", "M37"),
        ),
    ),
    Format(
        "M36",
        _Y.GENERATE_FAILED,
        spaced(r"(?P<detail>invalid discovery mode: \S+?)(?=[\"\s]|$)"),
        _S.GENERATE,
    ),
    Format(
        "M37",
        _Y.GENERATE_FAILED,
        spaced(
            r"(?P<detail>device \S+ has no MIG devices configured"
            r"|more than one MIG device type present on node)"
        ),
        _S.GENERATE,
    ),
    Format(
        "M37",
        _Y.GENERATE_FAILED,
        spaced(r"(?P<detail>unsupported device id\b(?:: [\w.:-]*\w)?)"),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "M21",
        _Y.SPEC_WRITE_FAILED,
        spaced(
            rf"failed to (?:write (?:CDI )?spec [^\n:]{{0,120}}: )?(?:failed to )?create Spec "
            rf"(?:file|dir): (?:open|mkdir) {PATH}:? {ERRNO}"
        ),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "M21",
        _Y.SPEC_WRITE_FAILED,
        spaced(
            rf"failed to (?:save|write) (?:CDI )?spec[^\n]{{0,200}}?: (?:open|mkdir|rename|create) "
            rf"{PATH}:? {ERRNO}"
        ),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "M57",
        _Y.SPEC_WRITE_FAILED,
        spaced(rf"failed to set permissions on spec file: chmod {PATH}:? {ERRNO}"),
        _S.PREPARE,
    ),
    Format(
        "M14",
        _Y.SPEC_WRITE_FAILED,
        spaced(
            r"(?P<detail>(?:invalid CDI Spec: (?:failed add device [^\n]{0,120}: )?)?"
            r"invalid device, empty device edits|invalid CDI Spec: [^\n]{0,300})"
        ),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "S21",
        _Y.GENERATE_FAILED,
        spaced(r"(?P<detail>no NVIDIA device nodes found)"),
        _S.GENERATE,
    ),
    Format(
        "S22",
        _Y.GENERATOR_ABSENT,
        spaced(
            rf"nvidia-ctk(?:{QUOTE}:? executable file|: command)? not found"
            r"|nvidia-ctk: No such file or directory"
        ),
        _S.GENERATE,
    ),
    Format(
        "M31",
        _Y.GENERATE_FAILED,
        spaced(
            r"(?P<detail>failed to locate \"?(?P<subject>lib(?:cuda|nvidia-ml)\.so[^\s:\"]*)[^\n]*)"
        ),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "M32",
        _Y.SYMBOL_MISSING,
        spaced(r"symbol lookup error: (?P<hook>[^\s:]+): (?P<detail>undefined symbol: \w+)"),
        _S.UNKNOWN,
        usually=_S.GENERATE,
    ),
    Format(
        "M46",
        _Y.PLUGIN_DISABLED,
        spaced(
            r"creating a null CDI handler"
            r"|CDI --device-list-strategy options are only supported on NVML-based systems"
            r"|Incompatible strategy detected|invalid device discovery strategy"
        ),
        _S.GENERATE,
    ),
    Format(
        "M20",
        _Y.UNIT_FAILED,
        spaced(
            r"(?P<detail>entered a failed state):?[\s\[]*(?:[\w.@-]+\s+)*?"
            r"(?P<subject>nvidia-cdi-refresh\.(?:service|path))[^\]]{0,200}\]?"
        ),
        _S.GENERATE,
    ),
    Format(
        "M20",
        _Y.UNIT_FAILED,
        spaced(
            r"(?P<subject>nvidia-cdi-refresh\.(?:service|path))[^\n]{0,120}?(?P<detail>[Ss]tart "
            r"request repeated too quickly|[Ff]ailed with result[^\n]{0,40}|start-limit-hit"
            r"|Main process exited|[Ff]ailed to start|\bfailed\b)"
        ),
        _S.GENERATE,
    ),
    Format(
        "M35",
        _Y.GENERATE_WARNING,
        spaced(r"Could not locate (?P<path>/dev/[^\s:]+):(?P<detail>[^\n\"]{0,120})"),
        _S.GENERATE,
        gpu_only=True,
    ),
)

CLAIMS: tuple[Format, ...] = (
    Format(
        "M15",
        _Y.PREPARE_FAILED,
        spaced(r"DRA driver (?P<subject>\S+) is not registered(?P<detail>)"),
        _S.PREPARE,
    ),
    Format(
        "M15",
        _Y.PREPARE_FAILED,
        spaced(r"(?P<detail>claims in PrepareCompleted state are not supported[^\n]{0,120})"),
        _S.PREPARE,
    ),
    Format(
        "M15",
        _Y.PREPARE_FAILED,
        spaced(rf"NodePrepareResources[^:\n]{{0,120}}: {DETAIL}"),
        _S.PREPARE,
    ),
    Format(
        "M15",
        _Y.PREPARE_FAILED,
        spaced(
            rf"[Ff]ailed to prepare dynamic resources: (?:prepare dynamic resources: )?{DETAIL}"
        ),
        _S.PREPARE,
    ),
)

DRIVER: tuple[Format, ...] = (
    Format(
        "M54",
        _Y.ACCESS_DENIED,
        spaced(r"Failed to initialize NVML: (?P<detail>Insufficient Permissions|Unknown Error)"),
        _S.RUNNING,
    ),
    Format(
        "M19",
        _Y.DRIVER_STATE,
        spaced(r"Failed to initialize NVML: (?P<detail>Driver/library version mismatch)"),
        _S.RUNNING,
    ),
    Format(
        "M49",
        _Y.DRIVER_STATE,
        spaced(r"(?P<detail>couldn't communicate with the NVIDIA driver)"),
        _S.RUNNING,
    ),
    Format(
        "M50",
        _Y.GPU_LOST,
        spaced(
            r"(?P<detail>Xid \(PCI:[^()]*\): 79\b|ERROR_GPU_IS_LOST|GPU is lost|NVML device lost"
            r"|fallen off the bus)(?:[^\n]{0,80}fallen off the bus)?"
        ),
        _S.UNKNOWN,
        usually=_S.RUNNING,
    ),
    Format(
        "M30",
        _Y.GENERATE_FAILED,
        spaced(
            r"failed to initi?alize NVML: (?P<detail>ERROR_LIBRARY_NOT_FOUND|Driver Not Loaded"
            r"|Driver/library version mismatch)"
        ),
        _S.UNKNOWN,
        usually=_S.GENERATE,
        variants=((r"Driver Not Loaded", "M34"),),
    ),
    Format(
        "M46",
        _Y.DRIVER_STATE,
        spaced(
            r"could not load NVML library: (?P<detail>\S+: cannot open shared object file"
            r"(?:: No such file or directory)?|[^\n]{0,160})"
        ),
        _S.UNKNOWN,
        usually=_S.RUNNING,
    ),
)

IMAGES: tuple[Format, ...] = (
    Format(
        "S23",
        _Y.IMAGE,
        spaced(
            r"(?P<detail>Back-off pulling image|ImagePullBackOff|ErrImagePull|InvalidImageName"
            r"|[Ff]ailed to pull (?:and unpack )?image)"
        ),
        _S.CREATE,
        is_cdi=False,
    ),
)

POLICY: tuple[Format, ...] = (
    Format(
        "M39",
        _Y.POLICY,
        spaced(
            r"(?P<detail>granting entitlement device is not allowed by build daemon configuration)"
        ),
        _S.BUILD,
        _E.BUILDKIT,
    ),
)

"""Advice where a spec does not fit its host: files, nodes, mounts, hooks, generators, drivers.

Owns: the standing advice of those causes. Must not know: the Pod or node it is given for.

Sources: NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk`` and its systemd units; option names of
NVIDIA/gpu-operator, NVIDIA/k8s-device-plugin and Project-HAMi/HAMi.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.diagnosis.advice.shared import ALIGN, REFRESH
from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.findings import Cause, Who

_B, _W = BlastRadius, Who
_GENERATE = Advice(
    "generate the spec anew with the node's own nvidia-ctk, into the file that is stale",
    _B.FILE,
    _W.ADMIN,
    command="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    valid_for="specs of the kind nvidia.com/gpu that an admin generated",
    kind="nvidia.com/gpu",
)
_OWNER = Advice(
    "restart the component that wrote the file on this node (toolkit, device plugin or DRA "
    "driver Pod): it writes its spec at start",
    _B.NODE,
    _W.COMPONENT,
)

FOR_HOSTS: Mapping[Cause, tuple[Advice, ...]] = {
    Cause.SAME_DIR_CONFLICT: (
        Advice(
            "remove one of the two files, the copy rather than the one that a component writes",
            _B.FILE,
            _W.ADMIN,
        ),
    ),
    Cause.SPEC_REJECTED: (
        Advice("correct the file, or move it out of the spec directory", _B.FILE, _W.ADMIN),
        _OWNER,
    ),
    Cause.SPEC_TOO_NEW_FOR_READER: (
        Advice(
            "write the spec without the new field: nvidia-ctk cdi generate with "
            "--feature-flag no-additional-gids-for-device-nodes where it is additionalGids",
            _B.FILE,
            _W.ADMIN,
            valid_for="toolkit 1.19 and newer",
            since=(1, 19, 0),
        ),
        Advice("upgrade the engine or runtime that rejects the file", _B.NODE, _W.ADMIN),
    ),
    Cause.SPEC_DIR_NOT_READ: (
        Advice(
            "let the engine read the directory that the spec is in (cdi_spec_dirs), or write the "
            "spec into one that it reads",
            _B.NODE,
            _W.ADMIN,
        ),
    ),
    Cause.SPEC_DIR_MISSING: (
        Advice(
            "create the spec directories, and mount them writable into whoever writes specs",
            _B.NEW_FILE,
            _W.ADMIN,
            command="mkdir -p -m 0755 /etc/cdi /var/run/cdi",
        ),
    ),
    Cause.SPEC_NOT_READABLE: (
        Advice(
            "make directory and file readable for the engine's user",
            _B.FILE,
            _W.ADMIN,
            command="chmod a+rx /etc/cdi && chmod a+r /etc/cdi/*",
        ),
    ),
    Cause.DEVICE_NODE_MISSING: (
        Advice(
            "let the driver create its device nodes", _B.NOTHING, _W.ADMIN, command="nvidia-smi"
        ),
        _OWNER,
        REFRESH,
        _GENERATE,
    ),
    Cause.DEVICE_NUMBER_CHANGED: (_OWNER, REFRESH, _GENERATE),
    Cause.MOUNT_SOURCE_MISSING: (_OWNER, REFRESH, _GENERATE),
    Cause.FOREIGN_SPEC_STALE: (_OWNER, REFRESH, _GENERATE),
    Cause.HOOK_MISSING: (
        Advice(
            "tell the component that writes the spec where the hook is on the host "
            "(device plugin: NVIDIA_CDI_HOOK_PATH, HAMi: nvidiaHookPath)",
            _B.STACK,
            _W.ADMIN,
        ),
        Advice(
            "wait, where the toolkit container is just being reinstalled: its programs vanish "
            "for moments",
            _B.NOTHING,
            _W.USER,
        ),
        Advice("install the hook at the path that the spec names", _B.NODE, _W.ADMIN),
    ),
    Cause.HOOK_TOO_OLD: (
        ALIGN,
        Advice(
            "generate the spec without the hook that the older program does not know "
            "(--disable-hook)",
            _B.FILE,
            _W.ADMIN,
            valid_for="toolkit 1.18 and newer",
            since=(1, 18, 0),
        ),
    ),
    Cause.HOOK_FAILED: (
        _OWNER,
        Advice(
            "generate the spec without that hook (--disable-hook), if the runtime cannot run it",
            _B.FILE,
            _W.ADMIN,
            valid_for="toolkit 1.18 and newer",
            since=(1, 18, 0),
        ),
    ),
    Cause.GENERATOR_MISSING: (
        Advice("install the NVIDIA Container Toolkit, then generate", _B.NODE, _W.ADMIN),
        Advice("start the DRA driver or device plugin on this node", _B.NODE, _W.COMPONENT),
    ),
    Cause.GENERATOR_FAILED: (
        Advice(
            "run the generator by hand and read its error; name the mode where detection is wrong "
            "(--mode nvml, csv on Tegra, wsl on WSL)",
            _B.NOTHING,
            _W.ADMIN,
            command="nvidia-ctk cdi generate --mode nvml",
        ),
    ),
    Cause.REFRESH_UNIT_FAILED: (
        Advice(
            "once nvidia-smi works on the host, reset the units and start them again",
            _B.FILE,
            _W.ADMIN,
            command="systemctl reset-failed nvidia-cdi-refresh.path nvidia-cdi-refresh.service && "
            "systemctl start nvidia-cdi-refresh.service nvidia-cdi-refresh.path",
            valid_for="toolkit packages 1.18 and newer on the host",
        ),
    ),
    Cause.DRIVER_NOT_READY: (
        Advice(
            "wait for the driver, or load it; then let the specs be written again",
            _B.NODE,
            _W.ADMIN,
            command="nvidia-smi",
        ),
        _OWNER,
        REFRESH,
    ),
    Cause.DRIVER_MISMATCH: (
        Advice(
            "reload the kernel modules or reboot: the libraries were upgraded under a loaded "
            "driver. Where nvidia-smi works on the host, the container's spec is stale instead",
            _B.NODE,
            _W.ADMIN,
            command="nvidia-smi",
        ),
    ),
    Cause.DRIVER_ROOT_WRONG: (
        Advice(
            "generate with the root that the driver is in",
            _B.FILE,
            _W.ADMIN,
            command="nvidia-ctk cdi generate --driver-root=/run/nvidia/driver",
            valid_for="containerised drivers; otherwise --library-search-path",
        ),
        Advice(
            "give the component that writes the spec the driver root (GPU Operator: "
            "hostPaths.driverInstallDir, HAMi: nvidiaDriverRoot)",
            _B.FLEET,
            _W.ADMIN,
        ),
    ),
    Cause.DRIVER_TOO_OLD: (
        Advice(
            "upgrade the driver, or use a toolkit or image that the driver suffices for",
            _B.NODE,
            _W.ADMIN,
        ),
    ),
    Cause.GPU_LOST: (
        Advice(
            "reset the GPU or reboot the node; until then do not regenerate specs, which would "
            "lose the GPU's names",
            _B.NODE,
            _W.ADMIN,
            command="nvidia-smi --gpu-reset",
        ),
    ),
    Cause.DEVICE_WITHOUT_NODE: (
        Advice(
            "create the device nodes, then let the spec be written again",
            _B.NODE,
            _W.ADMIN,
            command="nvidia-ctk system create-device-nodes --control-devices "
            "--load-kernel-modules && nvidia-smi",
        ),
        _OWNER,
        REFRESH,
    ),
}

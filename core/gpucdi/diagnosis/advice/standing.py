"""Advice that depends on the cause alone. Owns one list a cause, ranked.

Sources: NVIDIA/nvidia-container-toolkit, NVIDIA/gpu-operator and NVIDIA/k8s-device-plugin option
names and systemd units; containerd, cri-o, moby and podman configuration keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.findings import Cause, Who

_B, _W = BlastRadius, Who
_REFRESH = Advice(
    "generate the host's spec anew with nvidia-cdi-refresh",
    _B.FILE,
    _W.ADMIN,
    command="systemctl restart nvidia-cdi-refresh.service",
    valid_for="toolkit packages 1.18 and newer on the host",
)
_GENERATE = Advice(
    "generate the spec anew with the node's own nvidia-ctk, into the file that is stale",
    _B.FILE,
    _W.ADMIN,
    command="nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml",
    valid_for="specs of the kind nvidia.com/gpu that an admin generated",
)
_OWNER = Advice(
    "restart the component that wrote the file on this node (toolkit, device plugin or DRA "
    "driver Pod): it writes its spec at start",
    _B.NODE,
    _W.COMPONENT,
)
_RECREATE = Advice("recreate the Pod, so that it is given a GPU that exists", _B.POD, _W.USER)
_ALIGN = Advice(
    "use one version of the NVIDIA Container Toolkit for everything on the node", _B.NODE, _W.ADMIN
)
_LOOK = Advice(
    "look at the node: its handlers, spec files and GPUs",
    _B.NOTHING,
    _W.ADMIN,
    command="gpucdi-agent inspect",
)

STANDING: Mapping[Cause, tuple[Advice, ...]] = {
    Cause.STALE_UUID: (
        _RECREATE,
        Advice(
            "restart the device plugin of this node, so that it offers the GPUs that are there",
            _B.NODE,
            _W.COMPONENT,
        ),
    ),
    Cause.UNKNOWN_DEVICE: (
        Advice("ask for a GPU that the node has", _B.POD, _W.USER, command="nvidia-smi -L"),
    ),
    Cause.MIG_PARENT_HIDDEN: (
        Advice("ask for one of the GPU's MIG instances instead of the GPU", _B.POD, _W.USER),
        Advice("take the GPU out of MIG mode, once nobody uses its instances", _B.NODE, _W.ADMIN),
    ),
    Cause.MIG_LAYOUT_CHANGED: (
        Advice(
            "restart the device plugin of this node, so that it offers and describes the "
            "instances that are there",
            _B.NODE,
            _W.COMPONENT,
        ),
        _REFRESH,
        _RECREATE,
    ),
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
        _REFRESH,
        _GENERATE,
    ),
    Cause.DEVICE_NUMBER_CHANGED: (_OWNER, _REFRESH, _GENERATE),
    Cause.MOUNT_SOURCE_MISSING: (_OWNER, _REFRESH, _GENERATE),
    Cause.FOREIGN_SPEC_STALE: (_OWNER, _REFRESH, _GENERATE),
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
        _ALIGN,
        Advice(
            "generate the spec without the hook that the older program does not know "
            "(--disable-hook)",
            _B.FILE,
            _W.ADMIN,
            valid_for="toolkit 1.18 and newer",
        ),
    ),
    Cause.HOOK_FAILED: (
        _OWNER,
        Advice(
            "generate the spec without that hook (--disable-hook), if the runtime cannot run it",
            _B.FILE,
            _W.ADMIN,
            valid_for="toolkit 1.18 and newer",
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
        _REFRESH,
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
    Cause.JIT_GENERATION_FAILED: (
        Advice(
            "ask the generator for the error that the runtime hides",
            _B.NOTHING,
            _W.ADMIN,
            command="nvidia-ctk cdi generate --mode auto",
        ),
        Advice(
            "upgrade the toolkit to see the generator's own error in the Pod",
            _B.NODE,
            _W.ADMIN,
            valid_for="toolkit 1.18.2 and newer",
        ),
    ),
    Cause.MIXED_AUTOMATIC_KIND: (
        Advice(
            "ask for runtime.nvidia.com devices alone, or for names of spec files alone",
            _B.POD,
            _W.USER,
        ),
    ),
    Cause.MALFORMED_REQUEST: (
        Advice(
            "correct the request: vendor/class=name once, whole UUIDs, no id twice", _B.POD, _W.USER
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
        _REFRESH,
    ),
    Cause.VOID_MOUNT_SKEW: (
        _ALIGN,
        Advice(
            "set accept-nvidia-visible-devices-as-volume-mounts=false in the config.toml of the "
            "handler",
            _B.NODE,
            _W.ADMIN,
            valid_for="toolkit 1.18.0 to 1.20.1 reading specs of 1.20.2 and newer",
        ),
    ),
    Cause.USER_NAMESPACE_IDMAP: (
        Advice("run the Pod without a user namespace (hostUsers: true)", _B.POD, _W.USER),
        Advice(
            "use toolkit 1.20.1 or older for this node's specs, which mount no /dev/null",
            _B.NODE,
            _W.ADMIN,
            valid_for="specs of toolkit 1.20.2 and newer",
        ),
    ),
    Cause.MEMORY_LIMIT_REJECTED: (
        Advice(
            "correct NVIDIA_GPU_MEMORY_REQUEST and NVIDIA_GPU_MEMORY_LIMIT (whole MiB, the limit "
            "not below the request), or drop them on nodes without cgroup v2",
            _B.POD,
            _W.USER,
            valid_for="toolkit 1.20.1 and newer",
        ),
    ),
    Cause.ENGINE_CDI_DISABLED: (
        Advice(
            "switch CDI on and restart the engine (containerd 1.7: enable_cdi = true under "
            'plugins."io.containerd.grpc.v1.cri", 2.0 to 2.3 under '
            'plugins."io.containerd.cri.v1.runtime"; Docker: features.cdi = true)',
            _B.NODE,
            _W.ADMIN,
            valid_for="containerd 1.7 to 2.3, Docker 25 and newer",
        ),
        Advice(
            "upgrade an engine or tool that does not know CDI (containerd 1.7, CRI-O 1.24, "
            "Docker 25, Podman 4.1, Buildah 1.36)",
            _B.NODE,
            _W.ADMIN,
        ),
    ),
    Cause.HANDLER_MISSING: (
        Advice(
            "drop runtimeClassName where the engine injects CDI devices itself",
            _B.POD,
            _W.USER,
            valid_for="GPU Operator 25.10 and newer; always with cdi.nriPluginEnabled",
        ),
        Advice(
            "add the handler to the configuration that the engine reads, then restart it",
            _B.NODE,
            _W.ADMIN,
            command="nvidia-ctk runtime configure --runtime=containerd && "
            "systemctl restart containerd",
            valid_for="toolkits installed on the host; GPU Operator: restart its toolkit Pod",
        ),
    ),
    Cause.MODE_CONFLICT: (
        Advice(
            "choose one way: --runtime=nvidia or a CDI device (--device nvidia.com/gpu=all), "
            "not --gpus",
            _B.POD,
            _W.USER,
        ),
        Advice(
            "set nvidia-container-runtime.mode to a mode that this toolkit has", _B.NODE, _W.ADMIN
        ),
    ),
    Cause.REQUEST_NOT_READ: (
        Advice(
            "let somebody read the request: a RuntimeClass with an NVIDIA handler for "
            "NVIDIA_VISIBLE_DEVICES, CDI in the engine for qualified names",
            _B.POD,
            _W.USER,
        ),
        Advice(
            "device plugin: DEVICE_LIST_STRATEGY=cdi-annotations,cdi-cri with the annotation "
            "prefix cdi.k8s.io/",
            _B.STACK,
            _W.ADMIN,
        ),
    ),
    Cause.ENV_REQUEST_REFUSED: (
        Advice(
            "ask through the device plugin's resource instead of NVIDIA_VISIBLE_DEVICES",
            _B.POD,
            _W.USER,
        ),
        Advice(
            "set accept-nvidia-visible-devices-envvar-when-unprivileged=true in the config.toml "
            "of the handler: every Pod may then choose any GPU",
            _B.NODE,
            _W.ADMIN,
        ),
    ),
    Cause.DEVICE_ACCESS_DENIED: (
        Advice("recreate the container, if it lost its GPU while it ran", _B.POD, _W.USER),
        Advice(
            "give operands the management kind (NVIDIA_VISIBLE_DEVICES=management.nvidia.com/gpu="
            "all), and allow device nodes in SELinux and the device cgroup",
            _B.NODE,
            _W.ADMIN,
        ),
    ),
    Cause.CONFIG_UNREADABLE: (
        Advice("correct the file that the message names", _B.NODE, _W.ADMIN),
    ),
    Cause.REPAIR_REFUSED: (
        Advice(
            "read the refusal in the node's status and remove its reason",
            _B.NOTHING,
            _W.ADMIN,
            command="kubectl get gpucdistatus -o yaml",
        ),
    ),
    Cause.NOT_CDI: (
        Advice("look for the cause elsewhere: no CDI device was involved", _B.NOTHING, _W.USER),
    ),
    Cause.UNDETERMINED: (
        _LOOK,
        Advice(
            "list the names that specs on the node define",
            _B.NOTHING,
            _W.ADMIN,
            command="nvidia-ctk cdi list",
            valid_for="nodes with nvidia-ctk; it reads with its own library and directories",
        ),
    ),
}

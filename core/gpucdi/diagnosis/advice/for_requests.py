"""Advice where the request, the engine or the way between them is at fault.

Owns: the standing advice of those causes. Must not know: the Pod or node it is given for.

Sources: NVIDIA/gpu-operator and NVIDIA/k8s-device-plugin option names; containerd, cri-o, moby and
podman configuration keys.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpucdi.diagnosis.advice.shared import ALIGN, REFRESH
from gpucdi.diagnosis.model import Advice, BlastRadius
from gpucdi.findings import Cause, Who

_B, _W = BlastRadius, Who
_RECREATE = Advice("recreate the Pod, so that it is given a GPU that exists", _B.POD, _W.USER)
_LOOK = Advice(
    "look at the node: its handlers, spec files and GPUs",
    _B.NOTHING,
    _W.ADMIN,
    command="gpucdi-agent inspect",
)


FOR_REQUESTS: Mapping[Cause, tuple[Advice, ...]] = {
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
        REFRESH,
        _RECREATE,
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
            valid_for="toolkits older than 1.18.2",
            before=(1, 18, 2),
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
    Cause.VOID_MOUNT_SKEW: (
        ALIGN,
        Advice(
            "set accept-nvidia-visible-devices-as-volume-mounts=false in the config.toml of the "
            "handler",
            _B.NODE,
            _W.ADMIN,
            valid_for="toolkit 1.18.0 to 1.20.1 reading specs of 1.20.2 and newer",
            since=(1, 18, 0),
            before=(1, 20, 2),
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
            since=(1, 20, 1),
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

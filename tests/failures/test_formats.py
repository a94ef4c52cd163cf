"""Every published wording, one row each: format, symptom, stage, engine, and what it blames."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpucdi.failures import Failure, Stage, Symptom, extract, read_report

P2 = "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
CNA = "could not apply required modification to OCI specification: error modifying OCI spec: "
FCR = "failed to create NVIDIA Container Runtime: failed to construct OCI spec modifier: "
R = P2 + "runc create failed: unable to start container process: error during container init: "
S = "Failed to create pod sandbox: rpc error: code = Unknown desc = "
NAME = "nvidia.com/gpu=all"
DAEMON = "docker: Error response from daemon: "


@dataclass(frozen=True)
class Row:
    format: str
    text: str
    symptom: Symptom
    stage: Stage
    engine: str | None = None
    names: tuple[str, ...] = ()
    path: str | None = None
    hook: str | None = None
    subject: str | None = None
    detail: str = ""
    is_cdi: bool = True
    truncated: bool = False


Y, T = Symptom, Stage
ROWS = [
    Row("M01", f"Error: {P2}{CNA}failed to inject CDI devices: unresolvable CDI devices {NAME}",
        Y.UNRESOLVABLE, T.START, "containerd", (NAME,)),
    Row("M01u", f"{DAEMON}failed to create task for container: failed to create shim task: OCI "
        f"runtime create failed: {CNA}failed to inject CDI devices: unresolvable CDI devices "
        f"{NAME}: unknown.", Y.UNRESOLVABLE, T.START, "docker", (NAME,)),
    Row("M03", f"Error: failed to inject CDI devices: unresolvable CDI devices {NAME}",
        Y.UNRESOLVABLE, T.START, None, (NAME,)),
    Row("M05", f"could not resolve CDI devices: [{NAME} a.b/c=d]", Y.UNRESOLVABLE, T.START, None,
        (NAME, "a.b/c=d")),
    Row("M06", f"Error: setting up CDI devices: unresolvable CDI devices {NAME}",
        Y.UNRESOLVABLE, T.CREATE, "podman", (NAME,)),
    Row("M07", f"{DAEMON}CDI device injection failed: unresolvable CDI devices {NAME}.",
        Y.UNRESOLVABLE, T.START, "docker", (NAME,)),
    Row("M08", f"unresolvable CDI devices {NAME}", Y.UNRESOLVABLE, T.UNKNOWN, None, (NAME,)),
    Row("M09", "Error: failed to create containerd container: CDI device injection failed: "
        f"unresolvable CDI devices {NAME}", Y.UNRESOLVABLE, T.CREATE, "containerd", (NAME,)),
    Row("M10", f'{DAEMON}could not select device driver "cdi" with capabilities: [].',
        Y.CDI_DISABLED, T.START, "docker"),
    Row("M12", 'map[/etc/cdi/nvidia.yaml:[failed to load CDI Spec: failed to parse CDI Spec '
        '"/etc/cdi/nvidia.yaml": failed to unmarshal CDI Spec: json: unknown field "hostPath"]]',
        Y.SPEC_LOAD_FAILED, T.UNKNOWN, None, path="/etc/cdi/nvidia.yaml",
        detail='failed to unmarshal CDI Spec: json: unknown field "hostPath"'),
    Row("M12", 'failed to load CDI Spec invalid CDI Spec: invalid version "9.9.9"',
        Y.SPEC_LOAD_FAILED, T.UNKNOWN, detail='invalid CDI Spec: invalid version "9.9.9"'),
    Row("M11", 'failed to parse CDI Spec "/etc/cdi/a.yaml", no Spec data', Y.SPEC_LOAD_FAILED,
        T.UNKNOWN, path="/etc/cdi/a.yaml", detail="no Spec data"),
    Row("M13", f'Error: unable to start container "8d": setting up CDI devices: unresolvable CDI '
        f"devices {NAME}", Y.UNRESOLVABLE, T.START, "podman", (NAME,)),
    Row("M14", 'E0314 08:44:33.830924       1 cdi.go:85] CreateCDISpecForPool(): can not create '
        'CDI json: invalid CDI Spec: failed add device "0000:af:02.0": invalid device, empty '
        "device edits", Y.SPEC_WRITE_FAILED, T.GENERATE,
        detail='invalid CDI Spec: failed add device "0000:af:02.0": invalid device, empty device '
        "edits"),
    Row("M14", "Failed to prepare dynamic resources: prepare dynamic resources: "
        "NodePrepareResources failed for ResourceClaim c: error preparing devices for claim n/c:1: "
        "unable to create CDI spec file for claim: failed to write spec: invalid CDI Spec: failed "
        'add device "d": invalid device, empty device edits', Y.SPEC_WRITE_FAILED, T.PREPARE,
        detail='invalid CDI Spec: failed add device "d": invalid device, empty device edits'),
    Row("M15", "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver "
        "gpu.nvidia.com is not registered", Y.PREPARE_FAILED, T.PREPARE, subject="gpu.nvidia.com"),
    Row("M15", "Failed to prepare dynamic resources: NodePrepareResources failed for "
        "ResourceClaim c: the driver is busy", Y.PREPARE_FAILED, T.PREPARE,
        detail="the driver is busy"),
    Row("M16", "failed to generate CDI spec: failed to write spec: invalid device, empty device "
        "edits", Y.GENERATE_FAILED, T.GENERATE,
        detail="failed to write spec: invalid device, empty device edits"),
    Row("M17", "Error: crun: cannot stat `/lib64/libEGL_nvidia.so.550.54.14`: No such file or "
        "directory: OCI runtime attempted to invoke a command that was not found", Y.MOUNT_FAILED,
        T.START, "podman", path="/lib64/libEGL_nvidia.so.550.54.14",
        detail="No such file or directory"),
    Row("M17b", 'Error: unable to start container "ab": crun: error stat\'ing file '
        "/usr/lib64/libEGL_nvidia.so.535.54.03: No such file or directory: OCI runtime attempted",
        Y.MOUNT_FAILED, T.START, "podman", path="/usr/lib64/libEGL_nvidia.so.535.54.03",
        detail="No such file or directory"),
    Row("M17c", "Error: crun: executable file `nvidia-smi` not found in $PATH: No such file or "
        "directory: OCI runtime attempted to invoke a command that was not found", Y.NOT_INJECTED,
        T.START, "podman", subject="nvidia-smi"),
    Row("M17c", f'{R}exec: "nvidia-smi": executable file not found in $PATH: unknown',
        Y.NOT_INJECTED, T.START, "containerd", subject="nvidia-smi"),
    Row("M18", f"{R}failed to fulfil mount request: open /usr/lib/libcuda.so.570.86.15: no such "
        "file or directory", Y.MOUNT_FAILED, T.START, "containerd",
        path="/usr/lib/libcuda.so.570.86.15", detail="no such file or directory"),
    Row("M18", f'{R}error mounting "/usr/lib/libcuda.so.570.86.15" to rootfs at "/usr/lib/x": stat '
        "/usr/lib/libcuda.so.570.86.15: no such file or directory: unknown", Y.MOUNT_FAILED,
        T.START, "containerd", path="/usr/lib/libcuda.so.570.86.15",
        detail='to rootfs at "/usr/lib/x": stat /usr/lib/libcuda.so.570.86.15: no such file or '
        "directory"),
    Row("M18", f'{R}error mounting "/etc/app/settings.yaml" to rootfs at "/settings": not a '
        "directory", Y.MOUNT_FAILED, T.START, "containerd", path="/etc/app/settings.yaml",
        detail='to rootfs at "/settings": not a directory', is_cdi=False),
    Row("M19", "Failed to initialize NVML: Driver/library version mismatch", Y.DRIVER_STATE,
        T.RUNNING, detail="Driver/library version mismatch"),
    Row("M20", "FAIL: the following systemd units have unexpectedly entered a failed state:\n"
        "      [nvidia-cdi-refresh.path nvidia-cdi-refresh.service]", Y.UNIT_FAILED, T.GENERATE,
        subject="nvidia-cdi-refresh.path", detail="entered a failed state"),
    Row("M20", "systemd[1]: nvidia-cdi-refresh.service: Start request repeated too quickly.",
        Y.UNIT_FAILED, T.GENERATE, subject="nvidia-cdi-refresh.service",
        detail="Start request repeated too quickly"),
    Row("M21", 'failed to write CDI spec "a.json": failed to create Spec file: open '
        "/var/run/cdi/spec.7.tmp: read-only file system", Y.SPEC_WRITE_FAILED, T.GENERATE,
        path="/var/run/cdi/spec.7.tmp", detail="read-only file system"),
    Row("M22", "Error: setting up CDI devices: failed to inject devices: failed to stat CDI host "
        'device "/dev/dri/renderD129": no such file or directory', Y.NODE_MISSING, T.CREATE,
        "podman", path="/dev/dri/renderD129", detail="no such file or directory"),
    Row("M22", f"Error: {P2}{CNA}failed to inject CDI devices: failed to inject devices: failed "
        'to stat CDI host device "/dev/nvidia77": no such file or directory', Y.NODE_MISSING,
        T.START, "containerd", path="/dev/nvidia77", detail="no such file or directory"),
    Row("M23", 'Error: failed to generate container "f9" spec: failed to generate spec: CDI '
        f"device injection failed: unresolvable CDI devices {NAME}", Y.UNRESOLVABLE, T.CREATE,
        "containerd", (NAME,)),
    Row("M24", f"{R}error running createContainer hook #0: fork/exec /usr/bin/nvidia-ctk: no such "
        "file or directory", Y.HOOK_MISSING, T.START, "containerd", hook="/usr/bin/nvidia-ctk",
        detail="no such file or directory"),
    Row("M24", f"{R}error running hook #0: fork/exec /usr/bin/nvidia-cdi-hook: no such file or "
        "directory", Y.HOOK_MISSING, T.START, "containerd", hook="/usr/bin/nvidia-cdi-hook",
        detail="no such file or directory"),
    Row("M25", f"{R}error running createContainer hook #1: exit status 3, stdout: , stderr: No "
        "help topic for 'disable-device-node-modification': unknown", Y.HOOK_FAILED, T.START,
        "containerd", detail="No help topic for 'disable-device-node-modification'"),
    Row("M27", 'Error: OCI runtime error: crun: {"msg":"error executing hook '
        '`/usr/bin/nvidia-cdi-hook` (exit code: 1)","level":"error"}', Y.HOOK_FAILED, T.START,
        "podman", hook="/usr/bin/nvidia-cdi-hook", detail="exit code: 1"),
    Row("M28", f"[WARN] CDI device '{NAME}' defines a 'createContainer' hook "
        "(/usr/bin/nvidia-cdi-hook) that pelagos does not know how to execute natively",
        Y.HOOK_SKIPPED, T.RUNNING, None, (NAME,), hook="/usr/bin/nvidia-cdi-hook"),
    Row("M29", f"{R}error running prestart hook #0: exit status 1, stdout: , stderr: "
        "Auto-detected mode as 'legacy'\nnvidia-container-cli: ldcache error: process "
        "/sbin/ldconfig terminated with signal 9", Y.LEGACY, T.START, "containerd",
        detail="ldcache error: process /sbin/ldconfig terminated with signal 9", is_cdi=False),
    Row("M30", "failed to generate CDI spec: failed to create device CDI specs: failed to "
        "initialize NVML: ERROR_LIBRARY_NOT_FOUND", Y.GENERATE_FAILED, T.GENERATE,
        detail="failed to create device CDI specs: failed to initialize NVML: "
        "ERROR_LIBRARY_NOT_FOUND"),
    Row("M31", "failed to locate libcuda.so.515.105.01: pattern libcuda.so.515.105.01 not found",
        Y.GENERATE_FAILED, T.GENERATE, subject="libcuda.so.515.105.01",
        detail="failed to locate libcuda.so.515.105.01: pattern libcuda.so.515.105.01 not found"),
    Row("M32", "nvidia-ctk: symbol lookup error: nvidia-ctk: undefined symbol: nvmlDeviceGetX",
        Y.SYMBOL_MISSING, T.GENERATE, hook="nvidia-ctk",
        detail="undefined symbol: nvmlDeviceGetX"),
    Row("M34", 'level=error msg="failed to generate CDI spec: failed to create device CDI specs: '
        'failed to initialize NVML: Driver Not Loaded"', Y.GENERATE_FAILED, T.GENERATE,
        detail="failed to create device CDI specs: failed to initialize NVML: Driver Not Loaded"),
    Row("M35", 'level=warning msg="Could not locate /dev/nvidia-modeset: /dev/nvidia-modeset: not '
        'found"', Y.GENERATE_WARNING, T.GENERATE, path="/dev/nvidia-modeset",
        detail="/dev/nvidia-modeset: not found"),
    Row("M36", 'level=error msg="invalid discovery mode: cdi"', Y.GENERATE_FAILED, T.GENERATE,
        detail="invalid discovery mode: cdi"),
    Row("M37", f'{P2}{CNA}failed to generate CDI spec for mode "csv": failed to construct device '
        "spec generators: unsupported device id: 0:1", Y.GENERATE_FAILED, T.START, "containerd",
        detail="failed to construct device spec generators: unsupported device id: 0:1"),
    Row("M38", "failed to get container spec opts: CDI devices (vendor.com/gpu=ok) requested but "
        "CDI support is explicitly disabled", Y.CDI_DISABLED, T.CREATE, "containerd",
        ("vendor.com/gpu=ok",)),
    Row("M39", "ERROR: granting entitlement device is not allowed by build daemon configuration",
        Y.POLICY, T.BUILD, "buildkit",
        detail="granting entitlement device is not allowed by build daemon configuration"),
    Row("M40", f"{P2}{CNA}failed to inject CDI devices: unresolvable CDI devices", Y.UNRESOLVABLE,
        T.START, "containerd", truncated=True),
    Row("M41", f"{R}error running prestart hook #0: exit status 1, stdout: , stderr: Using "
        "requested mode 'cdi'\ninvoking the NVIDIA Container Runtime Hook directly (e.g. "
        "specifying the docker --gpus flag) is not supported.: unknown", Y.MODE_CONFLICT, T.START,
        "containerd"),
    Row("M42", f"{DAEMON}unknown or invalid runtime name: nvidia.", Y.HANDLER_MISSING, T.CREATE,
        "docker", subject="nvidia"),
    Row("M42", f'{DAEMON}could not select device driver "" with capabilities: [[gpu]].',
        Y.MODE_CONFLICT, T.START, "docker"),
    Row("M43", f"{DAEMON}AMD CDI spec not found", Y.NO_SPEC, T.START, "docker"),
    Row("M44", f'{S}failed to get sandbox runtime: no runtime for "nvidia" is configured',
        Y.HANDLER_MISSING, T.SANDBOX, "containerd", subject="nvidia"),
    Row("M44", f'{S}no runtime for "kata-qemu" is configured', Y.HANDLER_MISSING, T.SANDBOX,
        "containerd", subject="kata-qemu", is_cdi=False),
    Row("M45", 'pods "a" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
        Y.RUNTIME_CLASS_MISSING, T.ADMISSION, subject="nvidia"),
    Row("M46", "W0104 07:22:39.5 1 factory.go:47] No valid resources detected, creating a null "
        "CDI handler", Y.PLUGIN_DISABLED, T.GENERATE),
    Row("M47", f"{P2}{CNA}failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu="
        "nvidia.com/gpu=5", Y.UNRESOLVABLE, T.START, "containerd",
        ("nvidia.com/gpu=nvidia.com/gpu=5",)),
    Row("M48", r'error="rpc error: failed to start sandbox \"26\": failed to create containerd '
        r"task: failed to create shim task: device cold plug failed: cold plug: CDI device "
        r"injection failed: CDI device injection failed: unresolvable CDI devices "
        r'nvidia.com/pgpu=vfio1"', Y.UNRESOLVABLE, T.SANDBOX, "kata", ("nvidia.com/pgpu=vfio1",)),
    Row("M49", "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.",
        Y.DRIVER_STATE, T.RUNNING, detail="couldn't communicate with the NVIDIA driver"),
    Row("M50", "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.", Y.GPU_LOST,
        T.RUNNING, detail="Xid (PCI:0000:3b:00): 79"),
    Row("M51", f"{R}error running hook #0: error running hook: exit status 1, stdout: , stderr: "
        r"Auto-detected mode as 'legacy'\nnvidia-container-cli: detection error: nvml error: "
        "unknown error: unknown", Y.LEGACY, T.START, "containerd",
        detail="detection error: nvml error: unknown error", is_cdi=False),
    Row("M52", "nvidia-container-cli: device error: GPU-1: unknown device: unknown", Y.LEGACY,
        T.START, detail="device error: GPU-1: unknown device", is_cdi=False),
    Row("M53", "nvidia-container-cli: initialization error: nvml error: driver/library version "
        "mismatch: unknown", Y.LEGACY, T.START,
        detail="initialization error: nvml error: driver/library version mismatch", is_cdi=False),
    Row("M54", "Failed to initialize NVML: Insufficient Permissions", Y.ACCESS_DENIED, T.RUNNING,
        detail="Insufficient Permissions"),
    Row("M55", 'Error: container create failed: time="2023-01-04T09:19:12Z" level=error msg="runc '
        "create failed: unable to start container process: error during container init: error "
        "creating device nodes: mount /dev/nvidiactl:/var/lib/x/dev/nvidiactl (via "
        '/proc/self/fd/14), flags: 0x1000: no such file or directory"', Y.IDMAP_FAILED, T.CREATE,
        "cri-o", path="/dev/nvidiactl", detail="no such file or directory"),
    Row("M56", f"Error: stat {NAME}: no such file or directory", Y.NOT_CDI_AWARE, T.CREATE, None,
        (NAME,)),
    Row("M56", "invalid device mode: nvidia.com/gpu=gpu0", Y.NOT_CDI_AWARE, T.CREATE, None,
        ("nvidia.com/gpu=gpu0",)),
    Row("M57", "unable to create CDI spec file for claim: failed to set permissions on spec file: "
        "chmod /var/run/cdik8s.io-claim.yaml: no such file or directory", Y.SPEC_WRITE_FAILED,
        T.PREPARE, path="/var/run/cdik8s.io-claim.yaml", detail="no such file or directory"),
    Row("M58", "nvidia-container-cli: mount error: file creation failed: /var/lib/docker/a.so.1: "
        "file exists: unknown.", Y.LEGACY, T.START,
        detail="mount error: file creation failed: /var/lib/docker/a.so.1: file exists",
        is_cdi=False),
    Row("S01", f"{P2}{CNA}requesting a CDI device with vendor 'runtime.nvidia.com' is not "
        "supported when requesting other CDI devices", Y.MIXED_AUTOMATIC, T.START, "containerd"),
    Row("S02", 'conflicting device "conflict.com/gpu=d0" (specs "/etc/cdi/a.yaml", '
        '"/etc/cdi/b.yaml")', Y.NAME_CONFLICT, T.UNKNOWN, None, ("conflict.com/gpu=d0",),
        path="/etc/cdi/a.yaml", detail=', "/etc/cdi/b.yaml"'),
    Row("S03", "Error: failed to create containerd container: failed to parse CDI device "
        'annotations: invalid CDI device name ""', Y.MALFORMED_NAME, T.CREATE, "containerd",
        detail='invalid CDI device name ""'),
    Row("S04", 'unqualified device "0", missing vendor', Y.MALFORMED_NAME, T.UNKNOWN, subject="0",
        detail="missing vendor"),
    Row("S05", 'CDI device ("/dev/a", "/dev/nvidia0"), host type mismatch (c, b)', Y.NODE_MISSING,
        T.CREATE, path="/dev/a", detail="host type mismatch (c, b)"),
    Row("S06", f"{DAEMON}CDI device injection failed: no CDI specification directories specified",
        Y.CDI_DISABLED, T.START, "docker"),
    Row("S07", f"{P2}{CNA}failed to create the automatic CDI modifier: failed to generate CDI "
        'spec for mode "auto": failed to construct device spec generators: failed to initialize '
        "NVML: Driver Not Loaded", Y.GENERATE_FAILED, T.START, "containerd",
        detail='failed to generate CDI spec for mode "auto": failed to construct device spec '
        "generators: failed to initialize NVML: Driver Not Loaded"),
    Row("S08", f"{S}CDI device injection failed: something new", Y.INJECTION_FAILED, T.SANDBOX,
        detail="something new"),
    Row("S11", "insufficient privileges to read device list from NVIDIA_VISIBLE_DEVICES envvar",
        Y.ENV_REFUSED, T.START),
    Row("S13", f"{R}failed to fulfil mount request: failed to set MOUNT_ATTR_IDMAP on /dev/null: "
        "invalid argument (maybe the filesystem used doesn't support idmap mounts on this "
        "kernel?)", Y.IDMAP_FAILED, T.START, "containerd", path="/dev/null",
        detail="invalid argument"),
    Row("S14", f"{S}failed to find runtime handler nvidia from runtime list map[crun:0xc0 "
        "runc:0xc1]", Y.HANDLER_MISSING, T.SANDBOX, "cri-o", subject="nvidia"),
    Row("S16", f'{S}failed to start sandbox "a": {P2}unable to retrieve OCI runtime error (open '
        "/run/log.json: no such file or directory): fork/exec /usr/local/nvidia/toolkit/"
        "nvidia-container-runtime: no such file or directory", Y.BINARY_MISSING, T.SANDBOX,
        "containerd", subject="/usr/local/nvidia/toolkit/nvidia-container-runtime"),
    Row("S17", f'{S}failed to start sandbox "a": failed to create containerd task: failed to start '
        'shim: failed to resolve runtime path: runtime "io.containerd.nosuch.v1" binary not '
        'installed "containerd-shim-nosuch-v1": file does not exist', Y.BINARY_MISSING, T.SANDBOX,
        "containerd", subject="io.containerd.nosuch.v1", is_cdi=False),
    Row("S18", "invalid plugin config: no corresponding runtime configured in "
        '`containerd.runtimes` for `containerd` `default_runtime_name = "nvidia"',
        Y.HANDLER_MISSING, T.CONFIGURE, "containerd", subject="nvidia"),
    Row("S19", f"{FCR}invalid runtime mode: jit-cdi", Y.MODE_REFUSED, T.START, subject="jit-cdi",
        detail="invalid runtime mode: jit-cdi"),
    Row("M16", "failed to genereate CDI spec for management containers: no NVIDIA device nodes "
        "found", Y.GENERATE_FAILED, T.GENERATE, detail="no NVIDIA device nodes found"),
    Row("S22", "bash: nvidia-ctk: command not found", Y.GENERATOR_ABSENT, T.GENERATE),
    Row("M15", "Failed to prepare dynamic resources: prepare dynamic resources: claim is not "
        "allocated yet", Y.PREPARE_FAILED, T.PREPARE, detail="claim is not allocated yet"),
    Row("S09", "Error: setting up CDI devices: something new", Y.INJECTION_FAILED, T.CREATE,
        "podman", detail="something new"),
    Row("S24", "Error: container create failed: read status from sync socket: No such process",
        Y.RUNTIME_DIED, T.CREATE, "cri-o", detail="No such process"),
    Row("S24", "Error: container create failed: read from sync socket", Y.RUNTIME_DIED, T.CREATE,
        "cri-o", detail="read from sync socket", is_cdi=False),
    Row("M24", f"{R}error running prestart hook #0: fork/exec /usr/libexec/cni-hook: no such file "
        "or directory", Y.HOOK_MISSING, T.START, "containerd", hook="/usr/libexec/cni-hook",
        detail="no such file or directory", is_cdi=False),
    Row("M27", "Error: crun: error executing hook `/usr/libexec/oci/hooks.d/oci-systemd-hook` "
        "(exit code: 1)", Y.HOOK_FAILED, T.START, "podman",
        hook="/usr/libexec/oci/hooks.d/oci-systemd-hook", detail="exit code: 1", is_cdi=False),
    Row("M18", f'{R}error mounting "/var/lib/kubelet/pods/0f8e1c2a-1111-2222-3333-444455556666/'
        'volumes/kubernetes.io~configmap/nvidia-config/a.conf" to rootfs: not a directory',
        Y.MOUNT_FAILED, T.START, "containerd", path="/var/lib/kubelet/pods/0f8e1c2a-1111-2222-3333-"
        "444455556666/volumes/kubernetes.io~configmap/nvidia-config/a.conf",
        detail="to rootfs: not a directory", is_cdi=False),
    Row("M18", f'{R}error mounting "/usr/lib/amd64/libfoo.so" to rootfs: no such file',
        Y.MOUNT_FAILED, T.START, "containerd", path="/usr/lib/amd64/libfoo.so",
        detail="to rootfs: no such file", is_cdi=False),
    Row("M18", f'{R}error mounting "/dev/kfd" to rootfs: no such file', Y.MOUNT_FAILED, T.START,
        "containerd", path="/dev/kfd", detail="to rootfs: no such file"),
    Row("M42", f'{DAEMON}could not select device driver "nvidia" with capabilities: [[gpu]].',
        Y.MODE_CONFLICT, T.START, "docker"),
    Row("M42", f"{DAEMON}Unknown runtime specified nvidia.", Y.HANDLER_MISSING, T.CREATE,
        "docker", subject="nvidia"),
    Row("M45", 'failed to get handler: runtimeclass.node.k8s.io "nvidia-legacy" not found',
        Y.RUNTIME_CLASS_MISSING, T.ADMISSION, subject="nvidia-legacy"),
    Row("M18", "Error: OCI runtime error: crun: mount `/usr/lib/libcuda.so.550.90.07` to "
        "`usr/lib/libcuda.so.550.90.07`: No such file or directory", Y.MOUNT_FAILED, T.START,
        "podman", path="/usr/lib/libcuda.so.550.90.07", detail="No such file or directory"),
    Row("M21", 'level=error msg="failed to save CDI spec: failed to write spec: open '
        '/etc/cdi/nvidia.yaml: permission denied"', Y.SPEC_WRITE_FAILED, T.GENERATE,
        path="/etc/cdi/nvidia.yaml", detail="permission denied"),
    Row("M03", 'CDI: Failed to inject CDI devices: Unresolvable CDI devices ["a.b/c=0", "a.b/c=1"]',
        Y.UNRESOLVABLE, T.START, None, ("a.b/c=0", "a.b/c=1")),
    Row("S25", "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.",
        Y.NOT_INJECTED, T.RUNNING, subject="libnvidia-ml.so"),
    Row("S23", 'Back-off pulling image "nvcr.io/nvidia/cuda:99"', Y.IMAGE, T.CREATE,
        detail="Back-off pulling image", is_cdi=False),
]  # fmt: skip


def one(text: str) -> Failure:
    (failure,) = extract(text)
    return failure


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.format}-{n}" for n, row in enumerate(ROWS)])
def test_the_wording_is_read(row: Row) -> None:
    found = one(row.text)
    assert found.format == row.format
    assert found.symptom is row.symptom
    assert found.stage is row.stage
    assert (found.engine and found.engine.value) == row.engine
    assert found.names == row.names
    assert found.path == row.path
    assert found.hook == row.hook
    assert found.subject == row.subject
    assert found.detail == row.detail
    assert found.is_cdi is row.is_cdi
    assert found.truncated is row.truncated


NOT_FAILURES = [
    "",
    "Successfully assigned default/gpu-pod to gpu-17",
    "systemctl restart nvidia-cdi-refresh.service",
    "Injecting devices using CDI: [nvidia.com/gpu=all]",
    "failed to create containerd task: failed to create shim task: context deadline exceeded",
    'exec: "python3": executable file not found in $PATH',
    "the Pod asks for nvidia.com/gpu=1 and the node has nvidia.com/gpu=all",
    "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
    'level=warning msg="Could not locate libnvidia-nscq.so: pattern libnvidia-nscq.so not found"',
]


@pytest.mark.parametrize("text", NOT_FAILURES)
def test_a_text_without_a_failure_gives_none(text: str) -> None:
    assert extract(text) == ()


def test_two_messages_of_one_report_are_two_failures_in_their_order() -> None:
    found = extract(
        f'{DAEMON}could not select device driver "cdi" with capabilities: [].\n'
        f"{DAEMON}CDI device injection failed: unresolvable CDI devices {NAME}."
    )
    assert [item.format for item in found] == ["M10", "M07"]


def test_the_same_failure_in_state_and_event_is_one() -> None:
    message = f"{P2}{CNA}failed to inject CDI devices: unresolvable CDI devices {NAME}"
    (failure,) = extract(f"Message: {message}\nEvents:\n  Warning  Failed  1s  kubelet {message}\n")
    assert failure.names == (NAME,)


def test_an_earlier_event_of_another_kind_does_not_set_the_stage() -> None:
    (failure,) = extract(
        f"  Warning  FailedCreatePodSandBox  9s  kubelet  {S}failed to setup network\n"
        f"  Warning  Failed  3s  kubelet  Error: {P2}{CNA}failed to inject CDI devices: "
        f"unresolvable CDI devices {NAME}\n"
    )
    assert failure.stage is Stage.START


@pytest.mark.parametrize("tail", ["management.nvidia.com/", "manage", "management.nvidia.com/gpu"])
def test_a_name_cut_before_its_device_is_dropped_and_told(tail: str) -> None:
    found = one(f"unresolvable CDI devices {NAME}, {tail}")
    assert found.names == (NAME,)
    assert found.truncated


def test_an_empty_device_is_a_malformed_name() -> None:
    found = one("unresolvable CDI devices management.nvidia.com/gpu=, nvidia.com/gpu=all")
    assert found.names == ("management.nvidia.com/gpu=", NAME)
    assert found.malformed == ("management.nvidia.com/gpu=",)


def test_a_request_with_a_leading_blank_stays_one_name() -> None:
    found = one("unresolvable CDI devices nvidia.com/gpu= nvidia.com/gpu=all")
    assert found.names == ("nvidia.com/gpu= nvidia.com/gpu=all",)
    assert found.malformed == found.names


def test_a_log_of_a_megabyte_is_read() -> None:
    line = f'time="1" level=error msg="{P2}{CNA}failed to inject CDI devices: unresolvable CDI devices {NAME}"\n'
    (failure,) = extract("noise without end " * 30_000 + line * 1_000)
    assert failure.names == (NAME,)


@pytest.mark.parametrize(
    "filling",
    [" ", "\n", "\\", "[", "(", "GPU-", "nvidia.com/gpu=", "a.b/c=", "u n r ", '"', "> ", "| ", "_",
     "''", '""', "<b", "&amp;", "^[[", "claim=9\n", "/a", 'error mounting "/',
     "failed to load CDI Spec ", f"{'x' * 79}\n"],
)  # fmt: skip
def test_no_filling_keeps_reading_from_an_end(filling: str) -> None:
    # What grows with the square of the length takes hours here, and a test has a minute.
    text = "Name:  a\nNode:  b\nAnnotations:  c: d\n" + filling * (400_000 // len(filling))
    (subject,) = read_report(f"{text}unresolvable CDI devices {filling * 50_000}x").subjects
    assert subject.pod is not None

"""For each cause two situations that differ in the one decisive fact, and so in the verdict.

Where files decide, the situations are trees judged by the agent's own pass: the same text, or the
same silent Pod, on both. Where a program's words decide, they are texts that differ in those words.
Causes that a node shows without any failure have their trees in ``tests/node/test_twins.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from tests.diagnosis.scenes import (
    BOOT_FILES,
    BOOT_ID,
    BOOT_S,
    CHECKPOINT,
    HOST_SPEC,
    MANAGEMENT_SPEC,
    PLUGIN_SPEC,
    TOOLKIT_CONFIG,
    Scene,
    checkpoint,
    config,
    look,
    spec,
)
from tests.trees import c00

from gpucdi.api import (
    GpuDevice,
    GpuStatus,
    KindStatus,
    MissingNames,
    NodeState,
    NodeStatus,
)
from gpucdi.diagnosis import Confidence, Diagnosis, diagnose_all, diagnose_silent
from gpucdi.failures import extract, pod_view
from gpucdi.findings import Cause, Finding, Severity

U0, U1 = c00.UUIDS
ALIEN = "GPU-aaaaaaaa-b7e4-8cb0-69a8-40490ce01a2f"
MIG = "MIG-798aaddd-12d0-9210-35c8-00ead725a442"
CNA = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "could not apply required modification to OCI specification: error modifying OCI spec: "
)
RUNC = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
    "runc create failed: unable to start container process: error during container init: "
)
MANAGEMENT = "management.nvidia.com/gpu"
PLAIN = "nvidia.com/gpu"
JIT = f"{CNA}failed to create the automatic CDI modifier: failed to generate CDI spec for mode "
GENERATE = "failed to generate CDI spec: failed to create device CDI specs: "
HOOK = f"{RUNC}error running createContainer hook #0: "


def unresolvable(*names: str) -> str:
    return f"{CNA}failed to inject CDI devices: unresolvable CDI devices {', '.join(names)}"


def gpus(first: GpuDevice) -> GpuStatus:
    return replace(c00.GPUS, devices=(first, c00.GPUS.devices[1]))


@dataclass(frozen=True)
class Situation:
    """A failing text, or a running Pod where there is none, with what is known of its node."""

    text: str = ""
    scene: Scene | None = None
    status: NodeStatus | None = None
    pod: Mapping[str, object] = field(default_factory=dict)


def tell(situation: Situation, place: Path) -> Diagnosis | None:
    failures = extract(situation.text)
    node = situation.status
    if situation.scene is not None:
        node = look(situation.scene, place, failures)
    pod = pod_view(situation.pod) if situation.pod else None
    if failures:
        return diagnose_all(failures, pod=pod, node=node)[0]
    if pod is None or node is None:
        return None
    return diagnose_silent(pod=pod, node=node)


def on(text: str, **scene: object) -> Situation:
    return Situation(text, Scene(**scene))  # type: ignore[arg-type]


def a_pod(runtime_class: str = "nvidia", visible: str = "all") -> dict[str, object]:
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": visible}]
    return {"spec": {"runtimeClassName": runtime_class, "containers": [{"name": "c", "env": env}]}}


def finding(cause: Cause, kind: str | None = None) -> Finding:
    return Finding(cause, Severity.WARNING, "seen on the node", "mend it", kind=kind)


def drifted(cause: Cause, *findings: Finding) -> NodeStatus:
    kind = KindStatus(
        PLAIN, managed=True, expected=1, missing=MissingNames(1, ("all",)), cause=cause
    )
    return NodeStatus(state=NodeState.DRIFTED, gpus=c00.GPUS, kinds=(kind,), findings=findings)


PLAIN_CONFIG = {TOOLKIT_CONFIG: config()}
WHOLE = spec(PLAIN, "0", "1", U0, U1, "all")
NEW_FIELD = WHOLE + "containerEdits:\n  additionalGids: [44]\n"
EMPTY_EDITS = f'cdiVersion: "0.5.0"\nkind: {PLAIN}\ndevices:\n- name: all\n'
NUMBERED = (
    f'cdiVersion: "0.5.0"\nkind: {PLAIN}\ndevices:\n- name: all\n  containerEdits:\n'
    "    deviceNodes:\n    - path: /dev/nvidia-uvm\n      type: c\n      major: {major}\n"
)


def numbered(major: int) -> Situation:
    files = PLAIN_CONFIG | {HOST_SPEC: NUMBERED.replace("{major}", str(major))}
    return Situation("", Scene(files=files), pod=a_pod())


def engine_with(answer: str) -> Scene:
    """Return a node with a claim's spec and containerd's CDI support on or off."""
    change = ("enable_cdi = true", f"enable_cdi = {answer}")
    claim = spec("k8s.gpu.nvidia.com/claim", "7-gpu-0")
    places = ("/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml")
    return Scene(replace=dict.fromkeys(places, change), files={"/run/cdi/claim.yaml": claim})


LIBCUDA = "/usr/lib/x86_64-linux-gnu/libcuda.so.570.86.15"
NO_UVM = ("  - path: /dev/nvidia-uvm\n", "")
ACCEPT = "accept-nvidia-visible-devices-envvar-when-unprivileged = "
UNASKED = replace(c00.GPUS, source="proc")
CLAIM_UID = "973c9807-4b59-a216-7e46-f5733c39173f"
CLAIMING = {"spec": {"containers": [{"name": "c"}], "resourceClaims": [{"name": "gpu"}]}}

CLAIM = f"{CLAIM_UID}-gpu-0"
CLAIM_KIND = "k8s.gpu.nvidia.com/claim"
CLAIM_FAILS = (
    "failed to create containerd container: CDI device injection failed: unresolvable CDI devices "
    f"{CLAIM_KIND}={CLAIM}"
)
CLAIM_FILE = f"/run/cdi/k8s.gpu.nvidia.com-claim_{CLAIM_UID}.yaml"
PREPARED = BOOT_FILES | {CHECKPOINT: checkpoint(CLAIM_UID, f"{CLAIM_KIND}={CLAIM}")}
EMPTY_CLAIM = f'cdiVersion: "0.5.0"\nkind: {CLAIM_KIND}\ndevices:\n- name: {CLAIM}\n'

NODE_BIND_FAILS = (
    "Error: container create failed: runc create failed: unable to start container process: error "
    "during container init: error creating device nodes: mount /dev/nvidiactl:/var/lib/containers/"
    "storage/overlay/065c/merged/dev/nvidiactl (via /proc/self/fd/14), flags: 0x1000: no such file "
    "or directory"
)


def in_mode(mode: str) -> Situation:
    """Return a Pod that asks for a name of a file beside an index, under a handler in ``mode``."""
    files = {TOOLKIT_CONFIG: config(mode=mode), HOST_SPEC: WHOLE}
    return Situation("", Scene(files=files), pod=a_pod(visible=f"{PLAIN}=0,1"))


def by_annotation(mode: str) -> Situation:
    """Return a Pod of the device plugin where the engine injects nothing, and a handler's mode."""
    change = ("enable_cdi = true", "enable_cdi = false")
    places = ("/etc/containerd/config.toml", "/etc/containerd/conf.d/99-nvidia.toml")
    files = {TOOLKIT_CONFIG: config(mode=mode)}
    limits = {"limits": {"nvidia.com/gpu": "1"}}
    containers = [{"name": "c", "resources": limits}]
    scene = Scene(files=files, replace=dict.fromkeys(places, change))
    return Situation(
        "", scene, pod={"spec": {"runtimeClassName": "nvidia", "containers": containers}}
    )


TWINS: dict[Cause, tuple[Situation, Situation]] = {
    Cause.ONLY_ALL_DEVICE: (
        on(unresolvable(f"{MANAGEMENT}={U0}")),
        on(unresolvable(f"{MANAGEMENT}={U0}"), remove=[MANAGEMENT_SPEC]),
    ),
    Cause.KIND_HAS_NO_SPEC: (
        on(unresolvable(f"{MANAGEMENT}=all"), remove=[MANAGEMENT_SPEC]),
        on(unresolvable(f"{MANAGEMENT}=all")),
    ),
    Cause.SPEC_LACKS_DEVICE: (
        on(
            unresolvable(f"{PLAIN}=all"),
            files=PLAIN_CONFIG | {HOST_SPEC: spec(PLAIN, "0", "1", U0, U1)},
        ),
        on(unresolvable(f"{PLAIN}=all"), files=PLAIN_CONFIG | {HOST_SPEC: WHOLE}),
    ),
    Cause.STALE_UUID: (
        on(unresolvable(f"{PLAIN}={ALIEN}"), files=PLAIN_CONFIG),
        on(unresolvable(f"{PLAIN}={ALIEN}"), files=PLAIN_CONFIG, rename_gpu=ALIEN),
    ),
    Cause.UNKNOWN_DEVICE: (
        on(unresolvable(f"{MANAGEMENT}=2")),
        on(unresolvable(f"{MANAGEMENT}=1")),
    ),
    Cause.MIG_PARENT_HIDDEN: (
        on(
            unresolvable(f"{PLAIN}={U0}"),
            files=PLAIN_CONFIG | {HOST_SPEC: spec(PLAIN, "1", U1, "all")},
            gpus=gpus(GpuDevice(U0, 0, 0, mig_enabled=True)),
        ),
        on(
            unresolvable(f"{PLAIN}={U0}"),
            files=PLAIN_CONFIG | {HOST_SPEC: spec(PLAIN, "1", U1, "all")},
            gpus=gpus(GpuDevice(U0, 0, 0, mig_enabled=False)),
        ),
    ),
    Cause.MIG_LAYOUT_CHANGED: (
        on(
            unresolvable(f"{PLAIN}={MIG}"),
            files=PLAIN_CONFIG | {HOST_SPEC: spec(PLAIN, "0:0", MIG, "1", U1, "all")},
            mig=MIG.replace("a442", "a443"),
        ),
        on(
            unresolvable(f"{PLAIN}={MIG}"),
            files=PLAIN_CONFIG | {HOST_SPEC: spec(PLAIN, "0:0", MIG, "1", U1, "all")},
            mig=MIG,
        ),
    ),
    Cause.SAME_DIR_CONFLICT: (
        on(unresolvable(f"{PLAIN}=all"), files=PLAIN_CONFIG | {"/etc/cdi/copy.yaml": WHOLE}),
        on(unresolvable(f"{PLAIN}=all"), files=PLAIN_CONFIG | {"/run/cdi/copy.yaml": WHOLE}),
    ),
    Cause.SPEC_REJECTED: (
        on(unresolvable(f"{PLAIN}=all"), files=PLAIN_CONFIG | {HOST_SPEC: EMPTY_EDITS}),
        on(unresolvable(f"{PLAIN}=all"), files=PLAIN_CONFIG | {HOST_SPEC: WHOLE}),
    ),
    Cause.SPEC_TOO_NEW_FOR_READER: (
        on(
            unresolvable(f"{PLAIN}=all"),
            files=PLAIN_CONFIG | {HOST_SPEC: NEW_FIELD.replace('"0.5.0"', '"0.7.0"')},
            toolkit_version="1.14.0",
        ),
        on(
            unresolvable(f"{PLAIN}=all"),
            files=PLAIN_CONFIG | {HOST_SPEC: NEW_FIELD.replace('"0.5.0"', '"0.7.0"')},
        ),
    ),
    Cause.SPEC_DIR_NOT_READ: (
        on(
            unresolvable(f"{PLAIN}=all"),
            remove=[HOST_SPEC],
            files={
                TOOLKIT_CONFIG: config(spec_dirs=["/etc/cdi"]),
                "/run/cdi/nvidia.yaml": WHOLE,
            },
        ),
        on(
            unresolvable(f"{PLAIN}=all"),
            remove=[HOST_SPEC],
            files=PLAIN_CONFIG | {"/run/cdi/nvidia.yaml": WHOLE},
        ),
    ),
    Cause.SPEC_NOT_READABLE: (
        on(
            unresolvable(f"{PLAIN}=all"),
            files=PLAIN_CONFIG,
            modes={HOST_SPEC: "0600"},
            read_as_uid=1000,
        ),
        on(
            unresolvable(f"{PLAIN}=all"),
            files=PLAIN_CONFIG,
            modes={HOST_SPEC: "0644"},
            read_as_uid=1000,
        ),
    ),
    Cause.DEVICE_NUMBER_CHANGED: (numbered(235), numbered(511)),
    Cause.REQUEST_NOT_READ: (
        Situation("", Scene(), pod=a_pod(runtime_class="runc")),
        Situation("", Scene(), pod=a_pod(runtime_class="runc", visible="void")),
    ),
    Cause.SPEC_DIR_MISSING: (
        on(unresolvable(f"{MANAGEMENT}=all"), remove=["/etc/cdi", "/run/cdi"]),
        on(
            unresolvable(f"{MANAGEMENT}=all"),
            remove=[HOST_SPEC, "/run/cdi"],
        ),
    ),
    Cause.DEVICE_NODE_MISSING: (
        Situation("", Scene(files=PLAIN_CONFIG, device_numbers={"/dev/nvidia1": ()}), pod=a_pod()),
        Situation("", Scene(files=PLAIN_CONFIG), pod=a_pod()),
    ),
    Cause.MOUNT_SOURCE_MISSING: (
        on(f"{RUNC}failed to fulfil mount request: open {LIBCUDA}: no such file", remove=[LIBCUDA]),
        on(
            f"{RUNC}failed to fulfil mount request: open {LIBCUDA}: no such file",
            remove=[LIBCUDA],
            files={f"/run/nvidia/driver{LIBCUDA}": ""},
        ),
    ),
    Cause.DRIVER_ROOT_WRONG: (
        on(
            f"{RUNC}failed to fulfil mount request: open {LIBCUDA}: no such file",
            remove=[LIBCUDA],
            files={f"/run/nvidia/driver{LIBCUDA}": ""},
        ),
        on(f"{RUNC}failed to fulfil mount request: open {LIBCUDA}: no such file", remove=[LIBCUDA]),
    ),
    Cause.HOOK_MISSING: (
        Situation(f"{HOOK}fork/exec /usr/bin/nvidia-ctk: no such file or directory"),
        Situation(f"{HOOK}exit status 1, stdout: , stderr: failed to create link"),
    ),
    Cause.HOOK_TOO_OLD: (
        Situation(f"{HOOK}exit status 3, stdout: , stderr: No help topic for 'enable-cuda-compat'"),
        Situation(f"{HOOK}exit status 3, stdout: , stderr: failed to run 'enable-cuda-compat'"),
    ),
    Cause.HOOK_FAILED: (
        Situation(f"{HOOK}exit status 1, stdout: , stderr: failed to update ldcache"),
        Situation(
            f"{HOOK}exit status 1, stdout: , stderr: Auto-detected mode as 'legacy'\n"
            "nvidia-container-cli: ldcache error: process terminated"
        ),
    ),
    Cause.MEMORY_LIMIT_REJECTED: (
        Situation(
            f"{RUNC}error running hook #0: exit status 1, stdout: , stderr: setting GPU memory "
            "limits is only supported in cgroup v2"
        ),
        Situation(
            f"{RUNC}error running hook #0: exit status 127, stdout: , stderr: undefined symbol: "
            "nvmlDeviceSetMemoryLimits_v1"
        ),
    ),
    Cause.GENERATOR_MISSING: (
        Situation("sh: nvidia-ctk: command not found"),
        Situation("sh: nvtop: command not found"),
    ),
    Cause.GENERATOR_FAILED: (
        Situation(f"{GENERATE}error getting GPU device minor number: Not Supported"),
        Situation(f"{GENERATE}failed to initialize NVML: Driver Not Loaded"),
    ),
    Cause.REFRESH_UNIT_FAILED: (
        Situation("nvidia-cdi-refresh.service: Failed with result 'exit-code'."),
        Situation("nvidia-cdi-refresh.service: Deactivated successfully."),
    ),
    Cause.DRIVER_NOT_READY: (
        Situation(f"{GENERATE}failed to initialize NVML: Driver Not Loaded"),
        Situation(f"{GENERATE}failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"),
    ),
    Cause.DRIVER_MISMATCH: (
        on("Failed to initialize NVML: Driver/library version mismatch", gpus=UNASKED),
        on("Failed to initialize NVML: Driver/library version mismatch"),
    ),
    Cause.FOREIGN_SPEC_STALE: (
        Situation("", Scene(files=PLAIN_CONFIG, driver="575.64.05"), pod=a_pod()),
        Situation("", Scene(files=PLAIN_CONFIG, driver="570.86.15"), pod=a_pod()),
    ),
    Cause.DRIVER_TOO_OLD: (
        Situation(f"{GENERATE}failed to initialize NVML: Function Not Found"),
        Situation(f"{GENERATE}failed to initialize NVML: Driver Not Loaded"),
    ),
    Cause.GPU_LOST: (
        Situation(f"{GENERATE}error getting device handle for index '0': GPU is lost"),
        Situation(f"{GENERATE}error getting device handle for index '0': Unknown"),
    ),
    Cause.JIT_GENERATION_FAILED: (
        Situation(unresolvable("runtime.nvidia.com/gpu=all")),
        Situation(unresolvable("nvidia.com/gpu=all")),
    ),
    Cause.MIXED_AUTOMATIC_KIND: (in_mode("auto"), in_mode("cdi")),
    Cause.MALFORMED_REQUEST: (
        on(unresolvable(f"{MANAGEMENT}={U0}::0")),
        on(unresolvable(f"{MANAGEMENT}={U0}")),
    ),
    Cause.VOID_MOUNT_SKEW: (
        on(unresolvable(f"{MANAGEMENT}=void")),
        on(unresolvable(f"{MANAGEMENT}=none")),
    ),
    Cause.DEVICE_WITHOUT_NODE: (
        Situation("", Scene(files=PLAIN_CONFIG, replace={HOST_SPEC: NO_UVM}), pod=a_pod()),
        Situation("", Scene(files=PLAIN_CONFIG), pod=a_pod()),
    ),
    Cause.USER_NAMESPACE_IDMAP: (
        on(NODE_BIND_FAILS),
        on(NODE_BIND_FAILS, device_numbers={"/dev/nvidiactl": ()}),
    ),
    Cause.ENGINE_CDI_DISABLED: (
        Situation("", engine_with("false"), pod=CLAIMING),
        Situation("", engine_with("true"), pod=CLAIMING),
    ),
    Cause.HANDLER_MISSING: (
        Situation('Failed to create pod sandbox: no runtime for "nvidia" is configured'),
        Situation('Failed to create pod sandbox: no network for "nvidia" is configured'),
    ),
    Cause.MODE_CONFLICT: (by_annotation("legacy"), by_annotation("cdi")),
    Cause.DRA_CLAIM_SPEC_LOST: (
        on(CLAIM_FAILS, files=PREPARED),
        on(CLAIM_FAILS, files=PREPARED | {CLAIM_FILE: EMPTY_CLAIM}),
    ),
    Cause.ENV_REQUEST_REFUSED: (
        Situation("", Scene(replace={TOOLKIT_CONFIG: (f"{ACCEPT}true", f"{ACCEPT}false")}), pod=a_pod()),
        Situation("", Scene(), pod=a_pod()),
    ),
    Cause.DEVICE_ACCESS_DENIED: (
        Situation("Failed to initialize NVML: Insufficient Permissions"),
        Situation("Failed to initialize NVML: Driver/library version mismatch"),
    ),
    Cause.CONFIG_UNREADABLE: (
        Situation("containerd: failed to unmarshal TOML at row 9 column 2: toml: table exists"),
        Situation('no corresponding runtime configured in containerd.runtimes for containerd '
                  'default_runtime_name = "nvidia"'),
    ),
    Cause.NOT_CDI: (
        Situation("nvidia-container-cli: device error: GPU-1: unknown device"),
        Situation(unresolvable(f"{MANAGEMENT}=GPU-1")),
    ),
    Cause.UNDETERMINED: (
        Situation(unresolvable(f"{PLAIN}=all")),
        Situation(
            'failed to load CDI Spec failed to parse CDI Spec "/etc/cdi/nvidia.yaml": failed to '
            f'unmarshal CDI Spec: json: unknown field "x"\n{unresolvable(f"{PLAIN}=all")}'
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize("cause", TWINS, ids=str)
def test_the_decisive_fact_gives_the_cause(cause: Cause, tmp_path: Path) -> None:
    found = tell(TWINS[cause][0], tmp_path / "root")
    assert found is not None
    assert found.cause is cause, found.summary


@pytest.mark.parametrize("cause", TWINS, ids=str)
def test_without_the_decisive_fact_the_verdict_is_another(cause: Cause, tmp_path: Path) -> None:
    found = tell(TWINS[cause][1], tmp_path / "root")
    assert found is None or found.cause is not cause, found.summary


def test_a_refused_repair_contributes_and_is_not_promised_again() -> None:
    (failure,) = extract(unresolvable(f"{PLAIN}=all"))
    refused = drifted(Cause.KIND_HAS_NO_SPEC, finding(Cause.REPAIR_REFUSED, PLAIN))
    allowed = drifted(Cause.KIND_HAS_NO_SPEC)
    without, with_it = (diagnose_all([failure], node=node)[0] for node in (allowed, refused))
    assert without.repairable
    assert not with_it.repairable
    assert with_it.contributing == (Cause.REPAIR_REFUSED,)


def test_an_index_is_missing_of_a_kind_with_only_all_even_where_nvml_was_not_asked(
    tmp_path: Path,
) -> None:
    unasked = replace(c00.GPUS, source="proc", devices=tuple(GpuDevice(uuid) for uuid in c00.UUIDS))
    found = tell(on(unresolvable(f"{MANAGEMENT}=0"), gpus=unasked), tmp_path / "root")
    assert found is not None
    assert found.cause is Cause.ONLY_ALL_DEVICE


def test_a_kind_with_only_all_is_known_even_without_an_inventory(tmp_path: Path) -> None:
    found = tell(on(unresolvable(f"{MANAGEMENT}={U0}"), gpus=GpuStatus()), tmp_path / "root")
    assert found is not None
    assert found.cause is Cause.ONLY_ALL_DEVICE
    assert "the GPUs of the node" in found.not_seen


CTKS = ["/usr/local/nvidia/toolkit", "/usr/bin/nvidia-ctk"]


def without(*programs: str) -> Situation:
    """Return a failure on a Podman host that lacks its spec and these programs."""
    engine = ["/etc/containerd", HOST_SPEC, MANAGEMENT_SPEC, PLUGIN_SPEC]
    text = f"Error: setting up CDI devices: {unresolvable(f'{PLAIN}=all').partition(': ')[2]}"
    return on(text, remove=[*engine, *programs], engines={"podman": "5.6.0"})


def test_what_to_install_comes_first_only_where_no_generator_is_anywhere(tmp_path: Path) -> None:
    found = tell(without(*CTKS), tmp_path / "none")
    others = [tell(without(kept), tmp_path / f"has{count}") for count, kept in enumerate(CTKS)]
    assert found is not None
    assert Cause.GENERATOR_MISSING in found.contributing
    assert found.advice[0].text.startswith("install the NVIDIA Container Toolkit")
    assert not any("nvidia-ctk" in (item.command or "") for item in found.advice)
    assert not found.repairable
    for other in others:
        assert other is not None
        assert Cause.GENERATOR_MISSING not in other.contributing
        assert any("nvidia-ctk cdi generate" in (item.command or "") for item in other.advice)


def podman_reads(version: str) -> Situation:
    """Return a failure on a Podman host with a spec that declares CDI 0.5.0."""
    text = f"Error: setting up CDI devices: {unresolvable(f'{PLAIN}=all').partition(': ')[2]}"
    gone = ["/etc/containerd", MANAGEMENT_SPEC, PLUGIN_SPEC]
    return on(text, remove=gone, files={HOST_SPEC: WHOLE}, engines={"podman": version})


def test_a_version_that_an_old_reader_does_not_know_is_too_new_for_it_alone(
    tmp_path: Path,
) -> None:
    old, new = (tell(podman_reads(each), tmp_path / each) for each in ("4.2.0", "4.3.0"))
    assert old is not None
    assert old.cause is Cause.SPEC_TOO_NEW_FOR_READER
    assert "declares CDI 0.5.0, and that reader's library is 0.4.0" in old.summary
    assert new is not None
    assert new.resolved_now


def test_a_pod_without_a_user_namespace_of_its_own_leaves_the_cause_less_sure() -> None:
    failures = extract(NODE_BIND_FAILS)
    shown = pod_view({"spec": {"hostUsers": False, "containers": [{"name": "c"}]}})
    unseen, seen = (diagnose_all(failures, pod=pod)[0] for pod in (None, shown))
    assert unseen.confidence is Confidence.MEDIUM
    assert Cause.DEVICE_NODE_MISSING in unseen.candidates
    assert seen.confidence is Confidence.HIGH
    assert any(item.key == "spec.hostUsers" for item in seen.evidence)


def claiming_on(
    *, written_s: int, boot_id: str | None = None, state: str = "PrepareCompleted"
) -> Situation:
    """Return a running Pod with a claim whose spec is there, and the driver's checkpoint."""
    held = checkpoint(CLAIM_UID, f"{CLAIM_KIND}={CLAIM}", state=state, boot_id=boot_id)
    files = BOOT_FILES | {CHECKPOINT: held, CLAIM_FILE: spec(CLAIM_KIND, CLAIM)}
    scene = Scene(files=files, modified={CHECKPOINT: written_s})
    return Situation("", scene, pod=CLAIMING)


@pytest.mark.parametrize(
    ("lost", "kept"),
    [
        (claiming_on(written_s=BOOT_S - 3600), claiming_on(written_s=BOOT_S + 3600)),
        (
            claiming_on(written_s=BOOT_S - 3600, boot_id="another"),
            claiming_on(written_s=BOOT_S - 3600, boot_id=BOOT_ID),
        ),
        (
            claiming_on(written_s=BOOT_S - 3600),
            claiming_on(written_s=BOOT_S - 3600, state="PrepareStarted"),
        ),
    ],
    ids=["written before this boot", "of another boot id", "a claim that is prepared"],
)
def test_a_running_pods_claim_is_lost_only_where_the_checkpoint_is_of_another_boot(
    lost: Situation, kept: Situation, tmp_path: Path
) -> None:
    found = tell(lost, tmp_path / "lost")
    assert found is not None
    assert found.cause is Cause.DRA_CLAIM_SPEC_LOST
    other = tell(kept, tmp_path / "kept")
    assert other is None or other.cause is not Cause.DRA_CLAIM_SPEC_LOST


def test_every_cause_has_its_twins() -> None:
    assert set(Cause) - set(TWINS) == {Cause.REPAIR_REFUSED}


def test_a_plugins_spec_is_left_to_the_plugin(tmp_path: Path) -> None:
    text = (
        "failed to create containerd container: CDI device injection failed: unresolvable CDI "
        f"devices k8s.device-plugin.nvidia.com/gpu={U0}"
    )
    found = tell(on(text, remove=[PLUGIN_SPEC]), tmp_path / "root")
    assert found is not None
    assert found.cause is Cause.KIND_HAS_NO_SPEC
    assert not found.repairable
    assert "device plugin" in found.advice[0].text

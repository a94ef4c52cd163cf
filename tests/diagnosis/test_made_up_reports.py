"""Texts that no report in the collection has: other vendors, other engines, other ways to paste.

Made from the known wordings alone, so that the rules are held to what carries over.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gpucdi.diagnosis import diagnose_all
from gpucdi.failures import extract
from gpucdi.findings import Cause

CLAIM = "k8s.gpu.amd.com/claim=6b1f0b52-7d1e-4c7e-9f2b-0d9a3c6f1e77-gpu-0"
U0, U1 = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f", "GPU-9c1d2f60-3a57-1e84-b0c6-5d7e81f2a943"
MANAGEMENT = "management.nvidia.com/gpu"


@dataclass(frozen=True)
class Told:
    text: str
    cause: Cause
    stage: str
    engine: str | None = None
    names: tuple[str, ...] = ()
    path: str | None = None


REPORTS = {
    "an AMD claim in a terminal of 80 columns that breaks words": Told(
        "  Warning  Failed   12s (x4 over 49s)  kubelet  Error: failed to create containe\n"
        "rd container: CDI device injection failed: unresolvable CDI devices k8s.gpu.amd.\n"
        f"com/{CLAIM.partition('/')[2]}\n",
        Cause.DRA_CLAIM_SPEC_LOST,
        "create",
        "containerd",
        (CLAIM,),
    ),
    "two devices in a folded YAML text": Told(
        "message: >-\n  failed to create containerd task: failed to create shim task: OCI runtime "
        "create\n  failed: could not apply required modification to OCI specification: error "
        "modifying\n  OCI spec: failed to inject CDI devices: unresolvable CDI devices "
        f"{MANAGEMENT}={U0},\n  {MANAGEMENT}={U1}",
        Cause.ONLY_ALL_DEVICE,
        "start",
        "containerd",
        (f"{MANAGEMENT}={U0}", f"{MANAGEMENT}={U1}"),
    ),
    "an AMD node that the host lacks": Told(
        "failed to create containerd container: CDI device injection failed: failed to inject "
        'devices: failed to stat CDI host device "/dev/kfd": no such file or directory',
        Cause.DEVICE_NODE_MISSING,
        "create",
        "containerd",
        path="/dev/kfd",
    ),
    "an AMD spec for a newer reader": Told(
        'failed to load CDI Spec failed to parse CDI Spec "/etc/cdi/amd.json": failed to unmarshal '
        "CDI Spec: yaml: unmarshal errors:\n  line 9: field netDevices not found in type "
        "specs.ContainerEdits",
        Cause.SPEC_TOO_NEW_FOR_READER,
        "unknown",
        path="/etc/cdi/amd.json",
    ),
    "a name with HTML around it": Told(
        f"&quot;failed to inject CDI devices: unresolvable CDI devices {MANAGEMENT}=0&quot;</td>",
        Cause.ONLY_ALL_DEVICE,
        "start",
        names=(f"{MANAGEMENT}=0",),
    ),
    "a mix that CRI-O passes on": Told(
        "Error: container create failed: could not apply required modification to OCI "
        "specification: error modifying OCI spec: requesting a CDI device with vendor "
        "'runtime.nvidia.com' is not supported when requesting other CDI devices",
        Cause.MIXED_AUTOMATIC_KIND,
        "create",
        "cri-o",
    ),
    "a generator's error in a wrapped message": Told(
        "Error: failed to create containerd task: failed to create shim task: OCI runtime create "
        "failed: could not apply required\nmodification to OCI specification: error modifying OCI "
        "spec: failed to create the automatic CDI modifier: failed to\ngenerate CDI spec for mode "
        '"auto": failed to construct device spec generators: failed to initialize NVML: Driver Not'
        "\nLoaded: unknown",
        Cause.DRIVER_NOT_READY,
        "start",
        "containerd",
    ),
    "a claim that a HAMi driver will not prepare again after a reboot": Told(
        "Warning  FailedPrepareDynamicResources  3s  kubelet  Failed to prepare dynamic resources: "
        "NodePrepareResources failed for ResourceClaim c: error preparing devices for claim "
        "t/c:973c9807: claims in PrepareCompleted state are not supported when HAMiCoreSupport "
        "enabled",
        Cause.DRA_CLAIM_SPEC_LOST,
        "prepare",
    ),
    "a claim spec in a directory that cannot be written": Told(
        "Failed to prepare dynamic resources: NodePrepareResources failed for ResourceClaim gpu: "
        "error preparing devices for claim a/gpu:973c9807: prepare devices failed: failed to write "
        "spec: open /var/run/cdi/k8s.gpu.nvidia.com-claim_973c9807.yaml: read-only file system",
        Cause.SPEC_DIR_MISSING,
        "prepare",
    ),
    "a plugin of HAMi's that sees no driver": Told(
        'F0112 08:00:00.123456 1 main.go:42] "Incompatible strategy detected auto"',
        Cause.GENERATOR_FAILED,
        "generate",
    ),
    "MIG mode without instances": Told(
        "error getting MIG devices: device 0 has no MIG devices configured",
        Cause.MIG_LAYOUT_CHANGED,
        "generate",
    ),
    "a claim of a driver whose checkpoint is damaged": Told(
        "Failed to prepare dynamic resources: prepare dynamic resources: NodePrepareResources failed "
        "for ResourceClaim c: error preparing devices for claim t/c:973c9807: unable to get "
        "checkpoint: checkpoint is corrupted",
        Cause.GENERATOR_FAILED,
        "prepare",
    ),
    "a hook of other software": Told(
        "Error: crun: error executing hook `/usr/libexec/oci/hooks.d/oci-systemd-hook` (exit code: "
        "1)",
        Cause.NOT_CDI,
        "start",
        "podman",
    ),
    "an accelerator's library that the host lacks": Told(
        'runc create failed: error mounting "/usr/lib/habanalabs/libSynapse.so" to rootfs at '
        '"/usr/lib/habanalabs/libSynapse.so": no such file or directory: unknown',
        Cause.MOUNT_SOURCE_MISSING,
        "start",
        path="/usr/lib/habanalabs/libSynapse.so",
    ),
    "a hook that was killed": Told(
        "runc create failed: error running createContainer hook #0: signal: killed, stdout: , "
        "stderr: ",
        Cause.HOOK_FAILED,
        "start",
    ),
}


@pytest.mark.parametrize("name", REPORTS)
def test_the_rules_carry_over(name: str) -> None:
    wanted = REPORTS[name]
    main = diagnose_all(extract(wanted.text))[0]
    assert main.cause is wanted.cause, main.summary
    assert main.failure.stage.value == wanted.stage
    assert (main.failure.engine and main.failure.engine.value) == wanted.engine
    assert main.failure.names == wanted.names
    assert wanted.path in {None, main.failure.path}
    assert main.advice


@pytest.mark.parametrize(
    "text",
    [
        "device 0 has MIG devices configured",
        "error running createContainer hooks of systemd: signal: killed",
        "claims in PrepareStarted state: 0 (of 1)",
    ],
)
def test_words_that_only_resemble_a_failure_are_none(text: str) -> None:
    assert not extract(text)

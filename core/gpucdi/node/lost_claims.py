"""Claims that a DRA driver holds as prepared, and whose devices are not prepared any more.

Owns: the comparison of checkpoints with this boot and with the specs that are there. Must not know:
Pods. Whoever's claims they are, their specs are only read here: nobody but the driver writes them.

A checkpoint outlives a reboot; claim specs (tmpfs), MIG instances, VFIO bindings and MPS daemons do
not. Three facts tell, the surest first: devices of a prepared claim that no file defines, the boot
id in the checkpoint, and a file of a driver without boot ids that was last written before this boot.
A file written since says nothing of the older claims in it. Sources: kubernetes-sigs/
dra-driver-nvidia-gpu issue 951 and pull request 1066, kubernetes/kubernetes issue 141433.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from posixpath import dirname

from gpucdi.cdi import DEFAULT_SPEC_DIRS, Reader, Registry, UnresolvedReason
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.host import HostTree
from gpucdi.node.checkpoints import Boot, Checkpoint, PreparedClaim, read_checkpoints, this_boot
from gpucdi.node.observation import ASSUMED_LIBRARY, Observation

_NOWHERE = frozenset({UnresolvedReason.NO_SUCH_KIND, UnresolvedReason.KIND_LACKS_NAME})
_NAMES_TOLD = 3
# A clock that is set while the host starts moves both times a little.
_CLOCK_SLACK_S = 60
_NEW_DRIVER = "upgrade the DRA driver to 0.4.0 or newer, which notices a reboot"
_RECREATE = f"delete the Pods of these claims with their ResourceClaims, and {_NEW_DRIVER}"
_RESTART = (
    "start the DRA driver's Pod of this node: it drops a checkpoint of another boot and prepares the "
    "claims anew"
)


def lost_claim_findings(observation: Observation, host: HostTree) -> Iterator[Finding]:
    """Yield one finding for each checkpoint whose claims are not what it says."""
    found = tuple(read_checkpoints(host))
    if not found:
        return
    yield from _denied([checkpoint for checkpoint in found if checkpoint.is_denied])
    boot = this_boot(host)
    registries = [reader.registry for reader in observation.readers]
    registries.append(Reader(DEFAULT_SPEC_DIRS, ASSUMED_LIBRARY).load(host))
    for checkpoint in found:
        if checkpoint.is_denied:
            continue
        if checkpoint.problem:
            yield _not_known(checkpoint)
        elif checkpoint.claims:
            yield from _judged(checkpoint, boot, registries)


def _not_known(checkpoint: Checkpoint) -> Finding:
    return Finding(
        cause=Cause.UNDETERMINED,
        severity=Severity.INFO,
        message=f"{checkpoint.problem}: whether the claims that {checkpoint.driver} prepared "
        "survived the last reboot is not known",
        advice="read the log of the DRA driver's Pod: it does not start with a file that it cannot "
        "read",
        who=Who.ADMIN,
        file=checkpoint.path,
    )


def _denied(checkpoints: Sequence[Checkpoint]) -> Iterator[Finding]:
    """Yield one finding for each folder of plugins: what lies in it, if anything, is not seen."""
    for folder in dict.fromkeys(dirname(dirname(item.path)) for item in checkpoints):
        drivers = [item.driver for item in checkpoints if item.path.startswith(f"{folder}/")]
        why = next(item.problem for item in checkpoints if item.path.startswith(f"{folder}/"))
        yield Finding(
            cause=Cause.UNDETERMINED,
            severity=Severity.INFO,
            message=f"gpucdi may not look for checkpoints of {' and '.join(drivers)} ({why}): "
            "whether claims that they prepared survived the last reboot is not known",
            advice="where a DRA driver of NVIDIA runs, look as root (gpucdi-agent inspect, or an "
            "agent that may read this folder); elsewhere nothing is to be done",
            who=Who.ADMIN,
            file=folder,
        )


def _judged(
    checkpoint: Checkpoint, boot: Boot, registries: Sequence[Registry]
) -> Iterator[Finding]:
    gone = [name for claim in checkpoint.claims for name in _gone(claim, registries)]
    earlier = _earlier_boot(checkpoint, boot)
    if not gone and not earlier:
        return
    count = len(checkpoint.claims)
    held = f"holds {count} claim{'' if count == 1 else 's'} as prepared"
    if gone:
        listed = ", ".join(gone[:_NAMES_TOLD]) + (" …" if len(gone) > _NAMES_TOLD else "")
        facts = [f"no spec file defines {listed}", *([earlier] if earlier else [])]
        message = f"{held}, and {'; it '.join(facts)}"
    else:
        message = f"{held} and {earlier}: what was prepared with them is gone since the reboot"
    names = gone or [name for claim in checkpoint.claims for name in claim.names]
    has_boot_id = checkpoint.boot_id is not None
    yield Finding(
        cause=Cause.DRA_CLAIM_SPEC_LOST,
        severity=Severity.ERROR if gone else Severity.WARNING,
        message=message,
        advice=_RESTART if has_boot_id and earlier else _RECREATE,
        who=Who.COMPONENT if has_boot_id and earlier else Who.USER,
        file=checkpoint.path,
        key=checkpoint.key,
        kind=f"k8s.{checkpoint.driver}/claim",
        names=tuple(names),
    )


def _gone(claim: PreparedClaim, registries: Sequence[Registry]) -> tuple[str, ...]:
    """Return the claim's names that no file defines or means to define, whoever reads it."""
    missing = []
    for name in claim.names:
        reasons = [registry.resolve([name]).why.get(name) for registry in registries]
        if all(why is not None and why.reason in _NOWHERE for why in reasons):
            missing.append(name)
    return tuple(missing)


def _earlier_boot(checkpoint: Checkpoint, boot: Boot) -> str:
    """Return the words that the checkpoint is of an earlier boot, ``""`` if that is not shown."""
    if checkpoint.boot_id is not None:
        if boot.id is None or boot.id == checkpoint.boot_id:
            return ""
        return f"belongs to boot {checkpoint.boot_id}, and this is boot {boot.id}"
    written, began = checkpoint.modified_s, boot.began_s
    if written is None or began is None or written + _CLOCK_SLACK_S > began:
        return ""
    return f"was last written {_time(written)}, before this boot ({_time(began)})"


def _time(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        return f"at second {seconds}"

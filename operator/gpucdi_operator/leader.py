"""One replica writes: leader election by a Lease, and the fence that keeps it so.

Owns: taking, renewing and giving back the Lease, and the answer to *may I write now*. The fence is
monotonic time: a process that was stopped and wakes finds its time run out and does not write, even
before it learns who leads now. Source of the protocol: kubernetes/client-go
``tools/leaderelection``. Must not know: what is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucdi.api import fields
from gpucdi.api.names import OPERATOR_LEASE
from gpucdi_kube import Clock, KubeApi, KubeError, KubeObject, paths
from gpucdi_kube.clock import rfc3339_micro
from gpucdi_kube.errors import AlreadyExists, Conflict
from gpucdi_operator.logs import log
from gpucdi_operator.options import Timing

STANDBY_POLL_S = 1.0
# A duration that a person or a fault has put there keeps nobody from leading for longer.
LONGEST_S = 600.0
INT32_MAX = 2**31 - 1
READS = frozenset({"get", "list", "watch"})


class NotLeadingError(KubeError):
    """This replica may not write now; whoever leads will."""


@dataclass(slots=True)
class Renewals:
    """Whether whoever holds a Lease still renews it, by our own clock: a holder's may be wrong."""

    clock: Clock
    usual_s: float
    _seen: tuple[str, str] = ("", "")
    _seen_at: float = float("-inf")

    def have_stopped(self, spec: Mapping[str, object]) -> bool:
        """Take the spec of a Lease; tell whether it has stood unchanged for longer than it holds."""
        seen = fields.text(spec, "holderIdentity"), fields.text(spec, "renewTime")
        now = self.clock.monotonic()
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        return now - self._seen_at > self._holds_s(spec)

    def _holds_s(self, spec: Mapping[str, object]) -> float:
        """Return for how long a Lease holds; one that holds for ever, or never, is nobody's."""
        told = fields.integer(spec, "leaseDurationSeconds")
        return min(told, LONGEST_S) if told > 0 else self.usual_s


@dataclass(slots=True)
class Elector:
    """See the module. ``api`` must not retry for longer than the Lease lasts."""

    api: KubeApi
    clock: Clock
    timing: Timing
    identity: str
    namespace: str
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _valid_until: float = float("-inf")
    _other: Renewals = field(init=False)

    def __post_init__(self) -> None:
        """Begin to watch whoever else may lead."""
        self._other = Renewals(self.clock, self.timing.lease_s)

    @property
    def is_leader(self) -> bool:
        """True while our Lease certainly still holds."""
        return self.clock.monotonic() < self._valid_until - self.timing.fence_margin_s

    def guard(self, verb: str) -> None:
        """Refuse to write when we do not lead; the adapter calls this before each attempt."""
        if verb not in READS and not self.is_leader:
            raise NotLeadingError(f"{verb}: {self.identity} does not hold the Lease")

    async def run(self) -> None:
        """Stand for election until cancelled; ``changed`` is set at each change."""
        was_leader = False
        while True:
            try:
                await self._step()
            except KubeError as error:
                if was_leader or self.is_leader:
                    log("the Lease could not be renewed", 30, error=str(error))
            if self.is_leader is not was_leader:
                was_leader = self.is_leader
                log("leading" if was_leader else "no longer leading", identity=self.identity)
                self.changed.set()
            await self.clock.sleep(self.timing.renew_s if was_leader else STANDBY_POLL_S)

    async def release(self) -> None:
        """Give the Lease back, so that the other replica need not wait for it to expire."""
        was_leader, self._valid_until = self.is_leader, float("-inf")
        if not was_leader:
            return
        path = paths.lease(OPERATOR_LEASE, self.namespace)
        try:
            lease = await self.api.get(path)
            if lease is not None and self._holder(lease) == self.identity:
                spec = {**fields.mapping(lease, "spec"), "holderIdentity": ""}
                await self.api.replace(path, {**lease, "spec": spec})
                log("the Lease is given back", identity=self.identity)
        except KubeError as error:
            log("the Lease could not be given back and will expire", 30, error=str(error))

    async def _step(self) -> None:
        # The Lease counts from before the request: the answer may be slow.
        started = self.clock.monotonic()
        lease = await self.api.get(paths.lease(OPERATOR_LEASE, self.namespace))
        try:
            if lease is None:
                await self.api.create(paths.leases(self.namespace), self._lease(None))
            elif self._may_take(lease):
                path = paths.lease(OPERATOR_LEASE, self.namespace)
                await self.api.replace(path, self._lease(lease))
            else:
                self._valid_until = float("-inf")
                return
        except (Conflict, AlreadyExists):
            # Someone else was faster; the next look tells who.
            return
        self._valid_until = started + self.timing.lease_s

    def _may_take(self, lease: Mapping[str, object]) -> bool:
        holder = self._holder(lease)
        if holder in {"", self.identity}:
            return True
        return self._other.have_stopped(fields.mapping(lease, "spec"))

    @staticmethod
    def _holder(lease: Mapping[str, object]) -> str:
        return fields.text(fields.mapping(lease, "spec"), "holderIdentity")

    def _lease(self, old: Mapping[str, object] | None) -> KubeObject:
        now = rfc3339_micro(self.clock.now())
        before = fields.mapping(old, "spec")
        is_ours = old is not None and self._holder(old) == self.identity
        changes = fields.integer(before, "leaseTransitions") + (old is not None and not is_ours)
        if not 0 <= changes <= INT32_MAX:
            changes = 0
        metadata: object = {"name": OPERATOR_LEASE, "namespace": self.namespace}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata if old is None else old.get("metadata"),
            "spec": {
                "holderIdentity": self.identity,
                "leaseDurationSeconds": int(self.timing.lease_s),
                "acquireTime": fields.text(before, "acquireTime", now) if is_ours else now,
                "renewTime": now,
                "leaseTransitions": changes,
            },
        }

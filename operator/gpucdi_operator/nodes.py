"""Reconciles one node: the condition on its Node, the spec and the owner of its GpuCdiStatus.

Owns: the writes and that nothing is written when nothing differs. What should be there is decided
by ``decide``. Must not know: Pods, kopf.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from gpucdi.api import GROUP, KIND_STATUS, VERSION, Condition, NameRequest
from gpucdi.api.names import OPERATOR_MANAGER
from gpucdi_kube import Clock, KubeApi, KubeError, KubeObject, paths
from gpucdi_kube.clock import rfc3339
from gpucdi_kube.errors import Invalid, NotFound
from gpucdi_operator import conditions, decide, specs
from gpucdi_operator.asked import Asked
from gpucdi_operator.disputes import Disputes
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.policies import Ruling
from gpucdi_operator.store import NodeRecord, StatusRecord, Store
from gpucdi_operator.taints import Tainter


@dataclass(slots=True)
class NodeReconciler:
    """See the module.

    ``asked`` is what failing Pods ask for, by node; ``rulings`` what policies say of each node.
    """

    api: KubeApi
    store: Store
    clock: Clock
    metrics: Metrics
    tainter: Tainter
    asked: dict[str, Asked] = field(default_factory=dict)
    rulings: dict[str, Ruling] = field(default_factory=dict)
    _settled: dict[str, tuple[object, ...]] = field(default_factory=dict)
    _conditions: Disputes = field(init=False)
    _specs: Disputes = field(init=False)

    def __post_init__(self) -> None:
        """Begin without a dispute."""
        self._conditions, self._specs = Disputes(self.clock), Disputes(self.clock)

    async def reconcile(self, name: str) -> None:
        """Bring the cluster to what is decided for the node ``name``."""
        node, record = self.store.nodes.get(name), self.store.statuses.get(name)
        if node is None:
            return
        refused: KubeError | None = None
        # The spec first, which carries the holds; and what cannot be written keeps nothing else back.
        for write in (self._spec, self._condition, self._taint):
            try:
                await write(node, record)
            except NotLeadingError:
                raise
            except KubeError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    def request(self, node: str, wanted: Iterable[NameRequest]) -> bool:
        """Note names to make resolvable on a node; tell whether its spec is to be written."""
        record = self.store.statuses.get(node)
        if record is None:
            return False
        present, asked = record.intent.requests, self.asked.setdefault(node, Asked())
        return asked.ask(present, wanted, self.clock.monotonic()) != present

    def forget(self, node: str) -> None:
        """Forget a Node that is gone."""
        self.asked.pop(node, None)
        self._settled.pop(node, None)
        self._conditions.forget(node)
        self._specs.forget(node)

    async def show_risk(self, name: str, count: int | None) -> None:
        """Show how many running Pods of a node would not start again; ``None`` takes it back."""
        record = self.store.statuses.get(name)
        if record is None or record.pods_at_risk == count:
            return
        body: KubeObject = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": KIND_STATUS,
            "metadata": {"name": name, "uid": record.uid},
            "status": {} if count is None else {"podsAtRisk": count},
        }
        try:
            answer = await self.api.apply(
                paths.gpu_cdi_status_status(name), body, field_manager=OPERATOR_MANAGER, force=True
            )
        except KubeError as error:
            # Gone, made anew, or refused: no reason to leave the other nodes uncounted.
            log("Pods at risk not shown", 30, node=name, error=str(error))
            return
        self._wrote(StatusRecord.of(answer))

    def _wrote(self, answer: StatusRecord) -> None:
        """Keep what we wrote into a GpuCdiStatus; the watch tells the same.

        What its agent has written meanwhile is left to the watch: kept from the answer it would be
        no news any more when the watch tells it, and nobody would act on it.
        """
        current = self.store.statuses.get(answer.name)
        if current is None or current.uid != answer.uid:
            # Gone, or another one of the same name: the answer does not tell of that one.
            return
        # Where the watch was quicker, it knows better.
        if answer.version >= current.version:
            ours = replace(
                current,
                intent=answer.intent,
                generation=answer.generation,
                owner_uids=answer.owner_uids,
                pods_at_risk=answer.pods_at_risk,
            )
            self.store.put_status(ours)

    async def _condition(self, node: NodeRecord, record: StatusRecord | None) -> None:
        marked = self._is_marked(node.name)
        if record is not None and marked is None:
            return
        wanted = decide.node_condition(
            record if marked else None, silent=node.name in self.store.silent
        )
        if wanted is None and node.condition is not None:
            await self._write_condition(node, None)
            return
        change = decide.difference(wanted, node.condition, rfc3339(self.clock.now()))
        if change is not None:
            await self._write_condition(node, change)

    def _is_marked(self, name: str) -> bool | None:
        """Tell whether a node is to carry the condition.

        ``None`` is not known yet: policies exist, and the governor will come back with the node.
        """
        ruling = self.rulings.get(name)
        if ruling is not None:
            return ruling.marked
        return None if self.store.policies else True

    async def _write_condition(self, node: NodeRecord, condition: Condition | None) -> None:
        says = condition and (condition.status, condition.reason, condition.message)
        self._conditions.check(node.name, says, f"the condition of Node {node.name}")
        try:
            answer = await conditions.write(self.api, node.name, condition)
        except NotFound:
            # The Node is gone; its DELETED event is on its way.
            return
        self._conditions.wrote(node.name, says)
        self.metrics.condition_writes.labels(
            condition.status.value if condition else "removed"
        ).inc()
        log(
            "node condition written" if condition else "node condition removed",
            node=node.name,
            status=condition and condition.status.value,
            reason=condition and condition.reason,
        )
        # The watch will tell the same; until then this keeps us from writing again. With the version
        # of the answer, so that what the watch still brings from before it is known to be older.
        seen, current = NodeRecord.of(answer), self.store.nodes.get(node.name)
        if current is None or current.uid != seen.uid:
            # Gone, or another Node of the same name: the answer does not tell of that one.
            return
        if seen.version >= current.version:
            self.store.put_node(replace(current, condition=seen.condition, version=seen.version))

    async def _taint(self, node: NodeRecord, record: StatusRecord | None) -> None:
        ruling = self.rulings.get(node.name)
        if record is not None and ruling is None:
            return
        wanted = record is not None and ruling is not None and ruling.taint
        present = self.store.nodes.get(node.name)
        if present is None or present.tainted is wanted:
            return
        if not await self.tainter.set(node.name, wanted=wanted):
            return
        current = self.store.nodes.get(node.name)
        if current is not None and current.uid == node.uid:
            self.store.put_node(replace(current, tainted=wanted))

    async def _spec(self, node: NodeRecord, record: StatusRecord | None) -> None:
        if record is None:
            return
        asked = self.asked.get(node.name, Asked())
        requests = asked.over(record.intent.requests, self.clock.monotonic())
        ruling = self.rulings.get(node.name)
        if ruling is None:
            # Not ruled over yet: writing now would take back what a policy has set. The governor
            # comes back with this node.
            return
        is_met = node.uid in record.owner_uids and ruling.is_met_by(record.intent)
        if is_met and requests == record.intent.requests:
            return
        settled = (record.uid, record.generation, node.uid, ruling, requests)
        if self._settled.get(node.name) == settled:
            # What still differs was set by a person, where no policy has a say.
            return
        self._specs.check(node.name, (ruling, requests), f"the spec of GpuCdiStatus {node.name}")
        try:
            written = await self._write_spec(node, record, requests, ruling)
        except Invalid:
            if not is_met and requests != record.intent.requests:
                # Whatever becomes of the names, what a policy says must reach the node.
                await self._write_spec(node, record, record.intent.requests, ruling)
            raise
        self._specs.wrote(node.name, (ruling, requests))
        self._settled[node.name] = (
            written.uid,
            written.generation,
            node.uid,
            ruling,
            written.intent.requests,
        )

    async def _write_spec(
        self,
        node: NodeRecord,
        record: StatusRecord,
        requests: tuple[NameRequest, ...],
        ruling: Ruling,
    ) -> StatusRecord:
        now = rfc3339(self.clock.now())
        written = await specs.write(self.api, node, record, requests, ruling, now=now)
        self._wrote(written)
        if written.generation != record.generation:
            log(
                "spec written",
                node=node.name,
                policy=ruling.policy,
                mode=written.intent.mode.value,
                hold=written.intent.hold and written.intent.hold.reason,
            )
        return written

"""Evicts the Pods that ``restarts`` decides on, and tells each of them why.

Owns: Namespaces, the rate of a policy, the eviction and its Event. A Pod is evicted, never deleted:
the API server then asks its disruption budget, and Jobs see a disruption and no failure. The
eviction names the Pod's uid, so neither a second leader nor a lost answer ends a Pod of the same
name. Must not know: which Pods benefit.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from gpucdi.api import fields
from gpucdi.api.names import EVENT_RESTARTED
from gpucdi.api.policy import RestartConfig
from gpucdi_kube import Clock, KubeApi, KubeError, KubeObject, paths
from gpucdi_kube.clock import parse_time, rfc3339
from gpucdi_kube.errors import Conflict, Forbidden, NotFound, TooManyRequests
from gpucdi_operator import restarts
from gpucdi_operator.diagnosing import Explanation
from gpucdi_operator.events import ANNOTATION_POLICY, Note, Recorder
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Timing
from gpucdi_operator.podfacts import PodKey, key_of
from gpucdi_operator.restarts import Restart
from gpucdi_operator.rights import Feature, Rights, is_rbac
from gpucdi_operator.store import PolicyRecord, Store

MINUTE_S = 60.0
# Labels of Namespaces are read again after this, and those of so many are kept at most.
NAMESPACE_KEPT_S = 60.0
NAMESPACES_KEPT = 500
# After these the eviction may have happened all the same.
_UNSURE = frozenset({0, 503, 504})


@dataclass(slots=True)
class Rate:
    """So many in any minute; ``at`` are the monotonic times of those of the last one."""

    at: deque[float] = field(default_factory=deque)

    def wait_s(self, limit: int, now: float) -> float:
        """Return how long until one more is within ``limit``; 0 for now."""
        while self.at and now - self.at[0] >= MINUTE_S:
            self.at.popleft()
        return 0.0 if len(self.at) < limit else self.at[-limit] + MINUTE_S - now


@dataclass(frozen=True, slots=True)
class _Evicted:
    """A Pod as it was, and what is to be told of it."""

    pod: KubeObject
    why: restarts.Why
    note: Note


@dataclass(slots=True)
class Restarter:
    """See the module. ``api`` must not retry: a budget's refusal is an answer for minutes.

    ``warm`` is false until it is known what an earlier leader did in the last minute.
    """

    api: KubeApi
    store: Store
    clock: Clock
    metrics: Metrics
    timing: Timing
    recorder: Recorder
    nodes: NodeReconciler
    rights: Rights
    warm: bool = False
    _rates: dict[str, Rate] = field(default_factory=lambda: defaultdict(Rate))
    _labels: dict[str, tuple[float, dict[str, str]]] = field(default_factory=dict)
    _tried: dict[PodKey, _Evicted] = field(default_factory=dict)

    def begin(self) -> None:
        """Forget what was known of rates: another leader may have evicted since."""
        self.warm = False
        self._rates.clear()
        self._labels.clear()

    def saw_restarted(self, event: Mapping[str, object]) -> None:
        """Count an Event of an earlier leader towards the rate of its policy."""
        moment = parse_time(fields.text(event, "eventTime"))
        policy = fields.text(
            fields.mapping(fields.mapping(event, "metadata"), "annotations"), ANNOTATION_POLICY
        )
        if moment is None or not policy:
            return
        age_s = max(0.0, (self.clock.now() - moment).total_seconds())
        if age_s < MINUTE_S:
            rate = self._rates[policy]
            rate.at = deque(sorted((*rate.at, self.clock.monotonic() - age_s)))

    async def consider(self, pod: KubeObject, explanations: Sequence[Explanation]) -> float | None:
        """Restart the Pod if that is decided and allowed; return in how many seconds to ask again.

        ``None`` means that only a change of the Pod or its node can lead to a restart.
        """
        record, config = self._policy(pod)
        if record is None or config is None:
            return None
        try:
            return await self._considered(pod, explanations, record, config)
        except Forbidden:
            namespace = fields.text(fields.mapping(pod, "metadata"), "namespace")
            self.rights.lacks(record.name, Feature.RESTARTS, namespace)
            raise

    async def _considered(
        self,
        pod: KubeObject,
        explanations: Sequence[Explanation],
        record: PolicyRecord,
        config: RestartConfig,
    ) -> float | None:
        if not await self._is_chosen(pod, config):
            return None
        # Nothing is awaited between this and the eviction.
        chosen = self._decided(pod, explanations, record, config)
        if chosen is None:
            return None
        wait_s = max(
            (chosen.not_before - self.clock.now()).total_seconds(),
            self._rates[record.name].wait_s(config.per_minute, self.clock.monotonic()),
        )
        if wait_s > 0 or not self.warm:
            return max(wait_s, self.timing.pod_get_s)
        return await self._evict(pod, chosen, record)

    async def settle(self, key: PodKey) -> None:
        """Tell of a Pod that is going, if it was us and nobody was told yet."""
        if key not in self._tried:
            return
        gone = self._tried[key]
        node = self.store.nodes.get(fields.text(fields.mapping(gone.pod, "spec"), "nodeName"))
        if await self.recorder.record(gone.pod, gone.note, node_uid=node.uid if node else ""):
            self.metrics.restarted.labels(gone.why.value).inc()
        self._tried.pop(key, None)

    def drop(self, key: PodKey) -> None:
        """Forget a Pod that nobody follows any more."""
        self._tried.pop(key, None)

    def _policy(self, pod: KubeObject) -> tuple[PolicyRecord | None, RestartConfig | None]:
        ruling = self.nodes.rulings.get(fields.text(fields.mapping(pod, "spec"), "nodeName"))
        record = self.store.policies.get(ruling.policy) if ruling is not None else None
        return record, record.policy.restarts if record is not None else None

    def _decided(
        self,
        pod: KubeObject,
        explanations: Sequence[Explanation],
        record: PolicyRecord,
        config: RestartConfig,
    ) -> Restart | None:
        node = fields.text(fields.mapping(pod, "spec"), "nodeName")
        since = restarts.resolved_since(
            self.store.statuses.get(node),
            self.nodes.rulings.get(node),
            record.breaker,
            silent=node in self.store.silent,
            now=self.clock.now(),
        )
        if since is None:
            return None
        return restarts.decide(
            pod,
            explanations,
            since,
            after=timedelta(seconds=config.after_s),
            settle=timedelta(seconds=self.timing.restart_settle_s),
        )

    async def _is_chosen(self, pod: KubeObject, config: RestartConfig) -> bool:
        namespace = fields.text(fields.mapping(pod, "metadata"), "namespace")
        if config.selector is None:
            return namespace in config.namespaces
        return config.selector.matches(await self._labels_of(namespace))

    async def _labels_of(self, namespace: str) -> dict[str, str]:
        now = self.clock.monotonic()
        at, labels = self._labels.get(namespace, (float("-inf"), {}))
        if now - at < NAMESPACE_KEPT_S:
            return labels
        self.rights.check(Feature.RESTARTS, namespace)
        try:
            body = await self.api.get(paths.namespace(namespace))
        except Forbidden:
            self._not_granted(namespace)
            raise
        found = fields.mapping(fields.mapping(body, "metadata"), "labels")
        labels = {key: fields.text(found, key) for key in found}
        self._keep(namespace, now, labels)
        return labels

    def _keep(self, namespace: str, now: float, labels: dict[str, str]) -> None:
        """Keep labels until they are too old; Namespaces come and go as long as one leads."""
        self._labels.pop(namespace, None)
        self._labels[namespace] = (now, labels)
        # The order is that of the reads, so that the first is the oldest.
        oldest = next(iter(self._labels))
        while (
            len(self._labels) > NAMESPACES_KEPT or now - self._labels[oldest][0] >= NAMESPACE_KEPT_S
        ):
            del self._labels[oldest]
            oldest = next(iter(self._labels))

    async def _evict(self, pod: KubeObject, chosen: Restart, record: PolicyRecord) -> float | None:
        meta = fields.mapping(pod, "metadata")
        namespace, name = fields.text(meta, "namespace"), fields.text(meta, "name")
        key = key_of(pod)
        self.rights.check(Feature.RESTARTS, namespace)
        rate, now = self._rates[record.name], self.clock.monotonic()
        rate.at.append(now)
        self._tried[key] = _Evicted(pod, chosen.why, _note(pod, chosen, record.name))
        try:
            await self.api.create(paths.pod_eviction(namespace, name), _eviction(meta))
        except KubeError as error:
            if isinstance(error, NotLeadingError) or error.code not in _UNSURE:
                # Certainly not done; the Pod may be tried again, by whoever leads then.
                self._tried.pop(key, None)
                with suppress(ValueError):
                    rate.at.remove(now)
            return self._later(error, namespace)
        self.rights.granted(Feature.RESTARTS, namespace)
        log("Pod evicted", pod=f"{namespace}/{name}", why=chosen.why.value, policy=record.name)
        await self.settle(key)
        return None

    def _later(self, error: KubeError, namespace: str) -> float | None:
        """Return when to ask again after a refusal that is an answer; raise any other error."""
        if isinstance(error, TooManyRequests):
            self._count("DisruptionBudget" if "disruption budget" in str(error) else "Busy")
            return max(error.retry_after_s, self.timing.restart_later_s)
        if isinstance(error, NotFound | Conflict):
            # Gone, or another Pod of that name: the next look tells.
            return self.timing.pod_recheck_s
        if isinstance(error, Forbidden) and not is_rbac(error):
            self._count("Admission")
            return self.timing.restart_later_s
        if isinstance(error, Forbidden):
            self._not_granted(namespace)
        raise error

    def _not_granted(self, namespace: str) -> None:
        self._count("Rights")
        self.rights.refused(Feature.RESTARTS, namespace)

    def _count(self, by: str) -> None:
        self.metrics.restarts_refused.labels(by).inc()


def _eviction(meta: Mapping[str, object]) -> KubeObject:
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {key: fields.text(meta, key) for key in ("name", "namespace")},
        "deleteOptions": {"preconditions": {"uid": fields.text(meta, "uid")}},
    }


_BECAUSE = {
    restarts.Why.STILL_WAITS: "and this Pod still waits",
    restarts.Why.NEVER_STARTED_AGAIN: (
        "and kubelet never starts a container again whose Pod says restartPolicy: Never"
    ),
    restarts.Why.NAMES_FIXED: (
        "but this Pod asks for names that were chosen at its admission and are gone"
    ),
}


def _note(pod: KubeObject, chosen: Restart, policy: str) -> Note:
    node = fields.text(fields.mapping(pod, "spec"), "nodeName")
    since = rfc3339(chosen.not_before)
    return Note(
        "Normal",
        EVENT_RESTARTED,
        "Evict",
        f"The CDI device names of node {node} resolve again, {_BECAUSE[chosen.why]}. It was evicted "
        f"so that {chosen.owner} makes it anew (policy {policy}; due since {since}).",
        policy=policy,
    )

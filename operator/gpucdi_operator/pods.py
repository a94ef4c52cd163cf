"""Follows failing Pods: explains each once, asks the agent to help, tells when it runs again.

Owns: the life of a tracked Pod. A Pod is *restored* when it was explained and its containers run;
that its names resolve again is not enough, because kubelet may wait five minutes before it tries.
While a node's names resolve, its explained Pods are looked at again and again until they run.
Must not know: kopf, texts, causes.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from gpucdi.api import fields
from gpucdi.api.names import EVENT_RESTORED, EVENT_UNRESOLVABLE
from gpucdi_kube import Clock, KubeApi, KubeObject, paths
from gpucdi_operator.diagnosing import Explanation, explain
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Timing
from gpucdi_operator.podfacts import PodKey, is_told_as, key_of, runs
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.restarter import Restarter
from gpucdi_operator.store import Store

TRACKED_LIMIT = 20_000
TEXTS_KEPT = 3
# kubelet's texts are a few hundred; the names of 16 GPUs are under a thousand.
TEXT_CHARACTERS = 8_192
# A replica that begins to lead leaves Pods to the lists that it has not heard of for so long.
HEARD_S = 600.0


@dataclass(slots=True)
class Track:
    """What is remembered of a Pod. Times are monotonic; ``explained`` maps causes to times."""

    seen_at: float
    heard_at: float = float("-inf")
    node: str = ""
    texts: deque[str] = field(default_factory=lambda: deque(maxlen=TEXTS_KEPT))
    explained: dict[str, float] = field(default_factory=dict)


@dataclass(slots=True)
class PodReconciler:
    """See the module.

    ``aliases`` maps keys that Events are told under to those of the API server; ``looked`` is when
    Pods were read, the oldest first.
    """

    api: KubeApi
    store: Store
    clock: Clock
    metrics: Metrics
    timing: Timing
    recorder: Recorder
    queue: KeyedQueue[PodKey]
    node_queue: KeyedQueue[str]
    nodes: NodeReconciler
    restarter: Restarter
    tracks: dict[PodKey, Track] = field(default_factory=dict)
    aliases: dict[PodKey, PodKey] = field(default_factory=dict)
    looked: OrderedDict[PodKey, float] = field(default_factory=OrderedDict)

    def saw_event(self, key: PodKey, text: str) -> None:
        """Take the text of a Warning Event that tells of CDI."""
        key = self.aliases.get(key, key)
        track, kept = self.track(key), text[:TEXT_CHARACTERS]
        track.heard_at = self.clock.monotonic()
        if kept not in track.texts:
            track.texts.append(kept)
        self.queue.add(key)

    def begin(self) -> None:
        """Forget the Pods that only came by while another replica led.

        They may be many, and most of them gone; each would cost a GET before the first that fails
        now. One that still fails is found by its next Event, our own Events, or its node's list.
        """
        before = self.clock.monotonic() - HEARD_S
        for key, track in list(self.tracks.items()):
            if not track.explained and track.heard_at < before:
                self._drop(key)

    def saw_explained(self, key: PodKey, cause: str) -> None:
        """Take over from an earlier leader: this Pod was explained and not yet restored."""
        self.track(key).explained.setdefault(cause, self.clock.monotonic())
        self.queue.add(key)

    @property
    def failing(self) -> int:
        """Return how many explained Pods do not run yet."""
        return sum(bool(track.explained) for track in self.tracks.values())

    def track(self, key: PodKey) -> Track:
        """Return the track of a Pod; the oldest goes where there are too many."""
        found = self.tracks.get(key)
        if found is None:
            if len(self.tracks) >= TRACKED_LIMIT:
                self._drop(next(iter(self.tracks)))
            found = self.tracks[key] = Track(self.clock.monotonic())
        return found

    def forget(self, key: PodKey) -> None:
        """Stop following a Pod."""
        self.tracks.pop(key, None)
        self.queue.discard(key)
        self.restarter.drop(key.uid)
        for told in [told for told, known in self.aliases.items() if known == key]:
            del self.aliases[told]

    def _drop(self, key: PodKey) -> None:
        self.forget(key)
        self.queue.drop(key)

    def look_at_node(self, node: str) -> None:
        """Look again at the explained Pods of a node whose status has changed."""
        for key, track in self.tracks.items():
            if track.node == node:
                self.queue.add(key)

    async def reconcile(self, key: PodKey) -> None:
        """Look at one Pod now, or as soon as it may be looked at again."""
        if key in self.aliases:
            self.queue.add(self.aliases[key])
            return
        self.track(key)
        wait = self._wait_s(key)
        if wait > 0:
            self.queue.add(key, after_s=wait)
            return
        self._looks_at(key)
        pod = await self.api.get(paths.pod(key.namespace, key.name))
        if pod is not None and is_told_as(pod, key.uid):
            key = self._known_as(key, key_of(pod))
        if pod is None or key_of(pod) != key:
            await self.restarter.settle(key.uid)
            self.forget(key)
            return
        await self.saw_pod(key, pod)

    def _wait_s(self, key: PodKey) -> float:
        """Return how long until the Pod may be read again; also one that was forgotten since."""
        now, after_s = self.clock.monotonic(), self.timing.pod_get_s
        while self.looked and next(iter(self.looked.values())) <= now - after_s:
            self.looked.popitem(last=False)
        return self.looked.get(key, now - after_s) + after_s - now

    def _looks_at(self, key: PodKey) -> None:
        self.looked[key] = self.clock.monotonic()
        self.looked.move_to_end(key)

    def _known_as(self, told: PodKey, key: PodKey) -> PodKey:
        """Go on under the API server's uid with what was told of a Pod under another."""
        if told == key:
            return key
        track = self.track(told)
        self.forget(told)
        known = self.track(key)
        self._looks_at(key)
        known.heard_at = track.heard_at
        known.texts.extend(text for text in track.texts if text not in known.texts)
        self.aliases[told] = key
        return key

    async def saw_pod(self, key: PodKey, pod: KubeObject) -> None:
        """Act on a Pod as it is now."""
        track = self.track(key)
        track.node = fields.text(fields.mapping(pod, "spec"), "nodeName")
        explanations = explain(pod, tuple(track.texts), self.store)
        if explanations and self._node_may_speak(track):
            self.queue.add(key, after_s=self.timing.pod_get_s)
        elif explanations:
            await self._explain(pod, track, explanations)
            self._request(track.node, explanations)
            await self._restart(key, pod, explanations)
            if self._may_run_soon(track, explanations):
                self.queue.add(key, after_s=self.timing.pod_recheck_s)
        elif not track.explained:
            self.forget(key)
        elif runs(pod):
            await self._restored(key, pod, track)
        elif fields.text(fields.mapping(pod, "status"), "phase") in {"Succeeded", "Failed"}:
            self.forget(key)
        else:
            self.queue.add(key, after_s=self.timing.pod_recheck_s)

    def _node_may_speak(self, track: Track) -> bool:
        """Tell whether the status that would name file and cause is still to be expected.

        After a start the Events of failing Pods come in before the statuses, or before an agent
        has made its first pass; an Event without the file would be the only one for half an hour.
        """
        record = self.store.statuses.get(track.node)
        if record is not None and record.status.conditions:
            return False
        return self.clock.monotonic() - track.seen_at < self.timing.node_wait_s

    def _may_run_soon(self, track: Track, explanations: tuple[Explanation, ...]) -> bool:
        record = self.store.statuses.get(track.node)
        resolves = record is not None and record.status.missing == 0
        return resolves or any(item.diagnosis.resolved_now for item in explanations)

    async def _explain(
        self, pod: KubeObject, track: Track, explanations: tuple[Explanation, ...]
    ) -> None:
        causes: dict[str, Explanation] = {}
        for item in explanations:
            # What resolves by now was explained before, or needs no second opinion.
            if not (item.diagnosis.resolved_now and track.explained):
                causes.setdefault(item.cause, item)
        for cause, item in causes.items():
            now = self.clock.monotonic()
            last = track.explained.get(cause)
            if last is not None and now - last < self.timing.event_refresh_s:
                continue
            note = _explaining(item, track.node)
            node_uid = self._node_uid(track.node)
            is_new = await self.recorder.record(
                pod, note, node_uid=node_uid, again=last is not None
            )
            track.explained[cause] = now
            if is_new:
                self.metrics.explained.labels(cause).inc()
                self.metrics.time_to_explain.observe(now - track.seen_at)
                log("Pod explained", pod=str(key_of(pod)), node=track.node, cause=cause)

    def _request(self, node: str, explanations: tuple[Explanation, ...]) -> None:
        wanted = [request for item in explanations for request in item.requests()]
        if wanted and self.nodes.request(node, wanted):
            self.node_queue.add(node)

    async def _restart(
        self, key: PodKey, pod: KubeObject, explanations: tuple[Explanation, ...]
    ) -> None:
        if "deletionTimestamp" in fields.mapping(pod, "metadata"):
            await self.restarter.settle(key.uid)
            return
        again_s = await self.restarter.consider(pod, explanations)
        if again_s is not None:
            self.queue.add(key, after_s=again_s)

    async def _restored(self, key: PodKey, pod: KubeObject, track: Track) -> None:
        note = Note(
            "Normal",
            EVENT_RESTORED,
            "Start",
            f"The CDI devices of this Pod resolve again on node {track.node}; its containers run.",
        )
        if await self.recorder.record(pod, note, node_uid=self._node_uid(track.node)):
            self.metrics.restored.inc()
            waited = self.clock.monotonic() - min(track.explained.values())
            self.metrics.time_to_restore.observe(waited)
            log("Pod restored", pod=str(key_of(pod)), node=track.node)
        self.forget(key)

    def _node_uid(self, node: str) -> str:
        record = self.store.nodes.get(node)
        return record.uid if record is not None else ""


def _explaining(item: Explanation, node: str) -> Note:
    container = item.failure.container
    lists = {
        "initContainerStatuses": "initContainers",
        "ephemeralContainerStatuses": "ephemeralContainers",
    }
    spec_list = lists.get(item.failure.container_list, "containers")
    return Note(
        "Warning",
        EVENT_UNRESOLVABLE,
        "Start",
        item.note(node),
        key=item.cause,
        cause=item.cause,
        field_path=f"spec.{spec_list}{{{container}}}" if container else "",
    )

"""Follows failing Pods: explains each once, asks the agent to help, tells when it runs again.

Owns: the life of a tracked Pod. A Pod is *restored* when it was explained and the containers that
failed have started since, whatever becomes of them; that its names resolve again is not enough,
because kubelet may wait five minutes before it tries. While a node's names resolve,
its explained Pods are looked at again and again until they run. Must not know: kopf, texts, causes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Sequence
from dataclasses import dataclass, field

from gpucdi.api import fields
from gpucdi.failures import EventText
from gpucdi_kube import Clock, KubeApi, KubeObject, paths
from gpucdi_operator.diagnosing import Explanation, explain
from gpucdi_operator.events import Recorder
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.nodes import NodeReconciler
from gpucdi_operator.options import Timing
from gpucdi_operator.podfacts import PodKey, has_ended, has_recovered, is_told_as, key_of
from gpucdi_operator.queue import KeyedQueue
from gpucdi_operator.restarter import Restarter
from gpucdi_operator.store import Store
from gpucdi_operator.telling import Teller
from gpucdi_operator.texts import Texts
from gpucdi_operator.tracks import Track

TRACKED_LIMIT = 20_000
# A replica that begins to lead leaves Pods to the lists that it has not heard of for so long.
HEARD_S = 600.0


@dataclass(slots=True)
class PodReconciler:
    """See the module.

    ``on_node`` are the tracks by their node, as far as it is known; ``aliases`` maps keys that Events
    are told under to those of the API server; ``looked`` is when Pods were read, the oldest first.
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
    teller: Teller = field(init=False)
    tracks: dict[PodKey, Track] = field(default_factory=dict)
    on_node: dict[str, set[PodKey]] = field(default_factory=dict)
    aliases: dict[PodKey, PodKey] = field(default_factory=dict)
    looked: OrderedDict[PodKey, float] = field(default_factory=OrderedDict)
    texts: Texts = field(default_factory=Texts)

    def __post_init__(self) -> None:
        """Make the part that writes what Pods are told."""
        self.teller = Teller(self.store, self.clock, self.metrics, self.timing, self.recorder)

    def saw_event(self, key: PodKey, text: str, told: EventText | None = None) -> None:
        """Take the text of a Warning Event that tells of CDI, and what else the Event tells."""
        key = self.aliases.get(key, key)
        track = self.track(key)
        track.heard_at, track.looks = self.clock.monotonic(), 0
        self.texts.add(key, track, text, told)
        if told is None or told.since is None:
            track.heard_again()
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
        track, now = self.track(key), self.clock.monotonic()
        track.explained.setdefault(cause, now)
        track.due.setdefault(cause, now + self.timing.event_refresh_s)
        self.queue.add(key)

    def saw_restored(self, key: PodKey) -> None:
        """Learn from an earlier leader that this Pod knows that it runs, whatever we told before."""
        track = self.tracks.get(key)
        if track is not None and track.explained:
            track.explained.clear()
            track.due.clear()
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
        track = self.tracks.pop(key, None)
        if track is not None:
            self._place(key, track, "")
            self.texts.leave(key, track)
        self.queue.discard(key)
        self.restarter.drop(key)
        for told in [told for told, known in self.aliases.items() if known == key]:
            del self.aliases[told]

    def _drop(self, key: PodKey) -> None:
        self.forget(key)
        self.queue.drop(key)

    def look_at_node(self, node: str, known: Container[PodKey] = ()) -> None:
        """Look at the Pods of a node, now that it has changed, but at none that is ``known``."""
        for key in self.on_node.get(node, ()):
            if key not in known:
                self.tracks[key].looks = 0
                self.queue.add(key)

    def begin_anew(self, node: str) -> None:
        """Look at the Pods of a node that are looked at every now and then as often as at first."""
        for key in self.on_node.get(node, ()):
            self.tracks[key].looks = 0
            if key in self.queue:
                self.queue.add(key, after_s=self.timing.pod_recheck_s)

    def look_at_the_rest(self, listed: Container[str]) -> None:
        """Look at the Pods that no list of a node shows and that nothing else leads to.

        Such are those of a Node, or of a status, that is gone.
        """
        for key, track in self.tracks.items():
            if track.node not in listed and key not in self.queue:
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
        if pod is not None and is_told_as(pod, key):
            key = self._known_as(key, key_of(pod))
        if pod is None or key_of(pod) != key:
            await self.restarter.settle(key)
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
        for text in track.texts:
            self.texts.add(key, known, text, track.told.get(text))
        self.aliases[told] = key
        return key

    async def saw_pod(self, key: PodKey, pod: KubeObject, *, listed: bool = False) -> None:
        """Act on a Pod as it is now, or as it was when its list was made."""
        track = self.track(key)
        self._place(key, track, fields.text(fields.mapping(pod, "spec"), "nodeName"))
        explanations = explain(pod, track.events(), self.store)
        lasting = tuple(item for item in explanations if not item.failure.is_final)
        final = tuple(item for item in explanations if item.failure.is_final)
        if explanations and self._node_may_speak(track):
            self.queue.add(key, after_s=self.timing.pod_get_s)
            return
        if lasting:
            await self._fails(key, pod, track, lasting, listed=listed)
        if final:
            await self.teller.mention(pod, track, final)
            self._request(track.node, final)
        if not lasting:
            await self._fails_no_more(key, pod, track, final, listed=listed)

    async def _fails_no_more(
        self,
        key: PodKey,
        pod: KubeObject,
        track: Track,
        final: Sequence[Explanation],
        *,
        listed: bool,
    ) -> None:
        """Act on a Pod of which no container fails over CDI that may start again."""
        if not track.explained and not track.unsure:
            # While the Pods of its node are listed, it is remembered what was told for good.
            if not final or not self._is_drifted(track.node):
                self.forget(key)
        elif listed:
            # What it is told next rests on how it is, not on how it was.
            self.queue.add(key)
        elif has_recovered(pod, track.failed):
            await self.teller.restored(pod, track)
            self.forget(key)
        elif has_ended(pod):
            self.forget(key)
        else:
            track.saw_waiting(pod)
            self._recheck(key, track)

    async def _fails(
        self,
        key: PodKey,
        pod: KubeObject,
        track: Track,
        explanations: Sequence[Explanation],
        *,
        listed: bool,
    ) -> None:
        node = track.node
        track.saw_failing(pod, [item.failure for item in explanations])
        try:
            again_s = await self.teller.explain(pod, track, explanations, listed=listed)
        finally:
            if key not in self.tracks:
                # A list and a look have met: it was forgotten while it was told why it fails.
                self.tracks[key] = track
                self.texts.enter(key, track)
                self._place(key, track, node)
                self.queue.add(key)
        if again_s is not None:
            self.queue.add(key, after_s=again_s)
        self._request(track.node, explanations)
        await self._restart(key, pod, explanations)
        if has_ended(pod) and again_s is None and not self._is_drifted(track.node):
            # Nothing starts it again, and nothing on its node is left to be done.
            self.forget(key)
        elif self._may_run_soon(track, explanations):
            self._recheck(key, track)

    def _recheck(self, key: PodKey, track: Track) -> None:
        if key not in self.queue:
            first_s, limit_s = self.timing.pod_recheck_s, self.timing.pod_recheck_limit_s
            self.queue.add(key, after_s=track.recheck_s(first_s, limit_s))

    def _place(self, key: PodKey, track: Track, node: str) -> None:
        """Note on which node a Pod is; none takes it out."""
        if track.node in self.on_node:
            self.on_node[track.node].discard(key)
            if not self.on_node[track.node]:
                del self.on_node[track.node]
        track.node = node
        if node:
            self.on_node.setdefault(node, set()).add(key)

    def _node_may_speak(self, track: Track) -> bool:
        """Tell whether the status that would name file and cause is still to be expected.

        After a start the Events of failing Pods come in before the statuses, or before an agent
        has made its first pass; an Event without the file would be the only one for half an hour.
        """
        record = self.store.statuses.get(track.node)
        if record is not None and record.status.conditions:
            return False
        return self.clock.monotonic() - track.seen_at < self.timing.node_wait_s

    def _is_drifted(self, node: str) -> bool:
        record = self.store.statuses.get(node)
        return record is not None and record.is_drifted

    def _may_run_soon(self, track: Track, explanations: Sequence[Explanation]) -> bool:
        record = self.store.statuses.get(track.node)
        resolves = record is not None and record.status.missing == 0
        return resolves or any(item.diagnosis.resolved_now for item in explanations)

    def _request(self, node: str, explanations: Sequence[Explanation]) -> None:
        wanted = [request for item in explanations for request in item.requests()]
        if wanted and self.nodes.request(node, wanted):
            self.node_queue.add(node)

    async def _restart(
        self, key: PodKey, pod: KubeObject, explanations: Sequence[Explanation]
    ) -> None:
        if "deletionTimestamp" in fields.mapping(pod, "metadata"):
            await self.restarter.settle(key)
            return
        again_s = await self.restarter.consider(pod, explanations)
        if again_s is not None:
            self.queue.add(key, after_s=again_s)

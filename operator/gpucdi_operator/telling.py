"""What a Pod is told by Events: why it fails, that it runs again, and each once a change.

Owns: the notes, and when an Event that exists is observed anew. The name of an Event follows from
its Pod, reason and cause, so a Pod that fails, runs, and fails again meets its own Events: which of
them is the latest tells what the Pod was told last, on every replica. What changed since becomes a
series. A Pod that fails and runs in turn is told so every ``event_again_s`` at most. Must not know:
which Pods are followed, nor when they are read.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpucdi.api.names import EVENT_RESTORED, EVENT_UNRESOLVABLE
from gpucdi_kube import Clock, KubeObject
from gpucdi_operator.diagnosing import Explanation
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.logs import log
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.options import Timing
from gpucdi_operator.podfacts import key_of
from gpucdi_operator.store import Store
from gpucdi_operator.tracks import Track


@dataclass(slots=True)
class Teller:
    """See the module."""

    store: Store
    clock: Clock
    metrics: Metrics
    timing: Timing
    recorder: Recorder

    async def explain(
        self, pod: KubeObject, track: Track, explanations: Iterable[Explanation], *, listed: bool
    ) -> float | None:
        """Tell why a Pod fails; return in how many seconds it is to be read again to tell the rest.

        A Pod that was ``listed`` may be older than what it was told last: where its Event exists
        already it has to be read before it is told that it still fails, or fails again.
        """
        causes: dict[str, Explanation] = {}
        for item in explanations:
            # What resolves by now was explained before, or needs no second opinion.
            if not (item.diagnosis.resolved_now and track.explained):
                causes.setdefault(item.cause, item)
        waits = [
            await self._explain(pod, track, item, listed=listed)
            for cause, item in causes.items()
            if track.due.get(cause, float("-inf")) <= self.clock.monotonic()
        ]
        return min((wait for wait in waits if wait is not None), default=None)

    async def _explain(
        self, pod: KubeObject, track: Track, item: Explanation, *, listed: bool
    ) -> float | None:
        note, again = _explaining(item, track.node), item.cause in track.explained
        if listed and again:
            return 0.0
        node_uid = self._node_uid(track.node)
        wait_s = None
        # An answer may be lost, or the Pod may run before it is known what it was told last.
        track.unsure.add(item.cause)
        is_news = await self.recorder.record(pod, note, node_uid=node_uid, again=again)
        if not is_news and not again:
            if listed:
                return 0.0
            wait_s = await self._fails_again_in_s(pod, item.cause)
            if wait_s == 0.0:
                await self.recorder.repeat(pod, note)
                is_news, wait_s = True, None
        now = self.clock.monotonic()
        track.explained.setdefault(item.cause, now)
        track.unsure.discard(item.cause)
        track.due[item.cause] = now + (self.timing.event_refresh_s if wait_s is None else wait_s)
        if is_news:
            self._count(pod, track, item)
        return wait_s

    async def mention(self, pod: KubeObject, track: Track, final: Iterable[Explanation]) -> None:
        """Tell once why a container failed that nobody starts again; nothing will restore it."""
        if not track.failed and track.explained:
            # An earlier leader has told it, and nothing else is known to have failed.
            track.explained.clear()
            track.mentioned.update(item.failure.container for item in final)
        for item in final:
            # By what it fails may look otherwise as soon as the names resolve.
            if item.failure.container in track.mentioned:
                continue
            if item.cause not in track.explained:
                node_uid = self._node_uid(track.node)
                note = _explaining(item, track.node)
                if await self.recorder.record(pod, note, node_uid=node_uid):
                    self._count(pod, track, item)
            track.mentioned.add(item.failure.container)

    def _count(self, pod: KubeObject, track: Track, item: Explanation) -> None:
        self.metrics.explained.labels(item.cause).inc()
        self.metrics.time_to_explain.observe(self.clock.monotonic() - track.seen_at)
        log("Pod explained", pod=str(key_of(pod)), node=track.node, cause=item.cause)

    async def _fails_again_in_s(self, pod: KubeObject, cause: str) -> float | None:
        """Return in how long the Pod may be told that it fails again; ``None``: it knows."""
        told = await self.recorder.last_told(pod, EVENT_UNRESOLVABLE, cause)
        restored = await self.recorder.last_told(pod, EVENT_RESTORED)
        if told is None or restored is None or restored < told:
            return None
        least_s = self.timing.event_again_s
        age_s = (self.clock.now() - told).total_seconds()
        return min(least_s, max(0.0, least_s - age_s))

    async def restored(self, pod: KubeObject, track: Track) -> None:
        """Tell a Pod that its containers have started, if it was explained."""
        if not track.explained:
            await self._make_sure(pod, track)
        if not track.explained:
            return
        note = Note(
            "Normal",
            EVENT_RESTORED,
            "Start",
            f"The CDI devices of this Pod resolve again on node {track.node}; the containers that "
            "failed for want of them have started.",
        )
        is_news = await self.recorder.record(pod, note, node_uid=self._node_uid(track.node))
        if not is_news and await self._has_failed_since(pod, track.explained):
            await self.recorder.repeat(pod, note)
            is_news = True
        if is_news:
            self.metrics.restored.inc()
            waited = self.clock.monotonic() - min(track.explained.values())
            self.metrics.time_to_restore.observe(waited)
            log("Pod restored", pod=str(key_of(pod)), node=track.node)

    async def _make_sure(self, pod: KubeObject, track: Track) -> None:
        """Learn from its Events whether a Pod was told why it fails."""
        for cause in sorted(track.unsure):
            if await self.recorder.last_told(pod, EVENT_UNRESOLVABLE, cause) is not None:
                track.explained.setdefault(cause, track.seen_at)

    async def _has_failed_since(self, pod: KubeObject, causes: Iterable[str]) -> bool:
        """Tell whether the Pod was explained after it was last told that it runs."""
        restored = await self.recorder.last_told(pod, EVENT_RESTORED)
        if restored is None:
            return False
        for cause in causes:
            told = await self.recorder.last_told(pod, EVENT_UNRESOLVABLE, cause)
            if told is not None and told > restored:
                return True
        return False

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

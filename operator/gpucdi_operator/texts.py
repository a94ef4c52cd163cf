"""What kubelet said of the Pods that are followed, within one budget for all of them.

Owns: what is kept of a text, and which go first where there are too many. Anybody who may create
Events can make texts long and many, so they are counted by the memory that they take: a character
that is not Latin takes two or four bytes. Must not know: what a text tells.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from dataclasses import replace

from gpucdi.failures import EventText
from gpucdi_operator.podfacts import PodKey
from gpucdi_operator.tracks import Track

# kubelet's texts are a few hundred; the names of 16 GPUs are under a thousand.
TEXT_CHARACTERS = 8_192
TEXTS_KEPT = 3
# Of 20,000 Pods each keeps this much of its last text within the budget.
LEAST_BYTES = 1_024
BUDGET_BYTES = 32 * 2**20


class Texts:
    """See the module. ``kept_bytes`` is what all texts take together."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES) -> None:
        self.budget_bytes = budget_bytes
        self.kept_bytes = 0
        # The Pods with more than the least, the one that was not heard of for longest first.
        self._whole: OrderedDict[PodKey, Track] = OrderedDict()

    def add(self, key: PodKey, track: Track, text: str, told: EventText | None = None) -> None:
        """Keep a text of a Pod, unless it is known; the last ones stay.

        ``told`` is the whole Event, for when it was and which container it is about.
        """
        kept = _cut(text, TEXT_CHARACTERS)
        # What is kept already is not kept twice.
        kept = next((known for known in track.texts if known == kept), kept)
        _note(track, kept, told or EventText(text))
        if kept not in track.texts:
            self._keep(key, track, (*track.texts, kept)[-TEXTS_KEPT:])
        if key in self._whole:
            self._whole.move_to_end(key)
        while self.kept_bytes > self.budget_bytes and self._whole:
            self._shorten(*self._whole.popitem(last=False))

    def leave(self, key: PodKey, track: Track) -> None:
        """Count the texts of a Pod no more that nobody follows."""
        if self._whole.get(key) is track:
            del self._whole[key]
        self.kept_bytes -= track.text_bytes
        track.text_bytes = 0

    def enter(self, key: PodKey, track: Track) -> None:
        """Count the texts of a Pod that is followed again after all."""
        self._keep(key, track, track.texts)

    def _keep(self, key: PodKey, track: Track, texts: tuple[str, ...]) -> None:
        # What was counted is noted, because Python may let a string grow while it is used.
        taken = sum(map(sys.getsizeof, texts))
        self.kept_bytes += taken - track.text_bytes
        track.texts, track.text_bytes = texts, taken
        track.told = {text: track.told[text] for text in texts if text in track.told}
        if taken > LEAST_BYTES:
            self._whole[key] = track

    def _shorten(self, key: PodKey, track: Track) -> None:
        """Leave a Pod the beginning of what was said of it last."""
        last = track.texts[-1]
        characters = len(last) * LEAST_BYTES // max(LEAST_BYTES, sys.getsizeof(last))
        kept = _cut(last, characters)
        if last in track.told:
            track.told[kept] = replace(track.told[last], text=kept)
        self._keep(key, track, (kept,))
        self._whole.pop(key, None)


def _note(track: Track, text: str, told: EventText) -> None:
    """Note what an Event says beside its text, and what others with the same text have said.

    Where they are about several containers, it is not known which of them still fail.
    """
    known = track.told.pop(text, None) if text in track.texts else None
    containers, since = told.containers, told.since
    if known is not None and since is not None and known.since is not None:
        since = max(since, known.since)
    if text in track.texts and (known.containers if known else ()) != containers:
        containers = ()
    if containers or since is not None:
        track.told[text] = EventText(text, containers, since)


def _cut(text: str, characters: int) -> str:
    """Return a text, or its beginning up to the last whole word: half a name is another name.

    A word that fills half of what is kept is no name.
    """
    if len(text) <= characters:
        return text
    head = text[:characters]
    end = max(head.rfind(" "), head.rfind(","))
    return head[:end].rstrip(", ") if end > characters // 2 else head

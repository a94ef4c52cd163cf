"""What a spec file came to the last time its very bytes were judged.

Owns: the verdict that a load keeps of a file, and the store of recent ones. Must not know: where
files lie, or when they changed: bytes, path and library decide a verdict and nothing else does, so
that a stored one can never be out of date.

One look at a node judges the same few files for several readers, with and without files that are
not written yet, and decoding YAML is most of that work.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from .claims import claims_of
from .library import Library
from .nodes import EXACT_LIMIT_BYTES
from .outcome import Judgement, Rejected, SpecOutcome, judge

# A spec in memory takes up to some 150 bytes a node. Eight GPUs' three files, each read by two
# libraries, come to a sixth of this.
STORE_LIMIT_NODES = 60_000
_LEAST_WEIGHT = 16
_Key = tuple[Library, str, bytes]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome, what the file means to define, and the work it was in nodes that libyaml reads.

    ``names`` is ``None`` when the text is too broken to tell.
    """

    outcome: SpecOutcome
    kind: str
    names: frozenset[str] | None
    cost: int


class VerdictStore:
    """Verdicts up to a weight in nodes, those not asked for longest dropped first.

    Safe to share between threads.
    """

    def __init__(self, limit_nodes: int = STORE_LIMIT_NODES) -> None:
        self._limit_nodes = limit_nodes
        self._verdicts: dict[_Key, Verdict] = {}
        self._nodes = 0
        self._lock = threading.Lock()

    def verdict(self, data: bytes, path: str, library: Library) -> Verdict:
        """Return what ``library`` makes of the content ``data`` of the file ``path``."""
        key = (library, path, data)
        with self._lock:
            found = self._verdicts.pop(key, None)
            if found is not None:
                # A dict keeps the order of insertion: the first is the one longest unused.
                self._verdicts[key] = found
                return found
        made = _judged(data, path, library)
        with self._lock:
            self._keep(key, made)
        return made

    def forget(self) -> None:
        """Drop every verdict."""
        with self._lock:
            self._verdicts.clear()
            self._nodes = 0

    def _keep(self, key: _Key, made: Verdict) -> None:
        weight = _weight(made)
        # One that would displace all others, or that another thread was quicker with.
        if weight > self._limit_nodes // 2 or key in self._verdicts:
            return
        self._verdicts[key] = made
        self._nodes += weight
        while self._nodes > self._limit_nodes:
            oldest = next(iter(self._verdicts))
            self._nodes -= _weight(self._verdicts.pop(oldest))


VERDICTS = VerdictStore()
"""The store of this process."""


def _judged(data: bytes, path: str, library: Library) -> Verdict:
    judgement = judge(data, path, library)
    kind, names = claims_of(data, judgement)
    return Verdict(judgement.outcome, kind, names, _cost(len(data), judgement))


def _cost(size_bytes: int, judgement: Judgement) -> int:
    """Return the work that a file was, in nodes that libyaml reads."""
    if judgement.was_slow:
        return 2 * judgement.count + min(size_bytes, EXACT_LIMIT_BYTES) // 4
    return judgement.count + size_bytes // 64


def _weight(verdict: Verdict) -> int:
    """Return how much room a verdict takes, in nodes; a long error text takes some as well."""
    text = verdict.outcome.reason if isinstance(verdict.outcome, Rejected) else ""
    return _LEAST_WEIGHT + verdict.cost + len(text) // 64

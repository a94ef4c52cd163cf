"""Which of the names that failing Pods ask for are passed on to the agent of their node.

Owns: the bounds of ``spec.requests``, and what has to go where they are reached. Whoever may make
Pods may ask for names without end; a spec that nobody can write any more would keep a policy from the
node. So the whole is bounded, and it comes to rest: what is asked for still is never given up for
something new, or the Pods of a node that ask for more than there is room for would push out each
other's names in turn for as long as they fail. A newcomer waits until there is room: until something
was not asked for in ``ASKED_S``. Must not know: nodes, the API server.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from gpucdi.api import NameRequest

# The bounds of crds/gpucdistatuses.yaml; a test compares.
REQUEST_KINDS = 64
REQUEST_NAMES = 256
NAME_CHARACTERS = 256
# Together these are 4 MB, which no API server takes. All names and kinds together, in UTF-8.
REQUEST_BYTES = 64 * 1024
# A Pod that still fails is looked at again within half an hour at most, and asks again.
ASKED_S = 3600.0
_WORD = "[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?"
KIND = re.compile(rf"(?=.{{1,256}}\Z){_WORD}/{_WORD}")


class _Ask(NamedTuple):
    """One name of a kind; an empty name is a kind that somebody wrote without names."""

    kind: str
    name: str


@dataclass(slots=True)
class Asked:
    """What is asked for on one node. Times are monotonic.

    ``asked`` is what Pods asked for, and when they did so last; ``seen`` is what else stands in the
    spec, from an earlier leader or a person, and since when we know of it.
    """

    asked: dict[_Ask, float] = field(default_factory=dict)
    seen: dict[_Ask, float] = field(default_factory=dict)
    _last: float = float("-inf")

    def ask(
        self, present: tuple[NameRequest, ...], wanted: Iterable[NameRequest], now: float
    ) -> tuple[NameRequest, ...]:
        """Note what a Pod asks for and return the requests; ``present`` are those of the spec.

        What finds no room is not kept: its Pod asks again.
        """
        if now - self._last >= ASKED_S:
            # Nobody has asked for long, or another replica has led: as after a start, each of the
            # others gets the time to ask again.
            self.seen = {}
            self.asked = dict.fromkeys(self.asked, now)
        self._last = now
        self.seen = {ask: self.seen.get(ask, now) for ask in _each(present)}
        self.asked.update(dict.fromkeys(_writable(wanted), now))
        found = self.over(present, now)
        kept = set(_each(found))
        self.asked = {ask: at for ask, at in self.asked.items() if ask in kept}
        return found

    def over(self, present: tuple[NameRequest, ...], now: float) -> tuple[NameRequest, ...]:
        """Return the requests with what Pods asked for, in the order in which they came.

        Requests are not taken back when a Pod runs: its next start needs the names again. The agent
        leaves out names of devices that the node does not have.
        """
        standing = dict.fromkeys(_each(present))
        new = [ask for ask in self.asked if ask not in standing]
        if not new and _fitting(standing) == standing.keys():
            return present

        def asked_at(ask: _Ask) -> float:
            return self.asked.get(ask, self.seen.get(ask, now))

        lasting = [ask for ask in standing if now - asked_at(ask) < ASKED_S]
        lasting.sort(key=lambda ask: ask not in self.asked)
        others = sorted(standing, key=asked_at, reverse=True)
        chosen = _fitting(dict.fromkeys((*lasting, *new, *others)))
        return _gathered(ask for ask in (*standing, *new) if ask in chosen)


def _each(requests: Iterable[NameRequest]) -> Iterator[_Ask]:
    for item in requests:
        for name in item.names or ("",):
            yield _Ask(item.kind, name)


def _gathered(asks: Iterable[_Ask]) -> tuple[NameRequest, ...]:
    kinds: dict[str, list[str]] = {}
    for ask in asks:
        kinds.setdefault(ask.kind, []).extend([ask.name] if ask.name else [])
    return tuple(NameRequest(kind, tuple(names)) for kind, names in kinds.items())


def _fitting(order: Iterable[_Ask]) -> set[_Ask]:
    """Return what fits into the bounds, the first first; what is too large leaves room for others.

    What was left out once is left out again when what was taken comes first, so that to choose
    among the chosen changes nothing.
    """
    chosen: set[_Ask] = set()
    names: Counter[str] = Counter()
    free = REQUEST_BYTES
    for ask in order:
        cost = len(ask.name.encode()) + (0 if ask.kind in names else len(ask.kind.encode()))
        is_room = len(names) < REQUEST_KINDS or ask.kind in names
        if cost <= free and is_room and names[ask.kind] < REQUEST_NAMES:
            chosen.add(ask)
            names[ask.kind] += bool(ask.name)
            free -= cost
    return chosen


def _writable(wanted: Iterable[NameRequest]) -> Iterator[_Ask]:
    """Yield what the schema takes; one name that it refuses would refuse all the others."""
    for item in wanted:
        if KIND.fullmatch(item.kind):
            for name in item.names:
                if 0 < len(name) <= NAME_CHARACTERS:
                    yield _Ask(item.kind, name)

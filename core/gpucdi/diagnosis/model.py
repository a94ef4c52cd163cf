"""What a diagnosis is made of. Owns the values, no rule."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gpucdi.api import NearMiss
from gpucdi.engines.versions import Release
from gpucdi.failures import Failure
from gpucdi.findings import Cause, Who


class Confidence(enum.StrEnum):
    """How sure the main cause is."""

    HIGH = "high"  # seen on the node, or the text says it in so many words
    MEDIUM = "medium"  # the text and the known design of the parts leave little else
    LOW = "low"  # the best of several explanations


class BlastRadius(enum.StrEnum):
    """What else changes when an advice is followed, from nothing to everything."""

    NOTHING = "nothing changes, it only looks"
    POD = "this Pod only"
    NEW_FILE = "one new file on this node, no existing name changes"
    FILE = "one spec file on this node"
    NODE = "every GPU container that starts on this node"
    STACK = "every Pod of this device plugin or scheduler at its next start"
    FLEET = "every GPU node: the component restarts and its handlers vanish for moments"


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact the verdict rests on; ``file`` and ``key`` are its place where it has one."""

    text: str
    file: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        place = " ".join(part for part in (self.file, self.key) if part)
        return f"{self.text} ({place})" if place else self.text


@dataclass(frozen=True, slots=True)
class Advice:
    """One way out. ``command`` can be run as it stands; ``valid_for`` names the versions.

    ``since`` and ``before`` bound the toolkit versions that it helps with: where the handler's is
    known and outside, the advice is left out. ``kind`` is the one kind that it helps with, ``None``
    for any. In a diagnosis the advice comes ranked: what helps for certain and touches least, first.
    """

    text: str
    blast_radius: BlastRadius
    who: Who
    command: str | None = None
    valid_for: str = "all versions"
    since: Release | None = None
    before: Release | None = None
    kind: str | None = None

    def fits(self, version: Release | None) -> bool:
        """Tell whether it helps with the toolkit ``version``; an unknown one is never excluded."""
        if version is None:
            return True
        after = self.since is None or version >= self.since
        return after and (self.before is None or version < self.before)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a container failed, and what to do.

    ``summary`` is one sentence for people. ``contributing`` are causes without which it would not
    have happened, or that stand in the way of a repair. ``candidates`` are what it may be instead
    where the main cause is not certain. ``near_miss`` is another kind that has the device.
    ``repairable`` says that gpucdi can end this failure by adding a spec file. ``not_seen`` says
    what a surer verdict would have needed, ``warnings`` what not to do. ``resolved_now`` is true
    when the node's status says that every name asked for resolves by now.
    """

    failure: Failure
    cause: Cause
    summary: str
    confidence: Confidence
    contributing: tuple[Cause, ...] = ()
    candidates: tuple[Cause, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    near_miss: NearMiss | None = None
    advice: tuple[Advice, ...] = ()
    repairable: bool = False
    not_seen: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    resolved_now: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one rule says, before evidence of the place and advice are added.

    ``kind`` is the kind that is to blame where no text names one.
    """

    cause: Cause
    summary: str
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    contributing: tuple[Cause, ...] = ()
    candidates: tuple[Cause, ...] = ()
    not_seen: tuple[str, ...] = ()
    near_miss: NearMiss | None = None
    resolved_now: bool = False
    kind: str | None = None

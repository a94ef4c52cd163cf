"""The changes of a repair, as values. Owns no decision."""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.cdi import Reader
from gpucdi.findings import Finding


@dataclass(frozen=True, slots=True)
class WriteFile:
    """Write ``content`` to ``path``; ``before`` is the hash of what lies there, empty for nothing."""

    path: str
    kind: str
    content: bytes
    added: int
    removed: int
    before: str = ""


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """Remove our file at ``path``."""

    path: str
    kind: str
    removed: int
    before: str


@dataclass(frozen=True, slots=True)
class Plan:
    """File changes in the order they are to be made, and what must hold afterwards.

    ``must_resolve`` gives, for each reader, the qualified names that have to resolve once all
    changes are made.
    """

    actions: tuple[WriteFile | RemoveFile, ...] = ()
    refusals: tuple[Finding, ...] = ()
    must_resolve: tuple[tuple[Reader, frozenset[str]], ...] = ()

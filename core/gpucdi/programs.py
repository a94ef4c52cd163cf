"""What a host's programs say of themselves, behind one Protocol.

Owns: the question (a program's ``--version`` text, a running engine's version, command line and
environment) and its answer for a captured tree. Must not know: how a live host is asked; that is
the agent's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from gpucdi.host import HostTree, normal


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A running engine: its version, argument list and environment, each ``None`` if not seen."""

    version: str | None = None
    arguments: tuple[str, ...] | None = None
    environment: Mapping[str, str] | None = None


class Programs(Protocol):
    """Asks the host's programs; ``None`` always means *not known*, never *absent*."""

    def version_output(self, path: str) -> str | None:
        """Return what the program at the host path ``path`` prints for ``--version``."""

    def engine(self, name: str) -> EngineProcess | None:
        """Return the running engine called ``name`` (``containerd``, ``cri-o``, ``docker``…)."""


@dataclass(frozen=True, slots=True)
class CapturedPrograms:
    """Answers from the facts that a captured tree carries in ``gpucdi-capture.json``."""

    versions: Mapping[str, str] = field(default_factory=dict)
    engines: Mapping[str, str] = field(default_factory=dict)
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    environments: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, host: HostTree) -> CapturedPrograms:
        """Take the answers from the tree's own capture file."""
        facts = host.capture
        return cls(facts.programs, facts.engines, facts.arguments, facts.environments)

    def version_output(self, path: str) -> str | None:
        """Return the captured output, or ``None``."""
        return self.versions.get(normal(path))

    def engine(self, name: str) -> EngineProcess | None:
        """Return what was captured of the running engine, ``None`` if nothing was."""
        known = (self.engines.get(name), self.arguments.get(name), self.environments.get(name))
        return None if known == (None, None, None) else EngineProcess(*known)

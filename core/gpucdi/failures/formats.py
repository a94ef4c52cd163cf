"""The wordings that carry a CDI failure, one row each. Owns patterns; decides nothing.

A row's ``id`` is that of ``docs/explain.md``. Groups with a meaning: ``path``, ``hook``, ``name``
(a device without its kind), ``names`` marks where a list of qualified names begins, ``detail`` the
innermost reason. Rows are tried in order, and a text that one row has taken is closed to the rest,
so the more telling wording stands first.

Sources of the wordings: cncf-tags/container-device-interface ``pkg/cdi`` (cache, spec, device,
container-edits), containerd ``internal/cri/{opts,server}``, opencontainers/runc ``libcontainer``,
NVIDIA/nvidia-container-toolkit ``internal/modifier``, ``cmd/nvidia-ctk/cdi/generate``,
kubernetes/kubernetes ``pkg/kubelet``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpucdi.failures.model import EngineFamily, Resolver, Stage, Symptom


@dataclass(frozen=True, slots=True)
class Format:
    """One wording. ``stage`` and ``engine`` hold where the words around it say nothing better."""

    id: str
    symptom: Symptom
    pattern: re.Pattern[str]
    stage: Stage
    engine: EngineFamily | None = None
    resolver: Resolver | None = None
    is_cdi: bool = True
    blanks: bool = False


def spaced(pattern: str) -> re.Pattern[str]:
    """Compile ``pattern`` so that each blank in it matches any white space."""
    return re.compile(pattern.replace(" ", r"\s+"))


def loose(text: str) -> str:
    """Return a pattern for the literal ``text`` that allows white space between any letters."""
    return r"\s*".join(re.escape(letter) for letter in text if letter != " ")


_Q = r"[\"'`“”]"
_PATH = rf"{_Q}?(?P<path>/[^\s\"'`“”]+?){_Q}?"
_DETAIL = r"(?P<detail>[^\"\n]*)"
_TAIL = r"(?P<detail>[\s\S]{0,600})"

NAMED: tuple[Format, ...] = (
    Format(
        "M01",
        Symptom.UNRESOLVABLE,
        re.compile(loose("unresolvable CDI devices") + r"(?P<names>)"),
        Stage.UNKNOWN,
    ),
    Format(
        "M05",
        Symptom.UNRESOLVABLE,
        re.compile(loose("could not resolve CDI devices:") + r"(?P<names>)"),
        Stage.START,
        resolver=Resolver.NVIDIA_RUNTIME,
        blanks=True,
    ),
    Format(
        "M38",
        Symptom.CDI_DISABLED,
        spaced(
            r"CDI devices (?P<names>)\([^()]*\) requested but CDI support is explicitly disabled"
        ),
        Stage.CREATE,
        EngineFamily.CONTAINERD,
        Resolver.ENGINE,
    ),
)

SIBLINGS: tuple[Format, ...] = (
    Format(
        "M22",
        Symptom.NODE_MISSING,
        spaced(rf"failed to stat CDI host device {_PATH}(?=[\s:,;]|$){_DETAIL}"),
        Stage.UNKNOWN,
    ),
)

FORMATS: tuple[Format, ...] = NAMED + SIBLINGS

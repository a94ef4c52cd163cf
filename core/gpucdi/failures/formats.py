"""What a row of the tables of wordings is, and the pieces that its patterns are made of.

A row's ``id`` is that of ``docs/explain.md``. Groups with a meaning: ``path``, ``hook``,
``subject`` (a handler, a program), ``detail`` the innermost reason; ``names`` marks where a list of
qualified names begins. Rows are tried in order, and a text that one row has taken is closed to the
rest, so the more telling wording stands first. Owns patterns; decides nothing.

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
    """One wording.

    ``stage`` is that of the wording itself; ``UNKNOWN`` leaves it to the words around it, with
    ``usually`` where they say nothing. ``gpu_only`` makes the row count as CDI only when its path
    or subject or hook is one of GPU software. ``variants`` give a finer id by what the detail says.
    """

    id: str
    symptom: Symptom
    pattern: re.Pattern[str]
    stage: Stage
    engine: EngineFamily | None = None
    resolver: Resolver | None = None
    is_cdi: bool = True
    blanks: bool = False
    usually: Stage = Stage.UNKNOWN
    gpu_only: bool = False
    kind: str | None = None
    variants: tuple[tuple[str, str], ...] = ()


def spaced(pattern: str) -> re.Pattern[str]:
    """Compile ``pattern`` so that each blank in it matches any white space."""
    return re.compile(pattern.replace(" ", r"\s+"))


def loose(text: str) -> str:
    """Return a pattern for the literal ``text`` that allows white space between any letters."""
    return r"\s*".join(re.escape(letter) for letter in text if letter != " ")


QUOTE = "[\"'`\u201c\u201d\u2018\u2019]"
_NOT_PATH = "\\s\"'`,\u201c\u201d\u2018\u2019"
# A quote that opens and does not close is one of a path that a line break tore apart.
PATH = (
    rf"(?P<open>{QUOTE})?(?P<path>/[^{_NOT_PATH}]*[^{_NOT_PATH}:.!])"
    rf"(?(open)(?:{QUOTE}|(?=\u2026|\.{{3}}|\s*\Z))|{QUOTE}?)"
)
# What a system call answers, also where a line break stands in it, else any plain words.
ERRNO = (
    r"(?P<detail>no such file or directory|read-only file system|permission denied|invalid argument"
    r"|operation not permitted|no space left on device|not a directory|file exists|[a-z\x20-]+)"
)
# The rest of a message: up to where a log line, a list or another record ends.
DETAIL = (
    r"\s*(?P<detail>(?:(?!\]\]|\sError:|\nError|(?<!:)\nfailed to |\nThe following|\n\S+ERRO|\ntime=|\n\{"
    r"|\"\s*(?:time=|file=|,\"|\})|\n(?:Warning|Normal)\s|\sfailed to load CDI Spec)[\s\S]){0,600})"
)
# A path or name of GPU software: what specs mount, and what handlers are called.
GPU_WORDS = re.compile(
    r"nvidia|cuda|nvml|nvoptix|libEGL|libGL|libnv|vulkan|/dri(?:/|$)|/dev/(?:dxg|kfd|accel)|wsl|rocm"
    r"|(?<![a-z])amd(?!64)|gpu|cdi|habana|libze_",
    re.IGNORECASE,
)
# A volume of the Pod's own, whatever it is called: kubelet made it, and no spec mounts it.
POD_VOLUME = re.compile(r"/pods/[0-9a-f-]{32,36}/(?:volume|plugins|etc-hosts|containers)")

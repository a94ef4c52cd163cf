"""A diagnosis as text for people: Event note, condition message, terminal, Markdown.

Owns wording and length. Limits are bytes of UTF-8, as the API server counts them. Must not decide
anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpucdi.api.names import CONDITION_LIMIT_BYTES, NOTE_LIMIT_BYTES
from gpucdi.diagnosis.model import Advice, BlastRadius, Diagnosis, Evidence
from gpucdi.failures.names import device_of, kind_of

_ELLIPSIS = "…"


def fit(text: str, limit_bytes: int) -> str:
    """Return ``text``, cut at a character so that it has at most ``limit_bytes`` bytes."""
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return encoded.decode()
    kept = encoded[: max(0, limit_bytes - len(_ELLIPSIS.encode()))]
    return kept.decode("utf-8", "ignore") + _ELLIPSIS


def devices(names: Sequence[str], limit_bytes: int) -> str:
    """Return the names grouped by kind, as many as fit, with the number of the others."""
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(kind_of(name), []).append(device_of(name))
    texts = [_group(kind, items, limit_bytes // len(groups)) for kind, items in groups.items()]
    return fit("; ".join(texts), limit_bytes)


def _group(kind: str, items: Sequence[str], limit_bytes: int) -> str:
    text = f"{kind}={items[0]}"
    for shown, item in enumerate(items[1:], start=1):
        longer = f"{text}, {item}"
        more = f" and {len(items) - shown} more"
        if len(f"{longer} and {len(items)} more".encode("utf-8", "replace")) > limit_bytes:
            return text + more
        text = longer
    return text


def event_note(diagnosis: Diagnosis, *, node: str = "", resource: str = "") -> str:
    """Return the note of the explaining Event, at most 1,024 bytes.

    It names kind, devices, node, the file that decides and the first fix, each with a share of the
    room that the others cannot take. ``resource`` is the name of the GpuCdiStatus to look at.
    """
    parts = [
        fit(f"[{diagnosis.cause}] {diagnosis.summary}", 360),
        _asked(diagnosis, node),
        fit(_places(diagnosis.evidence), 220),
        fit(_fix(diagnosis), 150),
        fit(_see(resource), 90),
    ]
    return fit(" ".join(part for part in parts if part), NOTE_LIMIT_BYTES)


def condition_message(diagnosis: Diagnosis) -> str:
    """Return a condition's message, at most 512 bytes: what does not resolve, where, the fix."""
    parts = [
        fit(diagnosis.summary, 260),
        fit(_places(diagnosis.evidence[:1]), 110),
        fit(_fix(diagnosis), 130),
    ]
    return fit(" ".join(part for part in parts if part), CONDITION_LIMIT_BYTES)


def _asked(diagnosis: Diagnosis, node: str) -> str:
    where = f" on node {fit(node, 64)}" if node else ""
    if diagnosis.failure.names:
        return f"Asked for {devices(diagnosis.failure.names, 180)}{where}."
    return f"Seen{where}." if where else ""


def _places(evidence: Iterable[Evidence]) -> str:
    texts = [str(item) for item in evidence if item.file]
    return f"Seen in: {'; '.join(texts[:3])}." if texts else ""


def _fix(diagnosis: Diagnosis) -> str:
    return f"Fix: {diagnosis.advice[0].text}." if diagnosis.advice else ""


def _see(resource: str) -> str:
    return f"See: kubectl get gpucdistatus {resource} -o yaml" if resource else ""


def as_text(diagnosis: Diagnosis) -> str:
    """Return the whole diagnosis for a terminal."""
    lines = [*_head(diagnosis), *(f"  - {name}" for name in diagnosis.failure.names)]
    lines += _facts(diagnosis)
    lines += _listed("Evidence:", diagnosis.evidence)
    lines += _ways(diagnosis, "  {}. {}", "     ({})", "      $ {}")
    lines += _listed("What not to do:", diagnosis.warnings)
    lines += _listed("Not seen:", diagnosis.not_seen)
    return "\n".join(lines) + "\n"


def as_markdown(diagnosis: Diagnosis) -> str:
    """Return the whole diagnosis as Markdown, for a ticket."""
    parts = [_bold(line) for line in _head(diagnosis)]
    parts += ["\n".join(f"- `{name}`" for name in diagnosis.failure.names)]
    parts += [_bold(line) for line in _facts(diagnosis)]
    parts += _titled("Evidence:", diagnosis.evidence)
    title, *ways = _ways(diagnosis, "{}. {}", "   ({})", "   ```sh\n   {}\n   ```") or [""]
    parts += [_bold(title), "\n".join(ways)]
    parts += _titled("What not to do:", diagnosis.warnings)
    parts += _titled("Not seen:", diagnosis.not_seen)
    return "\n\n".join(part for part in parts if part) + "\n"


def _listed(title: str, items: Sequence[object]) -> list[str]:
    return [title, *(f"  - {item}" for item in items)] if items else []


def _titled(title: str, items: Sequence[object]) -> list[str]:
    return [f"**{title}**", "\n".join(f"- {item}" for item in items)] if items else []


def _bold(line: str) -> str:
    title, colon, rest = line.partition(":")
    return f"**{title}:**{rest}" if colon and len(title.split()) <= 5 else line  # noqa: PLR2004 - a title, not a sentence


def _head(diagnosis: Diagnosis) -> list[str]:
    failure = diagnosis.failure
    engine = f", engine {failure.engine}" if failure.engine else ""
    return [
        f"Cause: {diagnosis.cause} (confidence {diagnosis.confidence})",
        diagnosis.summary,
        f"Stage: {failure.stage}{engine}",
    ]


def _facts(diagnosis: Diagnosis) -> list[str]:
    lines = []
    if diagnosis.contributing:
        lines.append(f"Contributing: {', '.join(diagnosis.contributing)}")
    if diagnosis.candidates:
        lines.append(f"It may also be: {', '.join(diagnosis.candidates)}")
    if diagnosis.near_miss:
        near = diagnosis.near_miss
        lines.append(f"Near miss: {near.kind} has {near.count} of the missing names")
    return lines


def _ways(diagnosis: Diagnosis, line: str, note: str, command: str) -> list[str]:
    lines = ["What to do:"] if diagnosis.advice else []
    for number, advice in enumerate(diagnosis.advice, start=1):
        lines.append(line.format(number, advice.text))
        lines.append(note.format(f"{advice.who}; {_touches(advice)}; {advice.valid_for}"))
        if advice.command:
            lines.append(command.format(advice.command))
    return lines


def _touches(advice: Advice) -> str:
    radius = advice.blast_radius
    return radius.value if radius is BlastRadius.NOTHING else f"touches {radius}"

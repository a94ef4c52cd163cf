"""A diagnosis as text for people: Event note, condition message, terminal, Markdown.

Owns wording and length. Limits are bytes of UTF-8, as the API server counts them. Must not decide
anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpucdi.api.names import CONDITION_LIMIT_BYTES, NOTE_LIMIT_BYTES
from gpucdi.diagnosis.model import Advice, BlastRadius, Diagnosis, Evidence
from gpucdi.failures.names import device_of, kind_of

MOST_PLACES = 3
PLACES_LIMIT_BYTES = 320
SEE_LIMIT_BYTES = 128
_ELLIPSIS = "…"


def fit(text: str, limit_bytes: int) -> str:
    """Return ``text``, cut behind a word so that it has at most ``limit_bytes`` bytes.

    A word that is longer than half of the room is cut at a character.
    """
    encoded = text.encode("utf-8", "replace")
    if len(encoded) <= limit_bytes:
        return encoded.decode()
    room = max(0, limit_bytes - len(_ELLIPSIS.encode()))
    kept = encoded[:room].decode("utf-8", "ignore")
    blank = kept.rfind(" ")
    if not encoded[len(kept.encode()) :].startswith(b" ") and blank > len(kept) // 2:
        kept = kept[:blank]
    return kept.rstrip(" ,;") + _ELLIPSIS


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

    It names kind, devices, node, the files that decide and the first fix. The files take the room
    that the rest leaves, each whole or not at all. ``resource`` is the name of the GpuCdiStatus to
    look at.
    """
    before = [fit(f"[{diagnosis.cause}] {diagnosis.summary}", 360), _asked(diagnosis, node)]
    behind = [fit(_fix(diagnosis), 180), _see(resource)]
    return _filled(before, _placed(diagnosis.evidence)[:MOST_PLACES], behind, NOTE_LIMIT_BYTES)


def condition_message(diagnosis: Diagnosis) -> str:
    """Return a condition's message, at most 512 bytes: what does not resolve, where, the fix."""
    before, behind = [fit(diagnosis.summary, 260)], [fit(_fix(diagnosis), 130)]
    return _filled(before, _placed(diagnosis.evidence[:1]), behind, CONDITION_LIMIT_BYTES)


def _filled(
    before: list[str], placed: Sequence[Evidence], behind: list[str], limit_bytes: int
) -> str:
    """Return the parts in one line, with as much of the evidence as there is room for."""
    room = limit_bytes - _bytes(" ".join(filter(None, [*before, *behind]))) - 1
    parts = [*before, _places(placed, min(room, PLACES_LIMIT_BYTES)), *behind]
    return fit(" ".join(filter(None, parts)), limit_bytes)


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def _asked(diagnosis: Diagnosis, node: str) -> str:
    where = f" on node {fit(node, 64)}" if node else ""
    if diagnosis.failure.names:
        return f"Asked for {devices(diagnosis.failure.names, 180)}{where}."
    return f"Seen{where}." if where else ""


def _placed(evidence: Sequence[Evidence]) -> Sequence[Evidence]:
    return [item for item in evidence if item.file]


def _places(placed: Sequence[Evidence], limit_bytes: int) -> str:
    """Return evidence with its places, without its keys or less of it where room is short."""
    shown = ""
    for item in placed:
        for told in (item, replace(item, key=None)):
            longer = f"{shown[:-1]}; {told}." if shown else f"Seen in: {told}."
            if _bytes(longer) <= limit_bytes:
                shown = longer
                break
    bare = f"Seen in: {placed[0].file}." if placed else ""
    return shown or (bare if _bytes(bare) <= limit_bytes else "")


def _fix(diagnosis: Diagnosis) -> str:
    return f"Fix: {diagnosis.advice[0].text}." if diagnosis.advice else ""


def _see(resource: str) -> str:
    told = f"See: kubectl get gpucdistatus {resource} -o yaml" if resource else ""
    return told if _bytes(told) <= SEE_LIMIT_BYTES else ""


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

"""A text in, the failures it reports out. Owns the order of things, not the wordings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from gpucdi.failures import clean, names, wrappers
from gpucdi.failures.catalogue import FORMATS
from gpucdi.failures.formats import GPU_WORDS, POD_VOLUME, Format
from gpucdi.failures.model import EngineFamily, Failure, Resolver, Stage, Symptom

# A log with thousands of repetitions says no more than its last few.
MATCHES_PER_FORMAT = 200
MESSAGE_CHARACTERS = 4_000
# Words around a reason; read without one, they may be a reason that a line break tore apart.
FRAMES = frozenset({Symptom.INJECTION_FAILED, Symptom.PREPARE_FAILED})
_UNKNOWN_SUFFIX = re.compile(r":\s*unknown\.?\s*$")


class _Taken:
    """The spans of a text that are already explained."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def overlaps(self, start: int, end: int) -> bool:
        return any(start < taken_end and taken < end for taken, taken_end in self.spans)

    def next_start(self, start: int, end: int) -> int:
        """Return where the first span within begins, ``end`` if there is none."""
        return min((taken for taken, _ in self.spans if 0 <= start < taken < end), default=end)

    def bounds(self, start: int, end: int, length: int) -> tuple[int, int]:
        """Return how far the neighbourhood of a span reaches before another failure begins."""
        low = max((e for _, e in self.spans if e <= start), default=0)
        high = min((s for s, _ in self.spans if s >= end), default=length)
        return low, high


def extract(text: str, *, cut: bool | None = None) -> tuple[Failure, ...]:
    """Return every failure that ``text`` reports, in its order, without repetition.

    Takes what people and machines see: a Pod status, an Event, engine and runtime logs, JSON, YAML,
    ``kubectl describe``, a dashboard, a wrapped terminal. Never raises, and never yields a device
    that the text does not list behind one of the known anchors. ``cut`` says whether the text was
    cut at its end, so that a last name may be incomplete: ``None`` is not known, as for a paste.
    """
    best: tuple[Failure, ...] = ()
    for reading in clean.readings(text):
        found = _unique(_found(reading, cut=cut))
        if _telling(found) > _telling(best) or not best:
            best = found
        if best and _telling(best) == len(best):
            break
    return best


def _telling(failures: tuple[Failure, ...]) -> int:
    """Return how many of them say more than that something failed."""
    return sum(1 for failure in failures if failure.symptom not in FRAMES)


@dataclass(frozen=True, slots=True)
class _Hit:
    """One row that matched; ``end`` includes the list of names behind it."""

    row: Format
    match: re.Match[str]
    listed: names.NameList | None
    end: int


def _found(text: str, *, cut: bool | None) -> Iterable[Failure]:
    taken = _Taken()
    hits: list[_Hit] = []
    for row in FORMATS:
        for match in islice(row.pattern.finditer(text), MATCHES_PER_FORMAT):
            listed = _names(row, match, text, cut=cut)
            end = max(match.end(), listed.end if listed else 0)
            if row.symptom is Symptom.SPEC_LOAD_FAILED:
                # An engine says it before the failure that came of it.
                end = taken.next_start(match.start("detail"), end)
            if not taken.overlaps(match.start(), end):
                taken.spans.append((match.start(), end))
                hits.append(_Hit(row, match, listed, end))
    hits.sort(key=lambda hit: hit.match.start())
    return [_wording(_failure(text, taken, hit)) for hit in hits]


def _names(
    row: Format, match: re.Match[str], text: str, *, cut: bool | None
) -> names.NameList | None:
    for group in ("names", "names2", "names3"):
        if group in row.pattern.groupindex and match.start(group) >= 0:
            return names.read_list(text, match.start(group), blanks=row.blanks, cut=cut)
    return None


def _failure(text: str, taken: _Taken, hit: _Hit) -> Failure:
    row, match, listed = hit.row, hit.match, hit.listed
    low, high = taken.bounds(match.start(), hit.end, len(text))
    frame = wrappers.frame(text, low, match, hit.end, high)
    groups = match.groupdict()
    found = listed.names if listed else ()
    detail = (
        _detail(groups.get("detail"), hit.end - match.start("detail")) if "detail" in groups else ""
    )
    kinds = (*([row.kind] if row.kind else []), *(listed.kinds if listed else ()))
    return Failure(
        format=_variant(row, detail),
        symptom=row.symptom,
        stage=_stage(row, frame.stage),
        is_cdi=row.is_cdi and (not row.gpu_only or _is_gpu(groups)),
        engine=row.engine or frame.engine,
        resolver=row.resolver or frame.resolver,
        names=found,
        malformed=listed.malformed if listed else (),
        kinds=tuple(dict.fromkeys(kinds)),
        path=groups.get("path"),
        hook=groups.get("hook"),
        subject=groups.get("subject"),
        detail=detail,
        truncated=bool(listed and listed.truncated),
        text=clean.flat(text[frame.start : hit.end])[-MESSAGE_CHARACTERS:],
    )


def _is_gpu(groups: Mapping[str, str | None]) -> bool:
    found = " ".join(groups.get(name) or "" for name in ("path", "subject", "hook"))
    return GPU_WORDS.search(found) is not None and POD_VOLUME.search(found) is None


def _stage(row: Format, around: Stage | None) -> Stage:
    if row.stage is not Stage.UNKNOWN:
        return row.stage
    return around or row.usually


def _variant(row: Format, detail: str) -> str:
    found = (name for pattern, name in row.variants if re.search(pattern, detail))
    return next(found, row.id)


def _wording(failure: Failure) -> Failure:
    """Give an unresolvable name the id of the whole chain that it stands in."""
    if failure.format != "M01":
        return failure
    return replace(failure, format=_chain(failure))


def _chain(failure: Failure) -> str:
    native = failure.resolver is Resolver.ENGINE
    if not failure.names:
        return "M40"
    if any(names.KIND.match(names.device_of(name)) for name in failure.malformed):
        return "M47"
    if failure.engine is EngineFamily.KATA:
        return "M48"
    if failure.engine is EngineFamily.PODMAN:
        return "M13" if failure.stage is Stage.START else "M06"
    if failure.engine is EngineFamily.DOCKER:
        return "M07" if native else "M01u"
    if native:
        return "M23" if "failed to generate container" in failure.text else "M09"
    if failure.resolver is Resolver.NVIDIA_RUNTIME:
        return "M01" if failure.engine or failure.stage is Stage.SANDBOX else "M03"
    return "M08"


def _detail(found: str | None, room: int) -> str:
    detail = clean.flat((found or "")[: max(0, room)])
    if detail.count('"') % 2:
        # The quote that closes the log line's msg, not one of the message's own.
        detail = detail.removesuffix('"')
    return _UNKNOWN_SUFFIX.sub("", detail).strip(" :")


def _unique(failures: Iterable[Failure]) -> tuple[Failure, ...]:
    kept: dict[tuple[object, ...], Failure] = {}
    for failure in failures:
        key = (
            failure.symptom,
            failure.names,
            failure.path,
            failure.hook,
            failure.subject if not failure.names else None,
            failure.detail if not failure.names and not failure.path else None,
        )
        known = kept.get(key)
        kept[key] = failure if known is None else _richer(known, failure)
    return tuple(kept.values())


def _richer(known: Failure, other: Failure) -> Failure:
    return replace(
        known,
        stage=known.stage if known.stage is not Stage.UNKNOWN else other.stage,
        engine=known.engine or other.engine,
        resolver=known.resolver or other.resolver,
        truncated=known.truncated and other.truncated,
    )

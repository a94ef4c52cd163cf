"""What becomes of one spec file: accepted, rejected with a reason, or the end of the reader.

Owns: the three outcomes and the way from bytes to one of them. Must not know: directories.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import cast

from . import json_decoder, yaml_decoder
from .decoding import ERROR_TEXT_LIMIT, DecodeError, build
from .gotext import printable, quote
from .library import Library
from .model import Spec
from .names import ReaderCrash
from .nodes import first_document
from .nodetypes import Node, OverBoundError, UnreadableYamlError
from .schema import spec_schema
from .validation import validate


class Stage(enum.Enum):
    """Where a rejected file failed."""

    READ = "read"
    PARSE = "parse"
    VALIDATE = "validate"
    BOUND = "bound"
    """This package refused to look further; the library might have accepted the file."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """Every device of the file counts."""

    spec: Spec


@dataclass(frozen=True, slots=True)
class Rejected:
    """No device of the file counts; ``reason`` is the library's text without its log prefix."""

    reason: str
    stage: Stage = Stage.VALIDATE


@dataclass(frozen=True, slots=True)
class Crashes:
    """The reader panics or hangs on this file, so that nothing resolves for it any more."""

    reason: str


SpecOutcome = Accepted | Rejected | Crashes


@dataclass(frozen=True, slots=True)
class Judgement:
    """An outcome, the nodes it was drawn from where there are any, and how much work that was.

    ``count`` is the number of nodes, ``was_slow`` tells that each took longer than usual.
    """

    outcome: SpecOutcome
    root: Node | None
    count: int
    was_slow: bool


def decode_spec(data: bytes, path: str, library: Library) -> SpecOutcome:
    """Judge the content ``data`` of the file ``path`` as ``library`` does; never raises.

    ``path`` only appears in texts. The size of ``data`` is the caller's to bound.
    """
    return judge(data, path, library).outcome


def judge(data: bytes, path: str, library: Library) -> Judgement:
    """Do what :func:`decode_spec` does and tell what was seen on the way."""
    where = f"failed to parse CDI Spec {quote(path)}"
    v3 = library.behaviour.decodes_with_yaml3
    try:
        document = first_document(data, v3=v3)
    except UnreadableYamlError as error:
        step = "" if v3 else "error converting YAML to JSON: "
        text = f"{where}: failed to unmarshal CDI Spec: {step}yaml: {error}"
        return Judgement(_rejected(text, where, Stage.PARSE), None, error.count, was_slow=True)
    except OverBoundError as error:
        return Judgement(_over_bound(where, str(error)), None, error.count, was_slow=True)
    outcome = _outcome(document.root, where, library, aliases=b"*" in data)
    return Judgement(outcome, document.root, document.count, document.was_slow)


def _outcome(root: Node | None, where: str, library: Library, *, aliases: bool) -> SpecOutcome:
    try:
        spec = _decode(root, library, aliases=aliases)
    except DecodeError as error:
        text = f"{where}: failed to unmarshal CDI Spec: {error}"
        return _rejected(text, where, Stage.PARSE)
    except OverBoundError as error:
        return _over_bound(where, str(error))
    except RecursionError:
        # Nesting is bounded, but aliases may pile one bounded depth upon another.
        return _over_bound(where, "aliases nest too deeply")
    if spec is None:
        return Rejected(f"{where}, no Spec data", Stage.PARSE)
    try:
        validate(spec, library)
    except ReaderCrash as error:
        return Crashes(str(error))
    except ValueError as error:
        return _rejected(f"invalid CDI Spec: {error}", where, Stage.VALIDATE)
    return Accepted(spec)


def _rejected(text: str, where: str, stage: Stage) -> Rejected:
    if len(text) > ERROR_TEXT_LIMIT:
        return _over_bound(where, f"the text of its error is longer than {ERROR_TEXT_LIMIT}")
    return Rejected(printable(text), stage)


def _over_bound(where: str, text: str) -> Rejected:
    return Rejected(f"{where}: not looked at further: {text}", Stage.BOUND)


def _decode(root: Node | None, library: Library, *, aliases: bool) -> Spec | None:
    behaviour = library.behaviour
    schema = spec_schema(library)
    if behaviour.decodes_with_yaml3:
        raw = yaml_decoder.decode(root, schema, aliases=aliases)
    else:
        capital = not behaviour.needs_devices
        raw = json_decoder.decode(root, schema, capital_unsupported=capital, aliases=aliases)
    return cast("Spec | None", build(schema, raw))

"""What becomes of one spec file: accepted, rejected with a reason, or the end of the reader.

Owns: the three outcomes and the way from bytes to one of them. Must not know: directories.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import cast

from . import json_decoder, yaml_decoder
from .decoding import DecodeError, build
from .gotext import printable, quote
from .library import Library
from .model import Spec
from .names import ReaderCrash
from .nodes import first_document
from .nodetypes import OverBoundError, UnreadableYamlError
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


def decode_spec(data: bytes, path: str, library: Library) -> SpecOutcome:
    """Judge the content ``data`` of the file ``path`` as ``library`` does; never raises.

    ``path`` only appears in texts. The size of ``data`` is the caller's to bound.
    """
    where = f"failed to parse CDI Spec {quote(path)}"
    try:
        spec = _decode(data, library)
    except (UnreadableYamlError, DecodeError) as error:
        reason = printable(f"{where}: failed to unmarshal CDI Spec: {error}")
        return Rejected(reason, Stage.PARSE)
    except OverBoundError as error:
        return Rejected(f"{where}: not looked at further: {error}", Stage.BOUND)
    except RecursionError:
        # Nesting is bounded, but aliases may pile one bounded depth upon another.
        return Rejected(f"{where}: not looked at further: aliases nest too deeply", Stage.BOUND)
    if spec is None:
        return Rejected(f"{where}, no Spec data", Stage.PARSE)
    try:
        validate(spec, library)
    except ReaderCrash as error:
        return Crashes(str(error))
    except ValueError as error:
        return Rejected(printable(f"invalid CDI Spec: {error}"), Stage.VALIDATE)
    return Accepted(spec)


def _decode(data: bytes, library: Library) -> Spec | None:
    behaviour = library.behaviour
    schema = spec_schema(library)
    try:
        root = first_document(data, v3=behaviour.decodes_with_yaml3)
    except UnreadableYamlError as error:
        step = "" if behaviour.decodes_with_yaml3 else "error converting YAML to JSON: "
        raise DecodeError(f"{step}yaml: {error}") from None
    if behaviour.decodes_with_yaml3:
        raw = yaml_decoder.decode(root, schema, aliases=b"*" in data)
    else:
        capital = not behaviour.needs_devices
        raw = json_decoder.decode(root, schema, capital_unsupported=capital, aliases=b"*" in data)
    return cast("Spec | None", build(schema, raw))

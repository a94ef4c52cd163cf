"""The chain that leads from a handler to the spec files, as lines of text.

Owns: which facts make up the chain and where each comes from. Must not know: colours, terminals.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gpucdi.cdi import Accepted, SpecFile
from gpucdi.findings import Source, SourceKind
from gpucdi.node import NodeReader, Observation
from gpucdi.toolkit import HandlerRuntime, ToolkitConfig


class Mark(enum.Enum):
    """What a line tells about the request: nothing, it is found here, it is lost here."""

    NONE = ""
    GOOD = "good"
    BAD = "bad"
    ASIDE = "aside"


@dataclass(frozen=True, slots=True)
class Line:
    """One fact and, behind it, where it was read or what it means."""

    text: str
    note: str = ""
    mark: Mark = Mark.NONE


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain: its title and its facts, the main one first."""

    title: str
    lines: tuple[Line, ...]


def handler_chain(
    observation: Observation, runtime: HandlerRuntime, names: tuple[str, ...] = ()
) -> tuple[Link, ...]:
    """Return the links behind a handler down to the spec files.

    With ``names`` (unqualified, as NVIDIA_VISIBLE_DEVICES holds them) every file says whether it
    has them.
    """
    links = [_handler(observation, runtime), _binary(runtime)]
    config = runtime.config
    if config is None:
        return tuple(links)
    links += [_config(runtime, config), _mode(runtime)]
    if runtime.resolves_through_files:
        links += [_kind(config), *_request(config, names), _files(observation, runtime, names)]
    return tuple(links)


def _handler(observation: Observation, runtime: HandlerRuntime) -> Link:
    handler = runtime.handler
    engine = next((item for item in observation.engines if item.name is handler.engine), None)
    version = engine.version.value if engine and engine.version.value else "of unknown version"
    # The handler's own table is best named by the key that makes it an NVIDIA one.
    where = source_text(handler.binary.source)
    return Link("handler", (Line(handler.name, f"{handler.engine.value} {version}; {where}"),))


def _binary(runtime: HandlerRuntime) -> Link:
    shown = runtime.wrapper or runtime.program or runtime.handler.binary.value or "the default"
    lines = [Line(shown, "a wrapper script" if runtime.wrapper else "")]
    if runtime.wrapper and runtime.program:
        lines.append(Line(runtime.program, _toolkit_text(runtime)))
    elif runtime.is_nvidia is False:
        lines = [Line(shown, "no NVIDIA runtime: requests in the environment are not read")]
    else:
        lines = [Line(shown, _toolkit_text(runtime))]
    return Link("binary", tuple(lines))


def _toolkit_text(runtime: HandlerRuntime) -> str:
    version = runtime.toolkit.version.value if runtime.toolkit else None
    return f"NVIDIA Container Toolkit {version or 'of unknown version'}"


def _config(runtime: HandlerRuntime, config: ToolkitConfig) -> Link:
    source = runtime.toolkit.config_source if runtime.toolkit else Source(SourceKind.UNKNOWN)
    why = _why_this_file(source)
    lines = [Line(config.file, why if config.exists else f"{why}; absent, so defaults apply")]
    lines += [
        Line(
            other.file,
            f"not read: says mode {other.mode.value}, default-kind {other.default_kind.value}",
            Mark.ASIDE,
        )
        for other in runtime.other_configs
    ]
    return Link("config", tuple(lines))


def _why_this_file(source: Source) -> str:
    if source.kind is SourceKind.DEFAULT:
        return "the default place"
    if source.kind is SourceKind.FILE:
        return f"named by {source.key} in the wrapper script"
    if source.kind is SourceKind.ENVIRONMENT:
        return f"named by {source.key} in the engine's environment"
    return "it is not known why"


def _mode(runtime: HandlerRuntime) -> Link:
    mode = runtime.mode
    text = mode.value.value if mode.value else "unknown"
    meaning = "" if runtime.resolves_through_files else "; no spec file is looked at"
    return Link("mode", (Line(text, _in_config(mode.source, runtime.config) + meaning),))


def _kind(config: ToolkitConfig) -> Link:
    kind = config.default_kind
    return Link("kind", (Line(kind.value, _in_config(kind.source, config)),))


def _in_config(source: Source, config: ToolkitConfig | None) -> str:
    """Name a place in the file that the chain has just named by its line alone."""
    if config is None or source.file != config.file or source.line is None:
        return source_text(source)
    return f"line {source.line} of it: {source.key}"


def _request(config: ToolkitConfig, names: tuple[str, ...]) -> tuple[Link, ...]:
    if not names:
        return ()
    kind = config.default_kind.value
    return (
        Link(
            "asks for",
            tuple(Line(f"{kind}={name}", f"from NVIDIA_VISIBLE_DEVICES={name}") for name in names),
        ),
    )


def _files(observation: Observation, runtime: HandlerRuntime, names: tuple[str, ...]) -> Link:
    reader = reader_of(observation, runtime)
    if reader is None:
        return Link("files", (Line("unknown: the configuration cannot be read"),))
    kind = runtime.config.default_kind.value if runtime.config else ""
    files = sorted(reader.registry.files, key=lambda file: _kind_of(file) != kind)
    lines = tuple(_file_line(file, kind, names) for file in files)
    dirs = ", ".join(reader.reader.spec_dirs)
    return Link("files", lines or (Line(f"none in {dirs}", "", Mark.BAD),))


def reader_of(observation: Observation, runtime: HandlerRuntime) -> NodeReader | None:
    """Return the reader through which a handler resolves names."""
    name = runtime.handler.name
    return next((item for item in observation.readers if name in item.handlers), None)


def _kind_of(file: SpecFile) -> str:
    return file.outcome.spec.kind if isinstance(file.outcome, Accepted) else ""


def _file_line(file: SpecFile, kind: str, names: tuple[str, ...]) -> Line:
    if not isinstance(file.outcome, Accepted):
        return Line(file.path, f"dropped as a whole: {file.outcome.reason}", Mark.BAD)
    spec = file.outcome.spec
    defined = {device.name for device in spec.devices}
    note = f"{spec.kind}: {device_list(sorted(defined))}"
    if not names:
        return Line(file.path, note)
    has_all = defined.issuperset(names)
    if spec.kind == kind:
        return Line(file.path, note, Mark.GOOD if has_all else Mark.BAD)
    return Line(file.path, f"{note}; another kind" if has_all else note, Mark.ASIDE)


def device_list(names: list[str], shown: int = 3) -> str:
    """Return a few device names and how many more there are."""
    if not names:
        return "no device"
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


def source_text(source: Source) -> str:
    """Return where a value was read, as ``file:line key``."""
    if source.kind is SourceKind.FILE:
        line = f":{source.line}" if source.line is not None else ""
        return f"{source.file}{line}"
    words = {
        SourceKind.DEFAULT: "the default, no file sets it",
        SourceKind.ENVIRONMENT: f"environment variable {source.key}",
        SourceKind.PROCESS: "asked of the program",
        SourceKind.BINARY_NAME: "by the name of the binary",
    }
    return words.get(source.kind, "unknown")

"""Every handler of a node in one row each: what people list and programs read.

Owns: the row, its JSON form with stable field names. Must not know: how anything in it is found.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpucdi.cdi import reader_library
from gpucdi.engines import Engine, Handler, discover_engines
from gpucdi.findings import Finding
from gpucdi.host import HostTree
from gpucdi.programs import Programs
from gpucdi.toolkit.model import HandlerRuntime
from gpucdi.toolkit.prediction import reader_of
from gpucdi.toolkit.runtime import resolve_runtime


@dataclass(frozen=True, slots=True)
class HandlerRow:
    """One handler of one engine, with what runs behind it."""

    engine: Engine
    handler: Handler
    runtime: HandlerRuntime

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with this handler; the engine's own findings are not among it."""
        return self.runtime.findings

    def as_json(self) -> dict[str, object]:
        """Return the row as JSON values; ``null`` means unknown or not applicable.

        The names are stable; ``docs/predict.md`` says what each means.
        """
        engine, runtime, config = self.engine, self.runtime, self.runtime.config
        usable = config if config is not None and config.usable else None
        reader = reader_of(runtime)
        native = reader_library(engine.name.value, engine.version.value or "")
        return {
            "engine": engine.name.value,
            "engineVersion": engine.version.value,
            "place": engine.place,
            "handler": self.handler.name,
            "default": self.handler.is_default,
            "binary": self.handler.binary.value,
            "binarySource": str(self.handler.binary.source),
            "program": runtime.program,
            "nvidia": runtime.is_nvidia,
            "toolkit": None if runtime.toolkit is None else runtime.toolkit.version.value,
            "config": None if config is None else config.file,
            "configUsable": None if config is None else config.usable,
            "mode": None if runtime.mode.value is None else runtime.mode.value.value,
            "modeSource": str(runtime.mode.source) if runtime.is_nvidia else None,
            "defaultKind": None if usable is None else usable.default_kind.value,
            "specDirs": None if usable is None else list(usable.spec_dirs.value),
            "library": None if reader is None else str(reader.library),
            "otherConfigs": [other.file for other in runtime.conflicting_configs],
            "nativeCdi": engine.cdi_enabled.value,
            "nativeSpecDirs": list(engine.spec_dirs.value),
            "nativeLibrary": None if native is None else str(native),
        }


def handler_rows(host: HostTree, programs: Programs) -> tuple[HandlerRow, ...]:
    """Return every handler of every engine on the node, in the engines' order."""
    return tuple(
        HandlerRow(engine, handler, resolve_runtime(host, programs, handler))
        for engine in discover_engines(host, programs)
        for handler in engine.handlers
    )


def rows_of(
    engines: Iterable[Engine], runtimes: Iterable[HandlerRuntime]
) -> tuple[HandlerRow, ...]:
    """Return the same rows for a node that has been looked at already.

    ``runtimes`` holds one for each handler of ``engines``, in their order.
    """
    handlers = ((engine, handler) for engine in engines for handler in engine.handlers)
    return tuple(
        HandlerRow(engine, handler, runtime)
        for (engine, handler), runtime in zip(handlers, runtimes, strict=True)
    )

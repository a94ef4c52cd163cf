"""Everything one pass sees of a node, put side by side. Owns no judgement.

Owns: who reads CDI specs on this node (each handler's runtime, each engine natively), through which
directories and with which version of the library. Must not know: what should resolve.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gpucdi.api.intent import Intent
from gpucdi.cdi import DEFAULT_SPEC_DIRS, Library, Reader, Registry, reader_library
from gpucdi.engines import Engine, discover_engines
from gpucdi.engines.model import EngineName
from gpucdi.engines.versions import release
from gpucdi.findings import Finding
from gpucdi.host import HostTree
from gpucdi.node.inventory import Inventory
from gpucdi.programs import Programs
from gpucdi.toolkit import HandlerRuntime, resolve_runtime

TOOLKIT = "nvidia-container-toolkit"
# What a reader of unknown version is taken for when its registry is drawn: the library of most
# releases in the field. Files that we write are checked against both ends of the range as well.
ASSUMED_LIBRARY = Library("1.1.0")


@dataclass(frozen=True, slots=True)
class NodeReader:
    """One reader of spec files: a program with its directories and library.

    ``handlers`` are the runtime handlers that go through it, empty for an engine's own (native)
    injection. ``is_assumed`` is True when the program's version, hence its library, is not known.
    """

    label: str
    reader: Reader
    registry: Registry
    handlers: tuple[str, ...] = ()
    is_assumed: bool = False


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a node."""

    inventory: Inventory
    intent: Intent = field(default_factory=Intent)
    engines: tuple[Engine, ...] = ()
    runtimes: tuple[HandlerRuntime, ...] = ()
    readers: tuple[NodeReader, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def spec_dirs(self) -> tuple[str, ...]:
        """Return every directory that some reader reads, in order of first mention."""
        return tuple(
            dict.fromkeys(path for reader in self.readers for path in reader.reader.effective_dirs)
        )


def observe(
    host: HostTree, programs: Programs, inventory: Inventory, intent: Intent | None = None
) -> Observation:
    """Look at a host: engines, handlers, toolkits, and the registry as each reader sees it."""
    engines = discover_engines(host, programs)
    runtimes = tuple(
        resolve_runtime(host, programs, handler)
        for engine in engines
        for handler in engine.handlers
    )
    found = [finding for engine in engines for finding in engine.findings]
    found += [finding for runtime in runtimes for finding in runtime.findings]
    found += [
        finding
        for runtime in runtimes
        if runtime.config is not None
        for finding in runtime.config.findings
    ]
    return Observation(
        inventory=inventory,
        intent=intent or Intent(),
        engines=engines,
        runtimes=runtimes,
        readers=_readers(host, engines, runtimes),
        findings=tuple(dict.fromkeys(found)),
    )


def native_dirs(engine: Engine) -> tuple[str, ...]:
    """Return the directories that the engine's own injection really reads.

    Podman knows ``cdi_spec_dirs`` of containers.conf for long and obeys it from 5.5.0 on only
    (containers/podman pull request 25717; containers/common issue 2391).
    """
    version = release(engine.version.value)
    is_deaf = engine.name is EngineName.PODMAN and version is not None and version < (5, 5, 0)
    return DEFAULT_SPEC_DIRS if is_deaf else engine.spec_dirs.value


def unheeded_dirs(engine: Engine) -> tuple[str, ...]:
    """Return the directories that the engine's configuration names and the engine does not read."""
    read = native_dirs(engine)
    return tuple(path for path in engine.spec_dirs.value if path not in read)


@dataclass(frozen=True, slots=True)
class _Claim:
    program: str
    version: str | None
    spec_dirs: tuple[str, ...]
    handler: str | None = None


def _claims(engines: Iterable[Engine], runtimes: Iterable[HandlerRuntime]) -> Iterable[_Claim]:
    for runtime in runtimes:
        if runtime.is_nvidia and runtime.config is not None and runtime.config.usable:
            version = runtime.toolkit.version.value if runtime.toolkit else None
            dirs = runtime.config.spec_dirs.value
            yield _Claim(TOOLKIT, version, dirs, runtime.handler.name)
    for engine in engines:
        if engine.cdi_enabled.value is not False:
            yield _Claim(engine.name.value, engine.version.value, native_dirs(engine))


def _readers(
    host: HostTree, engines: Iterable[Engine], runtimes: Iterable[HandlerRuntime]
) -> tuple[NodeReader, ...]:
    merged: dict[_Claim, list[str]] = {}
    for claim in _claims(engines, runtimes):
        key = _Claim(claim.program, claim.version, claim.spec_dirs)
        merged.setdefault(key, []).extend([claim.handler] if claim.handler is not None else [])
    readers: list[NodeReader] = []
    for claim, handlers in merged.items():
        library = reader_library(claim.program, claim.version) if claim.version else None
        if library is None and claim.version and claim.program != TOOLKIT:
            # A known engine version without a library reads no CDI at all (containerd 1.6).
            continue
        reader = Reader(claim.spec_dirs, library or ASSUMED_LIBRARY)
        readers.append(
            NodeReader(
                label=f"{claim.program} {claim.version or 'of unknown version'}",
                reader=reader,
                registry=reader.load(host),
                handlers=tuple(dict.fromkeys(handlers)),
                is_assumed=library is None,
            )
        )
    return tuple(readers)

"""What the node lacks once our own files are thought away.

Owns: the foreign view (every registry without our files), the names that our file of each kind
should hold, and the request to a generator. Must not know: the generated content.
"""

from __future__ import annotations

import functools
import hashlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass

from gpucdi.api.names import OWN_FILE_PREFIX
from gpucdi.cdi import NEWEST, Accepted, Registry, Spec, decode_spec, lint_spec
from gpucdi.host import HostTree, real_or_same
from gpucdi.node.assessment import Assessment, KindAssessment
from gpucdi.node.generator import hook_beside, locate_generator
from gpucdi.node.kinds import ALL, MANAGEMENT_KIND
from gpucdi.node.observation import NodeReader, Observation
from gpucdi.node.owners import is_ours
from gpucdi.repair.content import own_fingerprint
from gpucdi.toolkit import HandlerRuntime


@dataclass(frozen=True, slots=True)
class OwnFile:
    """One of our spec files as it lies on the host."""

    path: str
    content: bytes

    @property
    def spec(self) -> Spec | None:
        """Return what the newest library reads in it, ``None`` if somebody broke it."""
        return _decoded(self.content, self.path)

    @property
    def kind(self) -> str:
        """Return its kind, empty if it is broken."""
        spec = self.spec
        return spec.kind if spec else ""

    @property
    def qualified(self) -> set[str]:
        """Return the qualified names that it defines."""
        spec = self.spec
        return {spec.qualified(device.name) for device in spec.devices} if spec else set()


@dataclass(frozen=True, slots=True)
class Generation:
    """What a generator is asked for: one kind, through the toolkit of a handler that asks for it.

    ``names`` are the devices wanted from it. ``ctk`` and ``hook`` are host paths, ``None`` when no
    toolkit on the node has one; ``toolkit_directory`` is where they were looked for first.
    ``fingerprint`` covers everything that the content depends on.
    """

    kind: str
    names: tuple[str, ...]
    ctk: str | None
    hook: str | None
    toolkit_version: str | None
    driver_root: str
    fingerprint: str
    toolkit_directory: str | None = None


# A pass asks for the spec of each of our files some ten times.
@functools.lru_cache(maxsize=32)
def _decoded(content: bytes, path: str) -> Spec | None:
    outcome = decode_spec(content, path, NEWEST)
    return outcome.spec if isinstance(outcome, Accepted) else None


def own_files(observation: Observation, host: HostTree) -> tuple[OwnFile, ...]:
    """Return the files that bear our name and our mark, in every directory some reader reads."""
    found: dict[str, OwnFile] = {}
    for directory in observation.spec_dirs:
        real = real_or_same(host, directory)
        try:
            entries = host.listdir(real)
        except OSError:
            continue
        for entry in entries:
            if not entry.startswith(OWN_FILE_PREFIX):
                continue
            path = posixpath.join(real, entry)
            if path in found or not is_ours(host, path):
                continue
            try:
                found[path] = OwnFile(path, host.read(path))
            except OSError:
                continue
    return tuple(found.values())


def foreign_registries(
    observation: Observation, host: HostTree, ours: tuple[OwnFile, ...]
) -> Mapping[str, Registry]:
    """Return each reader's registry as if our files were not there, by the reader's label."""
    if not ours:
        return {reader.label: reader.registry for reader in observation.readers}
    absent = absent_overlay(observation, host, ours)
    return {
        reader.label: reader.reader.load(host, overlay=absent) for reader in observation.readers
    }


def absent_overlay(
    observation: Observation, host: HostTree, ours: tuple[OwnFile, ...]
) -> dict[str, bytes | None]:
    """Return an overlay that hides our files under every name by which a reader reaches them."""
    hidden: dict[str, bytes | None] = {}
    for file in ours:
        for path in spellings(observation, host, file.path):
            hidden[path] = None
    return hidden


def spellings(observation: Observation, host: HostTree, path: str) -> tuple[str, ...]:
    """Return the host paths by which readers reach ``path``: /run/cdi/x is /var/run/cdi/x too."""
    directory, name = posixpath.split(path)
    same = [item for item in observation.spec_dirs if real_or_same(host, item) == directory]
    return tuple(dict.fromkeys([path, *(posixpath.join(item, name) for item in same)]))


def targets(
    kind: KindAssessment, expected: tuple[str, ...], foreign: Mapping[str, Registry]
) -> tuple[str, ...]:
    """Return the names that our file of ``kind`` should hold: expected, and nobody else's.

    ``all`` of the management kind is the toolkit's alone: it stands for every NVIDIA device node
    of the host, which no device that is generated per GPU has.

    A name that others define twice in one directory is lost to everybody, wherever else it is
    defined; no file of ours can bring it back, so it is no target.
    """
    registries = [foreign[reader.label] for reader in kind.readers]
    everywhere = [*foreign.values()]
    return tuple(
        name
        for name in expected
        if any(name not in registry.names_of(kind.kind) for registry in registries)
        and not any(f"{kind.kind}={name}" in registry.conflicts for registry in everywhere)
        and not (name == ALL and kind.kind == MANAGEMENT_KIND)
    )


def wanted(assessment: Assessment, host: HostTree) -> tuple[Generation, ...]:
    """Return what must be generated: nothing for a kind whose own file is still right.

    Nothing at all while NVML is silent, for ``nvidia-ctk`` would fail for the same reason.
    """
    observation = assessment.observation
    if observation.inventory.problem is not None:
        return ()
    ours = own_files(observation, host)
    foreign = foreign_registries(observation, host, ours)
    requests: list[Generation] = []
    for kind in assessment.kinds:
        names = targets(kind, kind.expected, foreign) if kind.managed else ()
        if not names:
            continue
        generation = _generation(observation, host, kind, names)
        if not any(_serves(file, generation, host) for file in ours):
            requests.append(generation)
    return tuple(requests)


def _serves(file: OwnFile, generation: Generation, host: HostTree) -> bool:
    """Tell whether our file has all the wanted names, from today's inputs, with sound devices."""
    if own_fingerprint(file.content) != generation.fingerprint:
        return False
    spec = file.spec
    if spec is None or spec.kind != generation.kind:
        return False
    names = {device.name for device in spec.devices}
    return names >= set(generation.names) and not lint_spec(spec, host)


def _generation(
    observation: Observation, host: HostTree, kind: KindAssessment, names: tuple[str, ...]
) -> Generation:
    runtime = _runtime(observation, kind)
    toolkit = runtime.toolkit if runtime else None
    if toolkit is None or toolkit.ctk is None:
        # A native request needs no handler of NVIDIA's, and any toolkit can generate for it.
        ctk = locate_generator(host)
        hook = hook_beside(host, ctk) if ctk else None
        version = None
    else:
        ctk, hook, version = toolkit.ctk, toolkit.hook, toolkit.version.value
    root = runtime.config.driver_root.value if runtime and runtime.config else "/"
    return Generation(
        kind=kind.kind,
        names=names,
        ctk=ctk,
        hook=hook,
        toolkit_version=version,
        driver_root=root or "/",
        fingerprint=fingerprint(observation, runtime),
        toolkit_directory=toolkit.directory if toolkit else None,
    )


def fingerprint_of(observation: Observation, kind: KindAssessment) -> str:
    """Return the fingerprint that our file of ``kind`` has if it was made from today's inputs."""
    return fingerprint(observation, _runtime(observation, kind))


def _runtime(observation: Observation, kind: KindAssessment) -> HandlerRuntime | None:
    known = [item for item in observation.runtimes if item.toolkit is not None]
    able = [item for item in known if item.toolkit and item.toolkit.ctk]
    asking = [item for item in able if item.handler.name in kind.handlers]
    # One without nvidia-ctk cannot generate, but tells what our file was made from, and what lacks.
    unable = [item for item in known if item.handler.name in kind.handlers]
    return next(iter([*asking, *able, *unable]), None)


def fingerprint(observation: Observation, runtime: HandlerRuntime | None) -> str:
    """Hash what a generated spec depends on: driver, devices, MIG layout, toolkit, driver root.

    File times say nothing about freshness; this does.
    """
    gpus = observation.inventory.gpus
    parts = [gpus.driver]
    for gpu in gpus.devices:
        parts += [gpu.uuid, str(gpu.index), str(gpu.minor), gpu.pci, str(gpu.mig_enabled)]
        parts += [f"{mig.uuid} {mig.index}" for mig in gpu.mig]
    if runtime is not None and runtime.toolkit is not None:
        parts += [str(runtime.toolkit.version.value), str(runtime.toolkit.hook)]
    if runtime is not None and runtime.config is not None:
        parts.append(runtime.config.driver_root.value)
    return "sha256:" + hashlib.sha256("\n".join(parts).encode()).hexdigest()


def readers_of(observation: Observation, directory: str, host: HostTree) -> tuple[NodeReader, ...]:
    """Return the readers that read ``directory`` under whatever spelling."""
    real = real_or_same(host, directory)
    return tuple(
        reader
        for reader in observation.readers
        if any(real_or_same(host, item) == real for item in reader.reader.effective_dirs)
    )

"""``gpucdi-agent capture``: the part of a node that verdicts rest on, as one archive.

Owns: what a verdict of any gpucdi command looks at, and the file that is written. Must not know:
redaction, bounds and the archive's format; they are ``gpucdi.capture``'s.
"""

from __future__ import annotations

import posixpath
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import NamedTemporaryFile

from gpucdi.api import Intent
from gpucdi.capture import Capture, collect, write_archive
from gpucdi.cdi import injection_error
from gpucdi.host import CAPTURE_NAME, HostTree
from gpucdi.node import Assessment, assess, observe
from gpucdi.programs import CapturedPrograms, Programs
from gpucdi.repair import plan, wanted
from gpucdi.toolkit import (
    HandlerRuntime,
    effective_settings,
    kernel_inventory,
    kernel_module_loaded,
    read_platform,
)
from gpucdi_agent.commands import HostRunner
from gpucdi_agent.inventory import take_inventory
from gpucdi_agent.programs import LivePrograms

FINE, NOT_DONE = 0, 2
_KIB = 1024
# What a generator would put into a spec, which `gpucdi diff` foretells.
_DRIVER_FILES = (
    ("usr/bin", "nvidia-"),
    ("usr/lib64", ".so."),
    ("usr/lib/x86_64-linux-gnu", ".so."),
    ("usr/lib/aarch64-linux-gnu", ".so."),
)
_FIRMWARE = "lib/firmware/nvidia"
_IMEX_CHANNELS = "dev/nvidia-caps-imex-channels"


def capture(root: Path, output: Path, *, force: bool = False) -> int:
    """Collect from the host at ``root`` into ``output``; what was left out is said on stderr.

    A file that is there already is only replaced with ``force``.
    """
    if not force and (output.is_file() or output.is_symlink()) and not _is_stream(output):
        sys.stderr.write(f"gpucdi-agent: {output} exists; give another name, or --force\n")
        return NOT_DONE
    host = HostTree(root)
    if host.capture.problem is not None:
        sys.stderr.write(f"gpucdi-agent: {host.capture.problem}; mend or remove it\n")
        return NOT_DONE
    is_capture = (root / CAPTURE_NAME).exists()
    programs: Programs = (
        CapturedPrograms.of(host) if is_capture else LivePrograms(host, HostRunner(root))
    )
    found = collect(host, programs, look)
    try:
        _write(found, output)
    except OSError as error:
        sys.stderr.write(f"{output} cannot be written: {error.strerror or error}\n")
        return NOT_DONE
    sys.stderr.write("".join(f"{line}\n" for line in _summary(found, output)))
    return FINE


def look(host: HostTree, programs: Programs) -> None:
    """Look at everything that inspect, explain, diff and predict look at, whatever they find."""
    inventory = take_inventory(host, None).inventory
    assessment = assess(observe(host, programs, inventory, Intent()), host)
    plan(assessment, host, wanted(assessment, host), {})
    for reader in assessment.observation.readers:
        for name in reader.registry.devices:
            edits = reader.registry.resolve([name]).edits
            if edits is not None:
                injection_error(edits, host)
    read_platform(host)
    kernel_inventory(host)
    kernel_module_loaded(host)
    for runtime in assessment.observation.runtimes:
        if runtime.modules_file is not None:
            kernel_module_loaded(host, runtime.modules_file)
        if runtime.config is not None:
            effective_settings(host, runtime.config, None)
    for path in _driver_files(host, assessment):
        host.exists(path)


def _driver_files(host: HostTree, assessment: Assessment) -> Iterator[str]:
    # Listed behind the recorder's back: of a folder with thousands of files only these are kept.
    unseen = HostTree(host.root)
    gpus = assessment.observation.inventory.gpus
    roots = {"/", *(_driver_root(item) for item in assessment.observation.runtimes)}
    for root in sorted(roots):
        for folder, part in _DRIVER_FILES:
            yield from (
                path
                for path in _entries(unseen, posixpath.join(root, folder))
                if part in posixpath.basename(path)
                and (part != ".so." or (gpus.driver and path.endswith(f"{part}{gpus.driver}")))
            )
        if gpus.driver:
            yield from _entries(unseen, posixpath.join(root, _FIRMWARE, gpus.driver))
        yield from _entries(unseen, posixpath.join(root, _IMEX_CHANNELS))
        yield from (
            path
            for path in _entries(unseen, posixpath.join(root, "dev"))
            if posixpath.basename(path).startswith("nvidia")
        )


def _driver_root(runtime: HandlerRuntime) -> str:
    root = runtime.config.driver_root.value if runtime.config is not None else ""
    return root if root.startswith("/") else "/"


def _entries(host: HostTree, folder: str) -> list[str]:
    try:
        return [posixpath.join(folder, name) for name in host.listdir(folder)]
    except OSError:
        return []


def _write(found: Capture, output: Path) -> None:
    """Write whole or not at all, readable by its owner alone; a pipe is written as it is."""
    if _is_stream(output):
        write_archive(found, output)
        return
    # Under a name that nobody could foresee: the folder may be one that everybody writes to.
    with NamedTemporaryFile(dir=output.parent, prefix=f".{output.name}.", delete=False) as file:
        partial = Path(file.name)
    try:
        write_archive(found, partial)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def _is_stream(output: Path) -> bool:
    """Tell whether this is a pipe, or an open file of ours, which /dev/stdout may be."""
    ours = output.parent in {Path("/dev"), Path("/dev/fd"), Path("/proc/self/fd")}
    return output.exists() and (ours or not output.is_file())


def _summary(found: Capture, output: Path) -> Iterator[str]:
    size = -(-found.size_bytes // _KIB)
    yield f"{output}: {found.entries} entries, {size} KiB of text, secrets replaced"
    yield from (f"left out: {line}" for line in found.omitted)

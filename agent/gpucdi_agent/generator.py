"""Asking the node's own ``nvidia-ctk`` for a spec.

Owns: which flags each version takes, running it, and what its failures mean. Must not know: what is
kept of the spec, nor where it goes (``gpucdi.repair``).

Sources: NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk/cdi/generate/generate.go`` at the tags
v1.12.0 to v1.20.2 (when each flag came), ``CHANGELOG.md``.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpucdi.engines.versions import Release, release
from gpucdi.findings import Cause, Finding, Severity, Who
from gpucdi.node.generator import no_generator
from gpucdi.node.kinds import ALL, NONE
from gpucdi.repair import Generation
from gpucdi_agent.assembled import merge, with_none
from gpucdi_agent.commands import HOST_PATH, Command, CommandResult, CommandRunner, Ending

DEADLINE_SECONDS = 60.0
MESSAGE_LIMIT = 300
_LOGGED = re.compile(r'level=(?:error|fatal) msg="((?:[^"\\]|\\.)*)"')
_HELP_DEADLINE_SECONDS = 5.0

# The release that brought each flag; the older name of the hook flag stays as an alias.
_SINCE: Mapping[str, Release] = {
    "--vendor": (1, 13, 0),
    "--mode": (1, 13, 0),
    "--nvidia-cdi-hook-path": (1, 16, 0),
    "--no-all-device": (1, 19, 0),
    "--device-id": (1, 19, 0),
}
_REPEATED_STRATEGIES: Release = (1, 15, 0)
_RELATIVE_LIBRARY: Release = (1, 16, 0)


class Generator(Protocol):
    """Makes the full spec of one kind, as the toolkit would."""

    def generate(self, generation: Generation) -> bytes | Finding:
        """Return a CDI spec with at least the asked names if possible, or why there is none."""


@dataclass(frozen=True, slots=True)
class Abilities:
    """What one ``nvidia-ctk`` can do, by its version or, where that is unknown, its help text."""

    flags: frozenset[str]
    repeats_strategies: bool
    loads_library_from_root: bool

    @classmethod
    def of_version(cls, version: Release) -> Abilities:
        """Return what the release ``version`` can do."""
        return cls(
            flags=frozenset(flag for flag, since in _SINCE.items() if version >= since),
            repeats_strategies=version >= _REPEATED_STRATEGIES,
            loads_library_from_root=version >= _RELATIVE_LIBRARY,
        )

    @classmethod
    def of_help(cls, text: str) -> Abilities:
        """Return what the output of ``cdi generate --help`` shows."""
        flags = frozenset(flag for flag in _SINCE if re.search(rf"{flag}\b", text))
        return cls(
            flags=flags,
            # --config-search-path came with the release that made strategies repeatable.
            repeats_strategies="--config-search-path" in text,
            loads_library_from_root="--nvidia-cdi-hook-path" in flags,
        )


NEWEST = Abilities(frozenset(_SINCE), repeats_strategies=True, loads_library_from_root=True)


@dataclass(frozen=True, slots=True)
class CtkGenerator:
    """Runs ``nvidia-ctk cdi generate`` to standard output.

    ``program`` replaces the toolkit's own and is called with the flags of its version, those of a
    current release where that is not known.
    ``environment`` is added to the program's; ``library_path`` tells where the driver's libnvidia-ml
    lies, for releases that load it by name alone.
    """

    runner: CommandRunner
    program: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    library_path: Callable[[], str | None] = field(default=lambda: None)
    deadline_seconds: float = DEADLINE_SECONDS

    def generate(self, generation: Generation) -> bytes | Finding:
        """Return the spec on standard output, or a finding with the shortened error."""
        program = self.program or generation.ctk
        if program is None:
            return no_generator(generation.kind, generation.toolkit_directory)
        made = self._generate(program, generation)
        if NONE in generation.names and isinstance(made, bytes):
            return with_none(made, program)
        return made

    def _generate(self, program: str, generation: Generation) -> bytes | Finding:
        abilities = self._abilities(program, generation.toolkit_version)
        if abilities is None or "--vendor" not in abilities.flags:
            return _too_old(generation, program)
        first = self._run(program, generation, abilities, ())
        if _has_spec(first):
            return first.stdout
        # One GPU that is lost, or enabled for MIG and without instances, fails them all.
        ids = device_ids(generation) if "--device-id" in abilities.flags else ()
        if not ids or first.ending is not Ending.EXITED:
            return _failed(generation, program, first)
        named = self._run(program, generation, abilities, ids)
        if _has_spec(named):
            return named.stdout
        each: list[CommandResult] = []
        for item in ids:
            each.append(self._run(program, generation, abilities, (item,)))
            if each[-1].ending is not Ending.EXITED:
                break  # what hangs once hangs for every device, and a pass must end
        merged = merge([run.stdout for run in each if _has_spec(run)], program)
        return merged if merged is not None else _failed(generation, program, first)

    def _run(
        self, program: str, generation: Generation, abilities: Abilities, ids: tuple[str, ...]
    ) -> CommandResult:
        return self.runner.run(
            Command(
                (program, *generate_arguments(generation, abilities, ids)),
                deadline_seconds=self.deadline_seconds,
                environment=self._environment(abilities),
            )
        )

    def _abilities(self, program: str, version: str | None) -> Abilities | None:
        known = release(version)
        if known is not None:
            return Abilities.of_version(known)
        if self.program is not None:
            return NEWEST
        result = self.runner.run(
            Command((program, "cdi", "generate", "--help"), _HELP_DEADLINE_SECONDS)
        )
        text = result.stdout.decode("utf-8", "replace") + result.stderr
        return Abilities.of_help(text) if "--output" in text else None

    def _environment(self, abilities: Abilities) -> Mapping[str, str]:
        environment = {"PATH": HOST_PATH, **self.environment}
        library = self.library_path()
        if not abilities.loads_library_from_root and library is not None:
            environment["LD_LIBRARY_PATH"] = library.rpartition("/")[0]
        return environment


def device_ids(generation: Generation) -> tuple[str, ...]:
    """Return the wanted devices one by one: by UUID where they have one among their names."""
    single = [name for name in generation.names if name not in {ALL, NONE}]
    uuids = [name for name in single if name.startswith(("GPU-", "MIG-"))]
    return tuple(uuids or single)


def _has_spec(result: CommandResult) -> bool:
    return result.succeeded and bool(result.stdout.strip())


def generate_arguments(
    generation: Generation, abilities: Abilities, ids: Sequence[str] = ()
) -> tuple[str, ...]:
    """Return the arguments after the program's name; ``ids`` restrict it to some devices.

    The mode is always given: 1.18.0 would take it from the runtime's configuration, and detection
    could land on another platform. Normally all devices are asked for and the wanted names picked
    later: the edits beside the devices are the same, and one run is cheaper than several.
    """
    vendor, _, kind_class = generation.kind.partition("/")
    arguments = ["cdi", "generate", "--mode", "nvml", "--vendor", vendor, "--class", kind_class]
    arguments += ["--driver-root", generation.driver_root]
    if generation.hook is not None:
        new = "--nvidia-cdi-hook-path"
        flag = new if new in abilities.flags else "--nvidia-ctk-path"
        arguments += [flag, generation.hook]
    for strategy in _strategies(generation, abilities):
        arguments += ["--device-name-strategy", strategy]
    if ALL not in generation.names and "--no-all-device" in abilities.flags:
        arguments.append("--no-all-device")
    for item in ids:
        arguments += ["--device-id", item]
    return tuple(arguments)


def _strategies(generation: Generation, abilities: Abilities) -> tuple[str, ...]:
    if abilities.repeats_strategies:
        return ("index", "uuid")
    # One strategy a run: UUIDs are what schedulers hand out.
    needs_uuid = any(name.startswith(("GPU-", "MIG-")) for name in generation.names)
    return ("uuid",) if needs_uuid else ("index",)


def _too_old(generation: Generation, program: str) -> Finding:
    return Finding(
        cause=Cause.GENERATOR_FAILED,
        severity=Severity.ERROR,
        message=f"{program} cannot name a kind (cdi generate --vendor came with 1.13)",
        advice="update the NVIDIA Container Toolkit of this handler",
        who=Who.ADMIN,
        file=program,
        kind=generation.kind,
    )


def _failed(generation: Generation, program: str, result: CommandResult) -> Finding:
    # Any other reason (no file descriptor left, no memory) says nothing of the program.
    not_there = result.problem == os.strerror(errno.ENOENT)
    missing = result.ending is Ending.NOT_STARTED and not_there
    return Finding(
        cause=Cause.GENERATOR_MISSING if missing else Cause.GENERATOR_FAILED,
        severity=Severity.ERROR,
        message=f"{program} cdi generate: {_what_happened(result)}",
        advice=_advice(result),
        who=Who.ADMIN,
        file=program,
        kind=generation.kind,
    )


def _what_happened(result: CommandResult) -> str:
    if result.ending is Ending.NOT_STARTED:
        return result.problem
    if result.ending is Ending.TIMED_OUT:
        return f"no end within {result.seconds:.0f} s"
    if result.ending is Ending.TOO_MUCH_OUTPUT:
        return "more output than any spec has"
    if result.succeeded:
        return "exit code 0, but no spec on standard output"
    return f"exit code {result.exit_code}: {short_error(result.stderr)}"


def short_error(stderr: str) -> str:
    """Return the one line of ``nvidia-ctk``'s log that says what failed.

    It logs in logrus' text form; a panic (``panic: …``) and the linker's complaint are plain text.
    """
    logged: list[str] = _LOGGED.findall(stderr)
    if logged:
        text = logged[-1].replace('\\"', '"').replace("\\n", " ").replace("\\t", " ")
    else:
        lines = [line.strip() for line in stderr.splitlines() if line.strip()]
        panics = [line for line in lines if line.startswith(("panic:", "fatal error:"))]
        text = (panics or lines[-1:] or ["no message"])[0]
    return text if len(text) <= MESSAGE_LIMIT else text[: MESSAGE_LIMIT - 1] + "…"


# What a text of nvidia-ctk means for the person who reads the finding.
_ADVICE: tuple[tuple[str, str], ...] = (
    (
        "ERROR_LIBRARY_NOT_FOUND",
        "set nvidia-container-cli.root to the driver's root, or install it",
    ),
    ("Driver Not Loaded", "load the kernel module (modprobe nvidia)"),
    ("version mismatch", "reload the kernel module or reboot: module and libraries differ"),
    ("GPU is lost", "look for Xid in dmesg, drain the node and reset or replace the GPU"),
    ("mig-minors", "the module does not show MIG capabilities; reset the GPU or reload the driver"),
    ("empty device edits", "look for missing /dev/nvidia* nodes (nvidia-smi creates them)"),
    ("failed to locate libcuda", "the driver installation is incomplete under the driver root"),
    ("no space left", "free space in the directory that TMPDIR names"),
)


def _advice(result: CommandResult) -> str:
    for text, advice in _ADVICE:
        if text in result.stderr:
            return advice
    return "run the same command on the host and mend what it names"

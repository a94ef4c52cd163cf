"""Which flags nvidia-ctk is given, and what becomes of its answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import yaml

from gpucdi.findings import Cause, Finding
from gpucdi.repair import Generation
from gpucdi_agent.commands import Command, CommandResult, Ending
from gpucdi_agent.generator import (
    Abilities,
    CtkGenerator,
    generate_arguments,
    short_error,
)

KIND = "management.nvidia.com/gpu"
WANTED = Generation(
    kind=KIND,
    names=("0", "GPU-1", "1", "GPU-2"),
    ctk="/usr/local/nvidia/toolkit/nvidia-ctk",
    hook="/usr/local/nvidia/toolkit/nvidia-cdi-hook",
    toolkit_version="1.20.2",
    driver_root="/run/nvidia/driver",
    fingerprint="sha256:0",
)


@dataclass
class GivenRunner:
    """Answers each command by a function and remembers it."""

    answer: Callable[[tuple[str, ...]], CommandResult]
    commands: list[Command] = field(default_factory=list)

    def run(self, command: Command) -> CommandResult:
        self.commands.append(command)
        return self.answer(command.arguments)


def spec(*names: str) -> CommandResult:
    devices = [
        {"name": name, "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]}}
        for name in names
    ]
    content = {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices}
    return CommandResult(Ending.EXITED, 0, yaml.safe_dump(content).encode())


def failed(stderr: str, code: int = 1) -> CommandResult:
    return CommandResult(Ending.EXITED, code, stderr=stderr)


def arguments(version: tuple[int, int, int], generation: Generation = WANTED) -> str:
    return " ".join(generate_arguments(generation, Abilities.of_version(version)))


def test_the_mode_kind_root_and_hook_are_always_explicit() -> None:
    text = arguments((1, 20, 2))

    assert text.startswith("cdi generate --mode nvml --vendor management.nvidia.com --class gpu")
    assert "--driver-root /run/nvidia/driver" in text
    assert "--nvidia-cdi-hook-path /usr/local/nvidia/toolkit/nvidia-cdi-hook" in text


@pytest.mark.parametrize(
    ("version", "present", "absent"),
    [
        ((1, 13, 5), "--nvidia-ctk-path", "--nvidia-cdi-hook-path"),
        ((1, 16, 0), "--nvidia-cdi-hook-path", "--nvidia-ctk-path"),
        ((1, 18, 2), "--nvidia-cdi-hook-path", "--no-all-device"),
        ((1, 19, 0), "--no-all-device", "--nvidia-ctk-path"),
    ],
)
def test_each_release_gets_the_flags_it_knows(
    version: tuple[int, int, int], present: str, absent: str
) -> None:
    text = arguments(version)

    assert present in text
    assert absent not in text


def test_strategies_are_repeated_only_where_that_is_understood() -> None:
    assert arguments((1, 14, 6)).count("--device-name-strategy") == 1
    assert "--device-name-strategy uuid" in arguments((1, 14, 6))
    assert arguments((1, 15, 0)).count("--device-name-strategy") == 2


def test_a_wanted_all_device_is_not_forbidden() -> None:
    assert "--no-all-device" not in arguments((1, 20, 2), replace(WANTED, names=("GPU-1", "all")))


def test_the_spec_on_standard_output_is_the_answer() -> None:
    runner = GivenRunner(lambda _: spec("0"))

    assert CtkGenerator(runner).generate(WANTED) == spec("0").stdout


def test_one_lost_gpu_makes_it_ask_for_the_sound_ones_by_name() -> None:
    lost = failed('time="x" level=error msg="error getting device handle: GPU is lost"')
    runner = GivenRunner(lambda given: spec("0", "GPU-1") if "--device-id" in given else lost)

    made = CtkGenerator(runner).generate(WANTED)

    assert made == spec("0", "GPU-1").stdout
    assert runner.commands[-1].arguments[-4:] == ("--device-id", "GPU-1", "--device-id", "GPU-2")


def test_one_bad_device_does_not_take_the_others_names_away() -> None:
    def answer(given: tuple[str, ...]) -> CommandResult:
        if given.count("--device-id") != 1 or given[-1] == "GPU-2":
            return failed('level=error msg="invalid device, empty device edits"')
        return spec("0", "GPU-1", "all")

    made = CtkGenerator(GivenRunner(answer)).generate(WANTED)

    assert isinstance(made, bytes)
    assert [device["name"] for device in yaml.safe_load(made)["devices"]] == ["0", "GPU-1"]


def test_a_generator_that_begins_to_hang_is_not_asked_for_each_device() -> None:
    def answer(given: tuple[str, ...]) -> CommandResult:
        if given.count("--device-id") == 1:
            return CommandResult(Ending.TIMED_OUT, seconds=60.0)
        return failed('level=error msg="GPU is lost"')

    runner = GivenRunner(answer)
    made = CtkGenerator(runner).generate(WANTED)

    assert isinstance(made, Finding)
    assert len(runner.commands) == 3


def test_a_release_that_cannot_choose_devices_is_run_once() -> None:
    runner = GivenRunner(lambda _: failed('level=error msg="GPU is lost"'))

    made = CtkGenerator(runner).generate(replace(WANTED, toolkit_version="1.18.2"))

    assert isinstance(made, Finding)
    assert len(runner.commands) == 1
    assert "Xid" in made.advice


def test_no_program_is_a_finding() -> None:
    lacking = replace(WANTED, ctk=None, toolkit_directory="/opt/toolkit")

    made = CtkGenerator(GivenRunner(lambda _: spec())).generate(lacking)

    assert isinstance(made, Finding)
    assert (made.cause, made.kind) == (Cause.GENERATOR_MISSING, KIND)
    assert made.file == "/opt/toolkit/nvidia-ctk"


def test_a_program_that_does_not_start_is_missing_with_its_path() -> None:
    runner = GivenRunner(
        lambda _: CommandResult(Ending.NOT_STARTED, problem="No such file or directory")
    )

    made = CtkGenerator(runner).generate(WANTED)

    assert isinstance(made, Finding)
    assert (made.cause, made.file) == (Cause.GENERATOR_MISSING, WANTED.ctk)


@pytest.mark.parametrize(
    ("result", "told"),
    [
        (CommandResult(Ending.NOT_STARTED, problem="Too many open files"), "Too many open files"),
        (CommandResult(Ending.TIMED_OUT, seconds=60.0), "no end within 60 s"),
        (CommandResult(Ending.TOO_MUCH_OUTPUT), "more output"),
        (CommandResult(Ending.EXITED, 0), "no spec on standard output"),
        (failed("panic: runtime error\n\ngoroutine 1", 2), "exit code 2: panic: runtime error"),
        (failed("x: undefined symbol: nvmlFoo", 127), "exit code 127: x: undefined symbol"),
    ],
)
def test_every_other_end_is_a_finding_that_says_which(result: CommandResult, told: str) -> None:
    made = CtkGenerator(GivenRunner(lambda _: result)).generate(
        replace(WANTED, toolkit_version="1.18.2")
    )

    assert isinstance(made, Finding)
    assert made.cause is Cause.GENERATOR_FAILED
    assert told in made.message


def test_an_unknown_version_is_read_from_the_help_text() -> None:
    def answer(given: tuple[str, ...]) -> CommandResult:
        if "--help" in given:
            text = b"--output value\n--vendor value\n--mode value\n--nvidia-ctk-path value\n"
            return CommandResult(Ending.EXITED, 0, text)
        return spec("GPU-1")

    runner = GivenRunner(answer)
    made = CtkGenerator(runner).generate(replace(WANTED, toolkit_version=None))

    assert isinstance(made, bytes)
    assert "--nvidia-ctk-path" in runner.commands[-1].arguments
    assert "--device-id" not in runner.commands[-1].arguments


def test_a_release_that_cannot_name_a_kind_is_told_so() -> None:
    made = CtkGenerator(GivenRunner(lambda _: spec())).generate(
        replace(WANTED, toolkit_version="1.12.1")
    )

    assert isinstance(made, Finding)
    assert "--vendor" in made.message


def test_old_releases_find_the_library_through_the_environment() -> None:
    runner = GivenRunner(lambda _: spec("0"))
    generator = CtkGenerator(runner, library_path=lambda: "/usr/lib64/libnvidia-ml.so.1")

    generator.generate(replace(WANTED, toolkit_version="1.15.0"))
    generator.generate(replace(WANTED, toolkit_version="1.16.0"))

    old, new = runner.commands
    assert old.environment["LD_LIBRARY_PATH"] == "/usr/lib64"
    assert "LD_LIBRARY_PATH" not in new.environment


def test_the_last_logged_error_is_what_is_shown() -> None:
    stderr = (
        'time="t" level=info msg="Auto-detected mode"\n'
        'time="t" level=warning msg="Could not locate x"\n'
        'time="t" level=error msg="failed add device \\"1\\": invalid device"\n'
    )

    assert short_error(stderr) == 'failed add device "1": invalid device'


def test_a_long_error_is_cut() -> None:
    assert len(short_error("x" * 5000)) == 300


def test_silence_is_said_to_be_silence() -> None:
    assert short_error("") == "no message"


def test_a_wanted_none_device_is_added_with_an_edit_that_does_nothing() -> None:
    runner = GivenRunner(lambda _: spec("0", "GPU-1"))

    made = CtkGenerator(runner).generate(replace(WANTED, names=("0", "GPU-1", "none")))

    assert isinstance(made, bytes)
    devices = yaml.safe_load(made)["devices"]
    assert [device["name"] for device in devices] == ["0", "GPU-1", "none"]
    assert devices[-1]["containerEdits"] == {"env": ["NVCT_EMPTY_DEVICE="]}

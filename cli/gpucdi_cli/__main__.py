"""``gpucdi``, also installed as ``kubectl-gpucdi`` so that ``kubectl gpucdi`` works.

Owns: the list of commands, loading just the one that is asked for, and turning errors into exit
codes. Must not know: what any command does.

Exit codes: 0 nothing wrong, 1 drift or a problem was found, 2 the command could not be carried out
(usage, unreadable input, no cluster, no room for the output); 130 and 141 as shells count an
interrupt and a reader that went away.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TextIO

from gpucdi_cli.problems import EXIT_USAGE, CliError


@dataclass(frozen=True, slots=True)
class Command:
    """One command: its module has ``add_arguments(parser)`` and the function ``entry(arguments)``."""

    name: str
    help: str
    module: str
    entry: str = "run"


COMMANDS = (
    Command(
        "explain",
        "say why a Pod, an Event or a pasted text failed, and what to do",
        "gpucdi_cli.explain",
        "run_explain",
    ),
    Command("nodes", "list the GPU nodes of the cluster with their verdicts", "gpucdi_cli.nodes"),
    Command("diff", "show what a repair would add on a node", "gpucdi_cli.diff"),
    Command(
        "predict", "say which devices a Pod would get on a captured node", "gpucdi_cli.predict"
    ),
    Command("inspect", "show a captured node: handlers, kinds, findings", "gpucdi_cli.inspection"),
    Command("demo", "watch the first incident being seen, explained and healed", "gpucdi_cli.demo"),
)

# 128 and the number of SIGPIPE: a program that knew no better would have died of it.
_READER_LEFT = 141

_EPILOG = """\
exit codes:
  0  nothing wrong
  1  drift, or a problem that the command was asked to look for
  2  the command could not be carried out: usage, unreadable input, no cluster

`gpucdi COMMAND --help` tells what a command takes. `explain` answers 0 whatever the verdict.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    _prepare_streams()
    try:
        arguments = _parsed(given)
        entry: Callable[[argparse.Namespace], int] = arguments.entry
        code = entry(arguments)
        # Here and not at exit, where Python can only complain of what does not go through.
        sys.stdout.flush()
    except CliError as error:
        sys.stderr.write(f"{program_name()}: {error}\n")
        return EXIT_USAGE
    except BrokenPipeError:
        # `| head` has seen enough; what is left in the buffer must not raise at exit.
        _drop_output()
        return _READER_LEFT
    except OSError as error:
        sys.stderr.write(f"{program_name()}: {error.strerror or error}: the output is not whole\n")
        _drop_output()
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130
    return code


def _prepare_streams() -> None:
    # Python has no stream at all where the shell closed it (`>&-`).
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without UTF-8 shows question marks; it must not end the program.
            stream.reconfigure(errors="replace")


def _nowhere() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def program_name() -> str:
    """Return what the user typed: ``kubectl gpucdi`` for the plugin, ``gpucdi`` otherwise."""
    return "kubectl gpucdi" if Path(sys.argv[0]).name.startswith("kubectl-") else "gpucdi"


def available() -> tuple[Command, ...]:
    """Return the commands of this build, in the order of ``--help``."""
    return tuple(item for item in COMMANDS if importlib.util.find_spec(item.module) is not None)


def _chosen(argv: Sequence[str]) -> str | None:
    return next((word for word in argv if not word.startswith("-")), None)


def _parsed(given: Sequence[str]) -> argparse.Namespace:
    parser = _parser(_chosen(given))
    arguments, unknown = parser.parse_known_args(given)
    if unknown:
        # The command's own usage is what helps, and argparse shows the program's.
        command: argparse.ArgumentParser = arguments.command
        command.error(f"unrecognized arguments: {' '.join(unknown)}")
    return arguments


def _parser(chosen: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program_name(),
        description="Finds, explains and repairs GPU Pods that will not start because of CDI.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"gpucdi {_version()}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in available():
        child = commands.add_parser(
            command.name,
            help=command.help,
            description=f"{command.help[0].upper()}{command.help[1:]}.",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if command.name == chosen:
            _load(command, child)
    return parser


def _load(command: Command, parser: argparse.ArgumentParser) -> None:
    """Import the one module that is needed; the others' dependencies may not be installed."""
    try:
        module = importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        raise CliError(
            f"`{command.name}` needs the Python module {error.name}, which is not installed",
            "install the programs for people from a checkout: pip install '.[cli]'",
        ) from error
    module.add_arguments(parser)
    parser.set_defaults(entry=getattr(module, command.entry), command=parser)


def _version() -> str:
    try:
        return version("gpucdi")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())

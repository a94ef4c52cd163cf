"""``gpucdi``, also installed as ``kubectl-gpucdi`` so that ``kubectl gpucdi`` works.

Owns: the list of commands, loading just the one that is asked for, and turning errors into exit
codes. Must not know: what any command does.

Exit codes: 0 nothing wrong, 1 drift or a problem was found, 2 the command could not be carried out
(usage, unreadable input, no cluster).
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

_EPILOG = """\
exit codes:
  0  nothing wrong
  1  drift, or a problem that the command was asked to look for
  2  the command could not be carried out: usage, unreadable input, no cluster
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    given = list(sys.argv[1:] if argv is None else argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without UTF-8 shows question marks; it must not end the program.
            stream.reconfigure(errors="replace")
    try:
        arguments = _parser(_chosen(given)).parse_args(given)
        entry: Callable[[argparse.Namespace], int] = arguments.entry
        return entry(arguments)
    except CliError as error:
        sys.stderr.write(f"{program_name()}: {error}\n")
        return EXIT_USAGE
    except BrokenPipeError:
        # `| head` has seen enough; what is left in the buffer must not raise at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130


def program_name() -> str:
    """Return what the user typed: ``kubectl gpucdi`` for the plugin, ``gpucdi`` otherwise."""
    return "kubectl gpucdi" if Path(sys.argv[0]).name.startswith("kubectl-") else "gpucdi"


def available() -> tuple[Command, ...]:
    """Return the commands of this build, in the order of ``--help``."""
    return tuple(item for item in COMMANDS if importlib.util.find_spec(item.module) is not None)


def _chosen(argv: Sequence[str]) -> str | None:
    return next((word for word in argv if not word.startswith("-")), None)


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
        child = commands.add_parser(command.name, help=command.help, description=command.help)
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
            "install the programs for people with: pip install 'gpucdi[cli]'",
        ) from error
    module.add_arguments(parser)
    parser.set_defaults(entry=getattr(module, command.entry))


def _version() -> str:
    try:
        return version("gpucdi")
    except PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    sys.exit(main())

"""The command line ``gpucdi-agent``.

Owns: arguments and exit codes. Must not know: anything else; each command imports what it needs
when it runs, so that ``inspect`` never loads an HTTP client.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path

_EXIT_CODES = """\
exit codes:
  0  fine: everything expected resolves (revert: every file of gpucdi is gone)
  1  a problem remains: a name does not resolve, or a change was refused, failed or undone
  2  could not be done: a wrong call, no right to write, a capture that cannot be read
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code, as ``--help`` lists them."""
    options = _parser().parse_args(arguments)
    command: str = options.command
    try:
        return _COMMANDS[command](options)
    except KeyboardInterrupt:
        return 130
    except ModuleNotFoundError as missing:
        message = f"gpucdi-agent needs {missing.name}: in a checkout, pip install '.[agent]'"
        print(message, file=sys.stderr)  # noqa: T201 - a person reads it
        return 2
    except BrokenPipeError:
        # Whoever read our output has seen enough (`| head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(options: argparse.Namespace) -> int:
    from gpucdi_agent.run import RunOptions, run  # noqa: PLC0415 - see the module's docstring

    return run(
        RunOptions(
            node_name=options.node_name or os.environ.get("NODE_NAME") or os.uname().nodename,
            host_root=options.host_root,
            state_dir=options.state_dir,
            observe=options.observe,
            interval_seconds=options.interval,
            kubeconfig=options.kubeconfig,
            use_api=not options.no_api,
            http=options.http,
        )
    )


def _inspect(options: argparse.Namespace) -> int:
    from gpucdi_agent.foreground import inspect  # noqa: PLC0415 - as above

    return inspect(options.root, options.output, options.node_name, ask_nvml=not options.no_nvml)


def _repair(options: argparse.Namespace) -> int:
    from gpucdi_agent.foreground import repair  # noqa: PLC0415 - as above

    return repair(options.root, options.generator, options.output, dry_run=options.dry_run)


def _revert(options: argparse.Namespace) -> int:
    from gpucdi_agent.foreground import revert  # noqa: PLC0415 - as above

    return revert(options.root, options.output, dry_run=options.dry_run)


def _capture(options: argparse.Namespace) -> int:
    from gpucdi_agent.capturing import capture  # noqa: PLC0415 - as above

    return capture(options.host_root, options.output, force=options.force)


_COMMANDS = {
    "capture": _capture,
    "run": _run,
    "inspect": _inspect,
    "repair": _repair,
    "revert": _revert,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="gpucdi-agent",
        description="Sees, explains and repairs the CDI devices of one GPU node.",
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands.add_parser("run", help="watch this node until ended"))
    inspect = commands.add_parser("inspect", help="look once and print; changes nothing")
    _add_root(inspect, _tree, "a host's root, or a captured node: folder or archive (default: /)")
    inspect.add_argument("-o", "--output", choices=("table", "yaml", "json"), default="table")
    inspect.add_argument("--node-name", help="the name to print (default: this machine's)")
    inspect.add_argument(
        "--no-nvml", action="store_true", help="count the GPUs as the kernel module lists them"
    )
    _add_capture(commands.add_parser("capture", help="collect what verdicts rest on; reads only"))
    repair = commands.add_parser("repair", help="one repair in the foreground")
    _add_root(repair, _folder, _FOLDER)
    repair.add_argument("--generator", metavar="PROGRAM", help="run this in place of nvidia-ctk")
    _add_change(repair)
    revert = commands.add_parser("revert", help="remove every file that gpucdi wrote")
    _add_root(revert, _folder, _FOLDER)
    _add_change(revert)
    return parser


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--node-name", help="the Node's name (default: $NODE_NAME, else this host's)"
    )
    parser.add_argument("--host-root", "--root", type=_folder, default=Path("/"), metavar="DIR")
    parser.add_argument("--state-dir", default="/var/lib/gpucdi", metavar="HOST-PATH")
    parser.add_argument(
        "--observe", action="store_true", help="never write, whatever the spec says"
    )
    parser.add_argument("--interval", type=float, default=300.0, metavar="SECONDS")
    parser.add_argument(
        "--http", type=_address, metavar="HOST:PORT", help="serve metrics and health"
    )
    parser.add_argument("--kubeconfig", metavar="FILE")
    parser.add_argument("--no-api", action="store_true", help="work without an API server")


_FOLDER = "a host's root or the folder of a captured tree (default: /)"


def _add_root(
    parser: argparse.ArgumentParser, of_text: Callable[[str], Path], meaning: str
) -> None:
    # Where a node's tree is has one meaning; who knows one command's word need not learn another.
    parser.add_argument(
        "--root", "--host-root", type=of_text, default=Path("/"), metavar="TREE", help=meaning
    )


def _add_capture(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--output",
        type=Path,
        required=True,
        metavar="FILE.tar.gz",
        help="where to write it; /dev/stdout for a pipe",
    )
    parser.add_argument(
        "--host-root",
        "--root",
        type=_folder,
        default=Path("/"),
        metavar="DIR",
        help="where the node's root is mounted (default: /)",
    )
    parser.add_argument("--force", action="store_true", help="replace a file that is there")


def _add_change(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-o", "--output", choices=("table", "json"), default="table")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")


def _tree(text: str) -> Path:
    path = _absolute(text)
    return path if path.is_file() else _folder(text)


def _folder(text: str) -> Path:
    path = _absolute(text)
    if path.is_file():
        raise argparse.ArgumentTypeError(
            f"{text} is a file; archives can only be inspected, so unpack it into a folder first"
        )
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is no directory")
    return path


def _absolute(text: str) -> Path:
    # Links stay as they are: /proc/PID/root leads somewhere else than its text says.
    return Path(os.path.abspath(text))  # noqa: PTH100 - Path.absolute keeps the dots


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not HOST:PORT")
    return host.strip("[]"), int(port)


if __name__ == "__main__":
    sys.exit(main())

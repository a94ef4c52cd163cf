"""A stand-in for ``nvidia-ctk``, for captured trees: there the real one finds no driver.

Owns: the command line of ``nvidia-ctk cdi generate`` 1.18 and its failures, as far as gpucdi calls
it. Must not know: who calls. What goes into the spec is ``standin_spec``'s.

It is no generator for a real node, and says so in its version. The tree is what ``--tree`` names;
:func:`write_script` makes an executable that has it built in.

Source of flags and texts: NVIDIA/nvidia-container-toolkit ``cmd/nvidia-ctk/cdi/generate``, v1.18.2.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from gpucdi.host import HostTree
from gpucdi_cli.standin_spec import GenerateError, Wish, generate, render

VERSION_TEXT = (
    "NVIDIA Container Toolkit CLI version 1.18.1\nstand-in: gpucdi, for captured trees only"
)
STRATEGIES = ("index", "uuid", "type-index")
MODES = ("auto", "nvml")


def write_script(path: Path, tree: Path) -> Path:
    """Write an executable at ``path`` that is the stand-in for ``tree``, and return it."""
    command = [sys.executable, "-m", "gpucdi_cli.standin_ctk", "--tree", str(tree.resolve())]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    path.chmod(0o755)
    return path


class _Parser(argparse.ArgumentParser):
    """Fails the way the real command line does: exit 1, the flag with one dash."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ")
        if unknown != message:
            flag = unknown.split()[0].lstrip("-").partition("=")[0]
            message = f"flag provided but not defined: -{flag}"
        _fail(message)


def _fail(message: str) -> NoReturn:
    sys.stderr.write(f'level=error msg="{message}"\n')
    raise SystemExit(1)


def _comma_list(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def _parser() -> _Parser:
    parser = _Parser(prog="nvidia-ctk", allow_abbrev=False)
    parser.add_argument("--tree", required=True, help="the captured tree (stand-in only)")
    parser.add_argument("--version", action="version", version=VERSION_TEXT)
    for flag in ("--debug", "--quiet"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("--config")
    cdi = parser.add_subparsers(dest="group", required=True).add_parser("cdi", allow_abbrev=False)
    command = cdi.add_subparsers(dest="command", required=True)
    add = command.add_parser("generate", allow_abbrev=False).add_argument
    add("--output", default="")
    add("--format", default="yaml")
    add("--mode", "--discovery-mode", default="auto")
    add("--device-name-strategy", action="extend", type=_comma_list, default=None)
    add("--driver-root", default="/")
    add("--dev-root", default="")
    add("--nvidia-cdi-hook-path", "--nvidia-ctk-path", default="/usr/bin/nvidia-cdi-hook")
    add("--vendor", "--cdi-vendor", default="nvidia.com")
    add("--class", "--cdi-class", dest="class_", default="gpu")
    for ignored in ("--library-search-path", "--config-search-path", "--ldconfig-path"):
        add(ignored, action="append")
    for ignored in ("--disable-hook", "--enable-hook", "--feature-flag"):
        add(ignored, f"{ignored}s", action="append")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the stand-in; the spec goes to ``--output`` or standard output."""
    arguments = _parser().parse_args(argv)
    strategies = tuple(arguments.device_name_strategy or ("index", "uuid"))
    for strategy in strategies:
        if strategy not in STRATEGIES:
            _fail(f"invalid device name strategy: {strategy}")
    if arguments.mode not in MODES:
        _fail(f"invalid discovery mode: {arguments.mode}")
    if arguments.format not in {"yaml", "json"}:
        _fail(f"invalid output format: {arguments.format}")
    wish = Wish(
        kind=f"{arguments.vendor}/{arguments.class_}",
        strategies=strategies,
        driver_root=arguments.driver_root or "/",
        hook=arguments.nvidia_cdi_hook_path,
    )
    try:
        spec = generate(HostTree(arguments.tree), wish)
    except GenerateError as error:
        _fail(f"failed to generate CDI spec: {error}")
    text = render(spec, arguments.format)
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())

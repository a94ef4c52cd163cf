"""The shell scripts that toolkit containers install in front of the runtime.

Owns: reading such a script: what it runs, in which environment, and whether it looks for the kernel
module first. Must not know: what the program behind it does.

Sources: NVIDIA/nvidia-container-toolkit ``tools/container/toolkit/executable.go`` (up to 1.17),
``cmd/nvidia-ctk-installer/toolkit/installer/executables.go`` (from 1.18).
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpucdi.host import FileTooLargeError, HostTree

SCRIPT_LIMIT_BYTES = 64 * 1024

_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)
_MODULE_CHECK = re.compile(r"^\s*cat\s+(/\S+)\s*\|\s*grep\s.*\^nvidia ", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A script that ends by running ``target`` with ``environment`` added.

    ``modules_file`` is the list in which it looks for the nvidia kernel module, running ``fallback``
    instead when it is not there; ``None`` without such a check. ``warns_on_stderr`` tells releases
    from 1.18.1 on from earlier ones.
    """

    target: str
    environment: Mapping[str, str] = field(default_factory=dict)
    modules_file: str | None = None
    fallback: str | None = None
    warns_on_stderr: bool = False

    @property
    def checks_module(self) -> bool:
        """True when the script does not run its target without the kernel module."""
        return self.modules_file is not None


def read_wrapper(host: HostTree, path: str) -> Wrapper | None:
    """Read the script at ``path``; ``None`` when it is no script or runs nothing recognisable.

    Raises :class:`OSError` when the file cannot be read. A program that a captured tree knows only
    by its version output counts as no script.
    """
    try:
        content = host.read(path, SCRIPT_LIMIT_BYTES)
    except FileTooLargeError:
        return None
    except FileNotFoundError:
        if path in host.capture.programs:
            return None
        raise
    if not content.startswith(b"#!"):
        return None
    return parse_wrapper(content.decode("utf-8", "replace"), posixpath.dirname(path))


def parse_wrapper(text: str, directory: str) -> Wrapper | None:
    """Parse a script's text; ``directory`` is what ``$(dirname "$0")`` would be."""
    commands = _commands(text)
    if not commands:
        return None
    environment: dict[str, str] = {}
    words = list(commands[-1])
    for line in commands[:-1]:
        plain = [
            _ASSIGNMENT.fullmatch(word) for word in (line[1:] if line[0] == "export" else line)
        ]
        environment |= {found[1]: found[2] for found in plain if found is not None}
    while words and (found := _ASSIGNMENT.fullmatch(words[0])):
        environment[found[1]] = found[2]
        words.pop(0)
    if words[:1] == ["exec"]:
        words.pop(0)
    if not words or "$@" not in words[1:]:
        return None
    target = words[0].replace("$(dirname $0)", directory).replace("${0%/*}", directory)
    if not target.startswith("/") and "/" in target:
        target = posixpath.normpath(posixpath.join(directory, target))
    fallback = next((line[1] for line in commands[:-1] if line[0] == "exec" and line[1:]), None)
    check = _MODULE_CHECK.search(text)
    return Wrapper(
        target=target,
        environment=environment,
        modules_file=None if check is None else check[1],
        fallback=None if check is None else fallback,
        warns_on_stderr=check is not None and "directly" in text and ">&2" in text,
    )


def _commands(text: str) -> list[list[str]]:
    """Split a script into commands of words; lines that are no plain shell words are left out."""
    joined = re.sub(r"\\\r?\n", " ", text)
    commands = []
    for line in joined.splitlines()[1:]:
        try:
            words = shlex.split(line, comments=True)
        except ValueError:
            continue
        if words:
            commands.append(words)
    return commands

"""The first process of a node: makes its mounts, then holds its namespaces until its parent goes.

Started by ``node.py`` under ``unshare --mount --pid``. One line of JSON on standard input lists the
mounts; ``ready`` on standard output says that they are made. After that it only reaps orphans.
When standard input ends (the test is over, or was killed) it ends every process of the namespace,
runs the commands that the plan left for the end, and exits; the kernel drops every mount. Runs with the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

# What the new /dev takes over as a mount instead of copying it node by node.
_DEV_MOUNTS = ("pts", "shm", "mqueue")
at_the_end: list[list[str]] = []


def main() -> None:
    """Carry out the plan, say so, and wait for the end of standard input."""
    plan = json.loads(sys.stdin.readline())
    for step in plan:
        STEPS[step.pop("do")](**step)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    wakeup_read, wakeup_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wakeup_write)
    print("ready", flush=True)
    while True:
        readable, _, _ = select.select([sys.stdin, wakeup_read], [], [])
        if wakeup_read in readable:
            os.read(wakeup_read, 4096)
            reap()
        if sys.stdin in readable:
            finish()
            return


def finish() -> None:
    """End every other process of this namespace, then do what the plan left for the end."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    for command in at_the_end:
        subprocess.run(command, check=False, stderr=subprocess.DEVNULL)


def reap() -> None:
    """Collect every orphan that has ended."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def mount(*arguments: str) -> None:
    """Run mount(8)."""
    subprocess.run(["mount", *arguments], check=True)


def tmpfs(target: str) -> None:
    """Mount an empty tmpfs."""
    Path(target).mkdir(parents=True, exist_ok=True)
    mount("-t", "tmpfs", "-o", "mode=0755", "tmpfs", target)


def overlay(target: str, tree: str, scratch: str) -> None:
    """Make ``target`` writable for this node alone, with the files of ``tree`` laid over it."""
    if not Path(target).is_dir():
        return
    name = target.strip("/").replace("/", "-")
    upper, work = Path(scratch, name), Path(scratch, f"{name}.work")
    upper.mkdir()
    work.mkdir()
    lower = f"{tree}:{target}" if Path(tree).is_dir() else target
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    mount("-t", "overlay", "-o", options, "overlay", target)


def bind(source: str, target: str) -> None:
    """Bind a folder or file with everything mounted below it over an existing one."""
    if not Path(target).exists():
        if not Path(source).is_dir():
            return
        Path(target).mkdir(parents=True)
    mount("--rbind", source, target)


def seed(source: str, target: str) -> None:
    """Copy what a folder holds."""
    if Path(source).is_dir():
        shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)


def dev(scratch: str, nodes: list[tuple[str, int, int]]) -> None:
    """Replace /dev by a tmpfs with the same entries and the given character devices."""
    new = Path(scratch, "dev")
    tmpfs(str(new))
    for entry in os.scandir("/dev"):
        status = entry.stat(follow_symlinks=False)
        place = new / entry.name
        if stat.S_ISLNK(status.st_mode):
            place.symlink_to(os.readlink(entry.path))
        elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
            os.mknod(place, status.st_mode, status.st_rdev)
            place.chmod(stat.S_IMODE(status.st_mode))
        elif entry.name in _DEV_MOUNTS:
            place.mkdir()
            mount("--rbind", entry.path, str(place))
    for path, major, minor in nodes:
        place = new / path
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        os.mknod(place, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        place.chmod(0o666)
    mount("--move", str(new), "/dev")


def at_end(command: list[str]) -> None:
    """Keep a command for when every other process is gone; its failure is nobody's concern."""
    at_the_end.append(command)


def share() -> None:
    """Let mounts reach the containers of this node, as on a real one."""
    mount("--make-rshared", "/")


STEPS: dict[str, Callable[..., None]] = {
    "tmpfs": tmpfs,
    "overlay": overlay,
    "bind": bind,
    "seed": seed,
    "dev": dev,
    "share": share,
    "at_end": at_end,
}

if __name__ == "__main__":
    main()

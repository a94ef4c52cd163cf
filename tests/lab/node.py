"""A GPU node without a GPU: private mount and process namespaces over this machine's own root.

Owns: turning a declarative description into such a node, and running programs inside it. Inside,
host paths are the real ones (``/etc/cdi``, ``/var/run/cdi``, ``/usr/local/nvidia/toolkit``, ``/dev``,
``/proc/driver`` …) and everything else is this machine's; nothing written there reaches it. When
the node is closed, or the test run dies, the kernel ends every process and drops every mount.
Must not know: clusters.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.lab import driver, hardware, programs
from tests.lab.hardware import Hardware
from tests.lab.toolkits import MODULES_STAND_IN, OperatorToolkit, PackageToolkit

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START_SECONDS = 20.0
RUN_SECONDS = 50.0

# Folders that the node may change for itself alone; the rest of the root is this machine's.
_PRIVATE = ("/etc", "/opt", "/usr/bin", "/usr/local", "/var/lib", "/var/log")
# Folders that are real file systems and not overlays, when the description has them.
_BOUND = (
    *("/etc/cdi", "/etc/nvidia-container-runtime", "/etc/containerd", "/etc/crio", "/etc/docker"),
    *("/etc/cni", "/usr/local/nvidia", "/var/lib/gpucdi", "/var/lib/containerd"),
    *("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/var/log/containers"),
)


@dataclass(frozen=True, slots=True)
class NodeDescription:
    """What a node has, in the node's own paths.

    ``files`` are written with mode 0644, ``executables`` with 0755, ``copies`` copied with their
    mode, all after the toolkits, so they replace what a toolkit laid. ``directories`` exist even if nothing is in them.
    ``driver_root`` None leaves the driver's user space out altogether. ``at_end`` are commands
    that run when every process of the node is gone, even if the test run died.
    """

    hardware: Hardware = hardware.ONE_GPU
    driver_root: str | None = "/"
    toolkits: Sequence[OperatorToolkit | PackageToolkit] = ()
    files: Mapping[str, str | bytes] = field(default_factory=dict)
    executables: Mapping[str, str] = field(default_factory=dict)
    copies: Mapping[str, Path] = field(default_factory=dict)
    directories: Sequence[str] = ("/etc/cdi", "/var/run/cdi", "/var/lib/gpucdi")
    at_end: Sequence[Sequence[str]] = ()


class NodeProcess(subprocess.Popen[str]):
    """A program running inside a node; signals go to the program itself.

    ``pid`` is that of the launcher, which ends as the program ends.
    """

    def send_signal(self, sig: int) -> None:
        """Send a signal to the program inside the node."""
        program = self.program_pid()
        if program is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(program, sig)

    def program_pid(self) -> int | None:
        """Return the program's process id as this machine sees it, None once it has ended."""
        while self.poll() is None:
            program = _child_of(self.pid)
            if program is not None:
                return program
            time.sleep(0.002)
        return None


class Node:
    """A running node. Use as a context manager, or call ``start`` and ``close``."""

    def __init__(self, description: NodeDescription, base: Path) -> None:
        """Describe a node whose files are laid in the empty folder ``base``."""
        self.description = description
        self.base = base
        self.tree = base / "tree"
        self._launcher: subprocess.Popen[str] | None = None
        self._pid: int | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Lay the files and make the namespaces; raises ProgramMissingError, RuntimeError."""
        programs.require_namespaces()
        self._lay()
        unshare = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        holder = str(Path(__file__).with_name("holder.py"))
        self._launcher = subprocess.Popen(
            [*unshare, "--propagation", "private", sys.executable, "-I", holder],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._launcher.stdin is not None
        assert self._launcher.stdout is not None
        self._launcher.stdin.write(json.dumps(list(self._plan())) + "\n")
        self._launcher.stdin.flush()
        if self._launcher.stdout.readline().strip() != "ready":
            self.close()
            raise RuntimeError("the node's mounts could not be made; the reason is on stderr")
        self._pid = _child_of(self._launcher.pid)

    def close(self) -> None:
        """End every process of the node, drop its mounts and remove its files."""
        if self._launcher is not None:
            # The end of its standard input ends the holder, and with it the process namespace.
            for stream in (self._launcher.stdin, self._launcher.stdout):
                if stream is not None:
                    stream.close()
            self._launcher.wait(START_SECONDS)
            self._launcher = None
        shutil.rmtree(self.base, ignore_errors=True)

    def path(self, host_path: str) -> Path:
        """Return where this test run can read and write a path of the node.

        Follow no absolute symbolic link through it: such a link would leave the node.
        """
        return Path(f"/proc/{self._pid}/root") / _real(host_path).lstrip("/")

    @property
    def root(self) -> Path:
        """The node's ``/`` as a path of this machine, for readers that keep links inside a root."""
        return Path(f"/proc/{self._pid}/root")

    def command(self, arguments: Sequence[str | Path], cwd: str = "/") -> list[str]:
        """Return the command line that runs ``arguments`` inside the node."""
        enter = ["nsenter", f"--target={self._pid}", "--mount", "--pid", "--"]
        return [*enter, "/usr/bin/env", "-C", cwd, *(str(argument) for argument in arguments)]

    def run(
        self,
        arguments: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        stdin: str | None = None,
        cwd: str = "/",
        timeout: float = RUN_SECONDS,
        check: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run a program inside the node to its end; ``env`` is added to a plain environment."""
        given = subprocess.PIPE if stdin is not None else subprocess.DEVNULL
        pipe = subprocess.PIPE
        with self.popen(arguments, env=env, cwd=cwd, stdin=given, stdout=pipe, stderr=pipe) as run:
            try:
                stdout, stderr = run.communicate(stdin, timeout)
            except BaseException:
                run.kill()
                raise
        done = subprocess.CompletedProcess(list(arguments), run.returncode, stdout, stderr)
        if check and done.returncode != 0:
            raise RuntimeError(f"{arguments} ended with {done.returncode}: {stderr}")
        return done

    def popen(
        self,
        arguments: Sequence[str | Path],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str = "/",
        stdin: int | IO[str] | None = subprocess.DEVNULL,
        stdout: int | IO[str] | None = None,
        stderr: int | IO[str] | None = None,
    ) -> NodeProcess:
        """Start a program inside the node; it ends with the node at the latest."""
        return NodeProcess(
            self.command(arguments, cwd),
            env={"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8", **(env or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )

    def write(self, host_path: str, content: str | bytes, mode: int = 0o644) -> Path:
        """Write a file of the running node, making its folder; return where it lies."""
        path = self.path(host_path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _write(path, content, mode)
        return path

    def set_nvml(self, machine: Hardware) -> None:
        """Let NVML describe another machine from its next initialisation on; /dev stays."""
        driver.write_stub_config(self.path(driver.STUB_CONFIG_PATH), machine)

    def set_hardware(self, machine: Hardware) -> None:
        """Change the machine as a driver upgrade, a MIG change or a hot plug does.

        NVML, device nodes, ``/proc/driver`` and the driver's user space all follow.
        """
        self.set_nvml(machine)
        if self.description.driver_root is not None:
            root = self.path(self.description.driver_root)
            driver.remove_driver_root(root)
            driver.lay_driver_root(root, machine)
        wanted = {node.path: node for node in hardware.device_nodes(machine)}
        dev = self.path("/dev")
        for old in [*dev.glob("nvidia*"), *dev.glob("nvidia-caps/*")]:
            if old.is_char_device() and str(old.relative_to(dev)) not in wanted:
                old.unlink()
        for name, node in wanted.items():
            if not (dev / name).exists():
                (dev / name).parent.mkdir(exist_ok=True)
                os.mknod(dev / name, stat.S_IFCHR | 0o666, os.makedev(node.major, node.minor))
                (dev / name).chmod(0o666)
        for folder in self.path("/proc/driver").iterdir():
            shutil.rmtree(folder)
        self._write_proc_files(self.path("/proc"), machine)

    def _lay(self) -> None:
        description, tree = self.description, self.tree
        for folder in description.directories:
            (tree / _real(folder).lstrip("/")).mkdir(parents=True, exist_ok=True)
        driver.write_stub_config(tree / driver.STUB_CONFIG_PATH.lstrip("/"), description.hardware)
        if description.driver_root is not None:
            root = tree / _real(description.driver_root).lstrip("/")
            driver.lay_driver_root(root, description.hardware)
        self._write_proc_files(tree / "proc", description.hardware)
        _write(tree / "proc/devices", _proc_devices())
        _write(
            tree / "proc/modules", "nvidia 60000000 2 nvidia_uvm, Live 0x0000000000000000 (POE)\n"
        )
        _write(tree / MODULES_STAND_IN.lstrip("/"), (tree / "proc/modules").read_text())
        for toolkit in description.toolkits:
            toolkit.lay(tree)
        for path, content in description.files.items():
            _write(tree / _real(path).lstrip("/"), content)
        for path, content in description.executables.items():
            _write(tree / _real(path).lstrip("/"), content, 0o755)
        for path, source in description.copies.items():
            target = tree / _real(path).lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)

    @staticmethod
    def _write_proc_files(proc: Path, machine: Hardware) -> None:
        for path, text in hardware.proc_files(machine).items():
            _write(proc / path, text)

    def _plan(self) -> Iterator[dict[str, object]]:
        """The holder's steps, in order."""
        tree, scratch = self.tree, str(self.base / "scratch")
        nodes = hardware.device_nodes(self.description.hardware)
        yield {"do": "tmpfs", "target": scratch}
        yield {
            "do": "dev",
            "scratch": scratch,
            "nodes": [(node.path, node.major, node.minor) for node in nodes],
        }
        yield {"do": "tmpfs", "target": "/run"}
        yield {"do": "seed", "source": str(tree / "run"), "target": "/run"}
        for target in (*_PRIVATE, "/" + driver.library_folder()):
            yield {
                "do": "overlay",
                "target": target,
                "tree": str(tree / target.lstrip("/")),
                "scratch": scratch,
            }
        for target in _BOUND:
            if (tree / target.lstrip("/")).is_dir():
                yield {"do": "bind", "source": str(tree / target.lstrip("/")), "target": target}
        for name in ("driver", "devices", "modules"):
            yield {"do": "bind", "source": str(tree / "proc" / name), "target": f"/proc/{name}"}
        root = self.description.driver_root
        if root is not None and root != "/":
            yield {"do": "bind", "source": "/dev", "target": f"{root}/dev"}
        for command in self.description.at_end:
            yield {"do": "at_end", "command": list(command)}
        yield {"do": "share"}


def _real(host_path: str) -> str:
    """``/var/run`` is a symbolic link to ``/run`` on every node of today."""
    assert host_path.startswith("/"), host_path
    return host_path[len("/var") :] if host_path.startswith("/var/run/") else host_path


def _write(path: Path, content: str | bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    path.chmod(mode)


def _proc_devices() -> str:
    """This machine's list with the driver's majors among the character devices."""
    ours = Path("/proc/devices").read_text()
    return ours.replace("\nBlock devices:", hardware.proc_devices() + "\nBlock devices:", 1)


def _child_of(parent: int) -> int | None:
    """Return a child of a process, None if it has none; not every kernel lists them itself."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            # The name of the program stands in parentheses and may hold anything.
            after_name = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[1]) == parent:
                return int(folder.name)
    return None

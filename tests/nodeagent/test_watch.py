"""What wakes the agent, and what does not."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.trees import c00

from gpucdi.host import HostTree
from gpucdi_agent.watch import Places, Watcher, places_of

TOOLKIT = "/usr/local/nvidia/toolkit"
CONFIG = f"{TOOLKIT}/.config/nvidia-container-runtime/config.toml"


@pytest.fixture
def host(tmp_path: Path) -> HostTree:
    return c00.copy(tmp_path / "host")


def places(host: HostTree) -> Places:
    return places_of(host, c00.judge(host).observation)


@dataclass
class Bell:
    """Counts how often it rang."""

    rung: int = 0
    event: asyncio.Event = field(default_factory=asyncio.Event)

    def ring(self) -> None:
        self.rung += 1
        self.event.set()

    async def heard(self, seconds: float = 5.0) -> None:
        async with asyncio.timeout(seconds):
            await self.event.wait()
        self.event.clear()

    async def silent(self, seconds: float = 0.4) -> None:
        with pytest.raises(TimeoutError):
            await self.heard(seconds)


@asynccontextmanager
async def watching(
    host: HostTree, *, polling: bool = False, refused_for_s: float = 600.0
) -> AsyncIterator[tuple[Watcher, Bell]]:
    bell = Bell()
    watcher = Watcher(host, bell.ring, polling, "refused" * polling, refused_for_s)
    watcher.watch(places(host))
    task = asyncio.create_task(watcher.run())
    await asyncio.sleep(0.15)
    try:
        yield watcher, bell
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def test_both_names_of_a_directory_are_one_place(host: HostTree) -> None:
    found = places(host).directories

    assert "/run/cdi" in found
    assert "/var/run/cdi" not in found


def test_every_file_that_decides_is_of_interest(host: HostTree) -> None:
    found = places(host)

    assert found.matter("/run/cdi/any.yaml")
    assert found.matter(CONFIG)
    assert found.matter("/etc/containerd/conf.d/99-nvidia.toml")
    assert found.matter(f"{TOOLKIT}/nvidia-container-runtime")
    assert not found.matter("/usr/bin/something-else")


def test_temporary_files_are_nobodys_business(host: HostTree) -> None:
    assert not places(host).matter("/run/cdi/.gpucdi-00.tmp")
    assert not places(host).matter("/run/cdi/spec.123.tmp")


def test_of_the_devices_only_ours_matter(host: HostTree) -> None:
    found = places(host)

    assert found.matter("/dev/nvidia0")
    assert not found.matter("/dev/sda")


def write(path: Path, text: str = "x: 1\n") -> None:
    path.write_text(text)


CHANGES: dict[str, Callable[[Path], object]] = {
    "a new spec": lambda root: write(root / "run/cdi/new.yaml"),
    "a spec written in place": lambda root: write(root / "etc/cdi/nvidia.yaml"),
    "a spec removed": lambda root: (root / "etc/cdi/nvidia.yaml").unlink(),
    "a spec renamed": lambda root: (root / "etc/cdi/nvidia.yaml").rename(root / "etc/cdi/n.json"),
    "a spec made unreadable": lambda root: (root / "etc/cdi/nvidia.yaml").chmod(0),
    "the toolkit's configuration": lambda root: write(root / CONFIG.lstrip("/")),
    "a new drop-in": lambda root: write(root / "etc/containerd/conf.d/50.toml"),
}


@pytest.mark.parametrize("name", CHANGES)
async def test_it_wakes_for(host: HostTree, name: str) -> None:
    async with watching(host) as (_, bell):
        CHANGES[name](host.root)

        await bell.heard()


async def test_it_sleeps_through_what_does_not_matter(host: HostTree) -> None:
    async with watching(host) as (_, bell):
        write(host.root / "run/cdi/spec.1234.tmp")
        write(host.root / "etc/containerd/certs")  # beside the files, yet in a watched directory

        await asyncio.sleep(0.3)
        bell.event.clear()
        write(host.root / "usr/bin/unrelated")
        await bell.silent()


async def test_a_burst_of_changes_is_few_wakings(host: HostTree) -> None:
    async with watching(host) as (_, bell):
        for number in range(300):
            write(host.root / f"run/cdi/{number}.yaml")
        await bell.heard()
        await asyncio.sleep(0.5)

        assert bell.rung <= 10


async def test_a_directory_laid_anew_is_watched_again(host: HostTree) -> None:
    async with watching(host) as (watcher, bell):
        toolkit = host.root / TOOLKIT.lstrip("/")
        kept = host.root / "kept"
        shutil.copytree(toolkit, kept, symlinks=True)
        shutil.rmtree(toolkit)
        await bell.heard()
        shutil.copytree(kept, toolkit, symlinks=True)
        await bell.heard()
        watcher.watch(places(host))
        await asyncio.sleep(0.5)
        bell.event.clear()

        write(host.root / CONFIG.lstrip("/"))

        await bell.heard()


async def test_a_directory_that_did_not_exist_is_seen_to_appear(host: HostTree) -> None:
    shutil.rmtree(host.root / "usr/local/nvidia/toolkit/.config/nvidia-container-runtime")
    async with watching(host) as (_, bell):
        (host.root / CONFIG.lstrip("/")).parent.mkdir()

        await bell.heard()


async def test_without_inotify_it_polls(host: HostTree) -> None:
    async with watching(host, polling=True) as (_, bell):
        write(host.root / "etc/cdi/new.yaml")

        await bell.heard(seconds=10)


async def test_inotify_is_asked_again_and_no_longer_said_to_refuse(host: HostTree) -> None:
    async with watching(host, polling=True, refused_for_s=0.3) as (watcher, bell):
        await bell.heard(seconds=30)
        assert (watcher.polling, watcher.notices()) == (False, ())


async def test_changes_are_seen_by_inotify_after_polling(host: HostTree) -> None:
    async with watching(host, polling=True, refused_for_s=0.3) as (watcher, bell):
        await bell.heard(seconds=30)
        # Written again and again: the first may be there before inotify is.
        async with asyncio.timeout(30):
            number = 0
            while not bell.event.is_set():
                number += 1
                write(host.root / f"etc/cdi/{number}.yaml")
                await asyncio.sleep(0.2)
        assert not watcher.polling


async def test_the_same_places_are_no_change(host: HostTree) -> None:
    async with watching(host) as (watcher, _):
        assert not watcher.watch(places(host))
        assert watcher.watch(Places(frozenset({"/etc/cdi"}), frozenset({"/etc/cdi"})))


LIMITED = """
import asyncio, sys
from pathlib import Path
from gpucdi.host import HostTree
from gpucdi_agent.watch import Places, Watcher

async def main():
    host = HostTree(sys.argv[1])
    folders = frozenset(f"/{path.name}" for path in host.root.iterdir())
    woken = asyncio.Event()
    watcher = Watcher(host, woken.set)
    watcher.watch(Places(folders, folders))
    task = asyncio.create_task(watcher.run())
    async with asyncio.timeout(50):
        while not watcher.problem:
            await asyncio.sleep(0.05)
    # Written again and again: the first look of the poll sets what later ones compare with.
    async with asyncio.timeout(50):
        woken.clear()
        number = 0
        while not woken.is_set():
            number += 1
            (host.root / "h" / f"{number}.yaml").touch()
            await asyncio.sleep(0.5)
    task.cancel()
    print(watcher.notices()[0].message)

asyncio.run(main())
"""


@pytest.mark.timeout(150)
@pytest.mark.parametrize("limit", ["max_inotify_watches", "max_inotify_instances"])
def test_a_used_up_limit_is_told_and_no_folder_goes_unwatched(tmp_path: Path, limit: str) -> None:
    for name in "abcdefgh":
        (tmp_path / name).mkdir()
    value = {"max_inotify_watches": 3, "max_inotify_instances": 0}[limit]
    setting = f"/proc/sys/user/{limit}"
    alone = ["unshare", "--user", "--map-root-user", "sh", "-c"]
    if subprocess.run([*alone, f"echo {value} > {setting}"], check=False).returncode:
        pytest.skip("needs user namespaces with limits of their own")
    program = [sys.executable, "-c", LIMITED, str(tmp_path)]

    done = subprocess.run(
        [*alone, f'echo {value} > {setting}; exec "$@"', "sh", *program],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "inotify refused, files are polled instead" in done.stdout, done.stderr

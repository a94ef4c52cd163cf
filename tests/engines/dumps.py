"""Random containerd configurations and what the real ``containerd config dump`` makes of them.

Owns: the generator, running the program, and reading its dump. Must not know: the prediction.
"""

from __future__ import annotations

import random
import subprocess
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab import programs

MAIN = "etc/containerd/config.toml"
OLD = 'plugins."io.containerd.grpc.v1.cri"'
NEW = "plugins.'io.containerd.cri.v1.runtime'"
TABLES = {0: "plugins.cri", 1: "plugins.cri", 2: OLD, 3: NEW, 4: NEW}
DEBIAN = "1.6.20"
VERSIONS = (DEBIAN, *sorted(programs.CONTAINERD_MODULES))


@dataclass(frozen=True)
class Dump:
    """The part of a dump that decides about devices; ``error`` instead when there is none."""

    error: str | None = None
    default: str = ""
    binaries: Mapping[str, str | None] = field(default_factory=dict)
    spec_dirs: tuple[str, ...] = ()
    enable_cdi: bool | None = None
    is_disabled: bool = False


def program(version: str) -> Path:
    """Return the binary of a version; raise ProgramMissingError without it."""
    if version == DEBIAN:
        return programs.system_program("containerd")
    return programs.containerd(version) / "containerd"


def dump(version: str, root: Path) -> Dump:
    """Let the real containerd load the configuration below ``root``."""
    done = subprocess.run(
        [program(version), "-c", root / MAIN, "config", "dump"],
        check=False,
        capture_output=True,
        text=True,
        timeout=30,
    )
    if done.returncode != 0:
        return Dump(error=done.stderr.strip().splitlines()[-1])
    plugins = tomllib.loads(done.stdout)["plugins"]
    new, old = plugins.get("io.containerd.cri.v1.runtime"), plugins.get("io.containerd.grpc.v1.cri")
    cri = new or old
    if cri is None:
        return Dump(is_disabled=True)
    return Dump(
        default=cri["containerd"]["default_runtime_name"],
        binaries={
            name: runtime.get("options", {}).get("BinaryName") or None
            for name, runtime in cri["containerd"]["runtimes"].items()
        },
        spec_dirs=tuple(cri.get("cdi_spec_dirs") or ()),
        enable_cdi=cri.get("enable_cdi"),
    )


def write_random(root: Path, seed: int) -> None:
    """Write a main file and its drop-ins below ``root``; the same ones for the same seed."""
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    main = root / MAIN
    (main.parent / "conf.d").mkdir(parents=True)
    imports = ['"conf.d/*.toml"']
    if dice.random() < 0.3:
        imports.append('"extra.toml"')
    if dice.random() < 0.05:
        imports.append('"missing.toml"')
    main.write_text(_file(dice, imports if dice.random() < 0.9 else []))
    for name in ("conf.d/10-a.toml", "conf.d/99-nvidia.toml", "extra.toml"):
        if name == "extra.toml" or dice.random() < 0.6:
            (main.parent / name).write_text(_file(dice, []))


def _file(dice: random.Random, imports: list[str]) -> str:
    version = dice.choices([0, 1, 2, 3, 4, 5], weights=[3, 3, 8, 6, 4, 1])[0]
    lines = [f"version = {version}"] if version else []
    if imports:
        lines.append(f"imports = [{', '.join(imports)}]")
    if dice.random() < 0.1:
        lines.append(
            f"disabled_plugins = ['{dice.choice(['cri', 'io.containerd.internal.v1.opt'])}']"
        )
    tables = [TABLES.get(version, NEW)]
    if dice.random() < 0.15:
        # Both old names in one file of version 1 are merged in random order by containerd itself.
        wrong = [OLD, NEW, "plugins.cri"] if version >= 2 else [NEW, dice.choice([OLD, TABLES[0]])]
        tables = dice.sample(wrong, dice.randint(1, 2))
    for table in tables:
        lines.extend(_cri(dice, table))
    return "\n".join(lines) + "\n"


def _cri(dice: random.Random, table: str) -> Iterator[str]:
    yield f"[{table}]"
    if dice.random() < 0.4:
        yield f"enable_cdi = {dice.choice(['true', 'false'])}"
    if dice.random() < 0.4:
        yield f"cdi_spec_dirs = {dice.choice([[], ['/etc/cdi'], ['/run/cdi', '/x']])}"
    if dice.random() < 0.3:
        yield "sandbox_image = 'pause:1'"
    yield f"[{table}.containerd]"
    names = dice.sample(["runc", "nvidia", "nvidia-cdi", "kata"], dice.randint(0, 3))
    if names and dice.random() < 0.4:
        yield f"default_runtime_name = '{dice.choice(names)}'"
    if dice.random() < 0.2:
        yield "snapshotter = 'native'"
    for name in names:
        yield f"[{table}.containerd.runtimes.{name}]"
        yield "runtime_type = 'io.containerd.runc.v2'"
        if dice.random() < 0.8:
            yield f"[{table}.containerd.runtimes.{name}.options]"
            yield f"BinaryName = '/bin/{name}-{dice.randint(0, 99)}'"
            yield f"SystemdCgroup = {dice.choice(['true', 'false'])}"

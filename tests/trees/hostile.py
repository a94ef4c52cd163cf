"""Files that nobody in his right mind would put on a node, each put below a root by a function.

Owns: the files. Must not know: what should become of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from gpucdi.host import CAPTURE_NAME

CONFIG = "usr/local/nvidia/toolkit/.config/nvidia-container-runtime/config.toml"
MANY = 100_000
# A file system may allow no more than some 65,000 links to one file.
_LINKS = 30_000
SPEC = """cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: "{0}"
  containerEdits:
    env: [A=b]
"""


def spec_path(root: Path) -> Path:
    return root / "run/cdi/hostile.yaml"


def huge_spec(root: Path) -> None:
    with spec_path(root).open("wb") as file:
        file.write(b"cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n#")
        file.truncate(1024**3)


def many_files(root: Path, count: int = MANY) -> None:
    for number in range(count):
        os.mknod(f"{root}/run/cdi/{number}.txt", 0o644)


def many_specs(root: Path, count: int = MANY) -> None:
    first = ""
    for number in range(count):
        path = f"{root}/run/cdi/hostile{number}.yaml"
        if number % _LINKS:
            os.link(first, path)
        else:
            first = path
            Path(path).write_text(SPEC.format(number))


def many_empty_specs(root: Path, count: int = MANY) -> None:
    for number in range(count):
        os.mknod(f"{root}/run/cdi/hostile{number}.yaml", 0o644)


def alias_bomb(root: Path) -> None:
    lines = ['a0: &a0 ["x"]']
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    spec_path(root).write_text("\n".join(lines))


def link_loop(root: Path) -> None:
    spec_path(root).symlink_to("hostile.yaml")


def link_to_secret(root: Path) -> None:
    spec_path(root).symlink_to("../../../../../../../../etc/shadow")


def pipe(root: Path) -> None:
    os.mkfifo(spec_path(root))


def unreadable(root: Path) -> None:
    """Let the readers of a captured tree be somebody who may not read the file."""
    spec_path(root).write_text(SPEC.format(0))
    spec_path(root).chmod(0)
    capture = root / CAPTURE_NAME
    facts = json.loads(capture.read_text())
    capture.write_text(json.dumps({**facts, "readAsUid": 65534}))


def not_utf8(root: Path) -> None:
    spec_path(root).write_bytes(b"cdiVersion: \xff\xfe\xfa\nkind: \xc3\x28\n")


def deep_nesting(root: Path) -> None:
    spec_path(root).write_text("devices: " + "[" * 100_000)


def huge_toml(root: Path) -> None:
    with (root / CONFIG).open("wb") as file:
        file.write(b"# " + b"x" * (50 * 1024 * 1024))


def directory_link_loop(root: Path) -> None:
    folder = root / "etc/cdi"
    (folder / "nvidia.yaml").unlink()
    folder.rmdir()
    folder.symlink_to("cdi")


def clean(root: Path) -> None:
    """Take away what any of the functions put into the spec directories."""
    for path in (root / "run/cdi").iterdir():
        if path.name.startswith("hostile") or path.suffix == ".txt":
            path.unlink()


Spoil = Callable[[Path], None]

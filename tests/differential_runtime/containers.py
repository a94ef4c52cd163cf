"""Random containers and spec files for the comparison with the real runtime.

Owns: what is worth asking for, and what is worth finding. Must not know: what the answer is.
"""

from __future__ import annotations

import random

from tests.lab import hardware

KINDS = ("nvidia.com/gpu", "management.nvidia.com/gpu", "vendor.com/dev", "runtime.nvidia.com/gpu")
SPEC_DIRS = ("/etc/cdi", "/run/cdi", "/opt/cdi")
MOUNT_ROOT = "/var/run/nvidia-container-devices"

# Names that some spec file or NVML may know.
GOOD = ("0", "1", "all", hardware.UUID_0, hardware.UUID_1, hardware.MIG_UUID_0, "1:0")
ODD = (
    *("none", "void", "1:7", "7", "0:0", "GPU-4044aeb5", "foo", "00", " 0", "gpu0", "-1", "VOID"),
    "GPU-00000000-1111-2222-3333-444444444444",
)
FULL = (
    *("nvidia.com/gpu=0", "nvidia.com/gpu=all", "management.nvidia.com/gpu=all"),
    *("vendor.com/dev=0", "runtime.nvidia.com/gpu=0", "runtime.nvidia.com/gpu=all"),
)
ODD_FULL = (
    *("a/b=0", "nvidia.com/gpu=", "=0", "x.com/y_=0", "nvidia.com/gpu=0=1"),
    "runtime.nvidia.com/gpu=",
)
ANNOTATED = (
    *("nvidia.com/gpu=0", "nvidia.com/gpu=all,vendor.com/dev=0", "0", "", "nvidia.com/gpu=0,"),
    *("a/b=0", " nvidia.com/gpu=0", "runtime.nvidia.com/gpu=0"),
    "vendor.com/dev=0,vendor.com/dev=0",
)
MOUNTED = (
    *("0", "void", "all", "cdi/nvidia.com/gpu/0", "cdi/nvidia.com/gpu=0", "cdi/bad", "a/b"),
    *(hardware.UUID_0, "VOID", "", "cdi/a/b/c", "none", "imex/0", "imex/x"),
)
# Variable, how often it is set (in a hundred), what it may hold.
VARIABLES = (
    ("CUDA_VERSION", 15, ("11.0.3",)),
    ("NVIDIA_REQUIRE_CUDA", 5, ("cuda>=11.0",)),
    ("NVIDIA_MIG_CONFIG_DEVICES", 8, ("all", "ALL", "0", "")),
    ("NVIDIA_MIG_MONITOR_DEVICES", 5, ("all", "1")),
    ("NVIDIA_GDS", 3, ("enabled", "disabled")),
    ("NVIDIA_MOFED", 3, ("enabled",)),
    ("NVIDIA_GDRCOPY", 3, ("enabled",)),
    ("NVIDIA_NVSWITCH", 8, ("enabled",)),
    (
        "NVIDIA_IMEX_CHANNELS",
        10,
        ("0", "all", "0,1", "9999999", "x", "void", "none", "channel0", "99999999999999999999"),
    ),
)


def environment(dice: random.Random, kind: str) -> list[str]:
    """Return a container's environment; ``kind`` is the default kind, to qualify names with."""
    entries = ["PATH=/usr/bin"]
    if dice.random() < 0.85:
        value = dice.choice(["", "void"]) if dice.random() < 0.08 else _names(dice, kind)
        entries.append(f"NVIDIA_VISIBLE_DEVICES={value}")
    if dice.random() < 0.05:
        entries.append("NVIDIA_VISIBLE_DEVICES=1")
    swarm = [name for name in ("A_GPU", "B_GPU") if dice.random() < 0.1]
    entries.extend(f"{name}={_names(dice, kind)}" for name in swarm)
    for name, share, values in VARIABLES:
        if dice.random() * 100 < share:
            entries.append(f"{name}={dice.choice(values)}")
    if dice.random() < 0.02:
        entries.append("BADENV")
    return entries


def _names(dice: random.Random, kind: str) -> str:
    pools = [GOOD, GOOD, ODD, (*FULL, f"{kind}=0"), GOOD + ODD, FULL + ODD_FULL, GOOD + FULL]
    pool = dice.choice(pools)
    return ",".join(dice.choice(pool) for _ in range(dice.choices([1, 2, 3], [6, 3, 1])[0]))


def annotation(dice: random.Random) -> dict[str, str]:
    """Return the annotations that reach the runtime."""
    keys = ["cdi.k8s.io/a", "nvidia.cdi.k8s.io/a", "other.io/a"]
    return {dice.choice(keys): dice.choice(ANNOTATED)} if dice.random() < 0.3 else {}


def mounts(dice: random.Random) -> list[tuple[str, str]]:
    """Return bind mounts as (source, destination)."""
    found = []
    while dice.random() < 0.3:
        root = MOUNT_ROOT if dice.random() < 0.85 else "/run/nvidia-container-devices"
        source = dice.choice(["/dev/null", "/dev/null", "/dev/null", "//dev//null", "/dev/zero"])
        found.append((source, f"{root}/{dice.choice(MOUNTED)}"))
    return found


def specs(dice: random.Random) -> dict[str, str]:
    """Return spec files by host path."""
    files: dict[str, str] = {}
    for number in range(dice.choice([0, 1, 2, 2, 3, 4])):
        extension = dice.choices([".yaml", ".json", ".yml"], weights=[8, 1, 1])[0]
        files[f"{dice.choice(SPEC_DIRS)}/{number}{extension}"] = _spec(dice)
    return files


def _spec(dice: random.Random) -> str:
    if dice.random() < 0.05:
        bad_version = "cdiVersion: 9.9.9\nkind: nvidia.com/gpu\ndevices: []\n"
        return dice.choice(["", "kind: [", bad_version])
    version = dice.choice(["0.5.0", "0.6.0", "0.8.0", "1.1.0"])
    key = "Kind" if dice.random() < 0.05 else "kind"
    lines = [f'cdiVersion: "{version}"', f"{key}: {dice.choice(KINDS[:3])}", "devices:"]
    names = [*GOOD, "none", "void"]
    for name in dice.sample(names, dice.randint(1, len(names))):
        lines += [f'- name: "{name}"', "  containerEdits:"]
        lines.append(f'    env: ["D_{dice.randint(0, 99)}=1"]')
        node = dice.choices(["", "/dev/nvidia0", "/dev/nvidia1", "/dev/missing"], [3, 6, 3, 1])[0]
        if node:
            lines.append(f"    deviceNodes: [{{path: {node}}}]")
    if dice.random() < 0.5:
        lines += ["containerEdits:", '  env: ["NVIDIA_VISIBLE_DEVICES=void"]']
    return "\n".join(lines) + "\n"

"""Random nodes and containers for the comparison with the real runtime.

Owns: what is worth combining. Every case comes from one seed and can be made again from it alone.
Must not know: what the answer is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.lab import hardware
from tests.lab.hardware import Fault
from tests.lab.programs import TOOLKIT_VERSIONS

MIG_SLOT_0, MIG_SLOT_1 = hardware.MIG_UUID_0, hardware.MIG_UUID_1
KINDS = ("nvidia.com/gpu", "management.nvidia.com/gpu", "vendor.com/dev", "runtime.nvidia.com/gpu")
SPEC_DIRS = ("/etc/cdi", "/run/cdi", "/opt/cdi")
UNKNOWN_UUID = "GPU-00000000-1111-2222-3333-444444444444"


@dataclass(frozen=True)
class Case:
    """One node state and one container; ``files`` replace everything of the case before."""

    seed: int
    version: str
    wrapped: bool
    handler: str
    config: str
    decoy: str | None
    engine: str
    engine_version: str
    specs: Mapping[str, str]
    environment: Sequence[str]
    annotations: Mapping[str, str]
    mounts: Sequence[tuple[str, str]]
    privileged: bool
    fault: Fault | None = None
    has_module: bool = True
    notes: Sequence[str] = field(default=())


def make_case(seed: int) -> Case:
    """Return the case of a seed."""
    dice = random.Random(seed)
    version = dice.choice(TOOLKIT_VERSIONS)
    wrapped = dice.random() < 0.5
    kind = dice.choice([*KINDS[:2], *KINDS[:2], KINDS[2], dice.choice(["", "no-kind", *KINDS])])
    engine, engine_version = _engine(dice, version, wrapped=wrapped)
    mode = dice.choices(
        ["auto", "cdi", "legacy", "jit-cdi", "foo", ""], weights=[35, 45, 6, 10, 2, 2]
    )[0]
    return Case(
        seed=seed,
        version=version,
        wrapped=wrapped,
        handler=dice.choices(["nvidia", "nvidia-cdi", "nvidia-legacy"], weights=[7, 4, 1])[0],
        config=_config(dice, mode, kind),
        decoy=_config(dice, "legacy", "decoy.com/gpu") if dice.random() < 0.5 else None,
        engine=engine,
        engine_version=engine_version,
        specs=_specs(dice),
        environment=_environment(dice, kind),
        annotations=_annotations(dice),
        mounts=_mounts(dice),
        privileged=dice.random() < 0.25,
        fault=dice.choice(list(Fault)[:2]) if dice.random() < 0.08 else None,
        has_module=dice.random() > 0.04,
    )


def toolkit_folder(version: str, *, wrapped: bool) -> str:
    """Where the lab's node has this toolkit."""
    return f"/usr/local/nvidia/{version}" if wrapped else f"/opt/toolkit/{version}"


def _engine(dice: random.Random, version: str, *, wrapped: bool) -> tuple[str, str]:
    folder = toolkit_folder(version, wrapped=wrapped)
    if dice.random() < 0.5:
        head, table, running = 2, 'plugins."io.containerd.grpc.v1.cri"', "1.7.35"
    else:
        head, table, running = 3, "plugins.'io.containerd.cri.v1.runtime'", "2.2.7"
    text = f"version = {head}\n[{table}.containerd.runtimes.runc]\nruntime_type = 'io.containerd.runc.v2'\n"
    for suffix in ("", "-cdi", "-legacy"):
        program = f"{folder}/nvidia-container-runtime{suffix.replace('-', '.')}"
        text += f"[{table}.containerd.runtimes.nvidia{suffix}]\n  runtime_type = 'io.containerd.runc.v2'\n"
        text += f"[{table}.containerd.runtimes.nvidia{suffix}.options]\n  BinaryName = '{program}'\n"
    return text, running


def _config(dice: random.Random, mode: str, kind: str) -> str:
    broken = dice.random()
    if broken < 0.03:
        return dice.choice(
            [
                "this is no toml\n",
                "[nvidia-container-runtime]\nmode = 5\n",
                "[nvidia-container-runtime]\nmode = 'cdi'\nmode = 'cdi'\n",
                "accept-nvidia-visible-devices-as-volume-mounts = 'yes'\n",
                "[nvidia-container-cli]\nldconfig = '/sbin/ldconfig'\n",
                "[nvidia-container-runtime]\nruntimes = [1]\n",
                "nvidia-container-runtime = 'x'\n",
                "[[nvidia-container-runtime]]\nmode = 'cdi'\n",
            ]
        )
    top = [f"accept-nvidia-visible-devices-as-volume-mounts = {_flag(dice, 0.5)}"]
    if dice.random() < 0.4:
        gate = "accept-nvidia-visible-devices-envvar-when-unprivileged"
        top.append(f"{gate} = {_flag(dice, 0.5)}")
    if dice.random() < 0.2:
        top.append(f"swarm-resource = '{dice.choice(['A_GPU', 'A_GPU, B_GPU', ''])}'")
    if dice.random() < 0.1:
        top.append("unknown-key = { a = 1 }")
    runtime = ["debug = '/run/case/debug.log'", "runtimes = ['/run/case/low-level']"]
    if dice.random() < 0.95:
        runtime.append(f"mode = '{mode}'")
    cdi = []
    if dice.random() < 0.85:
        cdi.append(f"default-kind = '{kind}'")
    if dice.random() < 0.5:
        dirs = dice.sample(SPEC_DIRS, dice.randint(0, 3))
        cdi.append(f"spec-dirs = {dirs}")
    if dice.random() < 0.4:
        prefixes = dice.choice([[], ["cdi.k8s.io/"], ["nvidia.cdi.k8s.io/", "cdi.k8s.io/"]])
        cdi.append(f"annotation-prefixes = {prefixes}")
    return _layout(dice, top, runtime, cdi)


def _layout(dice: random.Random, top: list[str], runtime: list[str], cdi: list[str]) -> str:
    indent = dice.choice(["", "  ", "\t"])
    lines = [*top, "[nvidia-container-runtime]", *(indent + line for line in runtime)]
    if dice.random() < 0.3:
        lines += [f"{indent}modes.cdi.{line}" for line in cdi]
    else:
        lines += ["# comment", "[nvidia-container-runtime.modes.cdi]", *(indent + x for x in cdi)]
    end = dice.choice(["\n", "\r\n"])
    return dice.choice(["", "", "\ufeff"]) + end.join(lines) + end


def _flag(dice: random.Random, share: float) -> str:
    return "true" if dice.random() < share else "false"


def _specs(dice: random.Random) -> dict[str, str]:
    specs: dict[str, str] = {}
    for number in range(dice.randint(0, 4)):
        directory = dice.choice(SPEC_DIRS)
        extension = dice.choices([".yaml", ".json", ".yml"], weights=[8, 1, 1])[0]
        specs[f"{directory}/{number}{extension}"] = _spec(dice)
    return specs


def _spec(dice: random.Random) -> str:
    oddity = dice.random()
    if oddity < 0.05:
        return dice.choice(["", "kind: [", "cdiVersion: 9.9.9\nkind: nvidia.com/gpu\ndevices: []\n"])
    kind = dice.choice(KINDS[:3])
    field_name = "Kind" if oddity > 0.96 else "kind"
    lines = [f'cdiVersion: "{dice.choice(["0.5.0", "0.6.0", "0.8.0", "1.1.0"])}"', f"{field_name}: {kind}"]
    names = ["0", "1", "all", hardware.UUID_0, hardware.UUID_1, "none", "void", MIG_SLOT_0]
    lines.append("devices:")
    for name in dice.sample(names, dice.randint(1, 5)):
        lines.append(f'- name: "{name}"')
        lines.append("  containerEdits:")
        lines.append(f'    env: ["D_{dice.randint(0, 99)}=1"]')
        node = dice.choices([None, "/dev/nvidia0", "/dev/nvidia1", "/dev/missing"], [3, 6, 3, 1])[0]
        if node:
            lines.append(f"    deviceNodes: [{{path: {node}}}]")
    if dice.random() < 0.5:
        lines += ["containerEdits:", '  env: ["NVIDIA_VISIBLE_DEVICES=void"]']
    return "\n".join(lines) + "\n"


def _names(dice: random.Random, kind: str) -> str:
    plain = ["0", "1", "all", "none", "void", hardware.UUID_0, hardware.UUID_1, UNKNOWN_UUID]
    plain += [MIG_SLOT_0, "1:0", "1:7", "7", "0:0", "GPU-4044aeb5", "foo", "00", " 0", "gpu0", "-1"]
    full = [f"{kind}=0", "nvidia.com/gpu=0", "nvidia.com/gpu=all", "management.nvidia.com/gpu=all"]
    full += ["vendor.com/dev=0", "runtime.nvidia.com/gpu=0", "runtime.nvidia.com/gpu=all", "a/b=0"]
    full += ["nvidia.com/gpu=", "=0", "x.com/y_=0", "nvidia.com/gpu=0=1", "runtime.nvidia.com/gpu="]
    pool = dice.choice([plain, plain, plain, full, plain + full])
    return ",".join(dice.choice(pool) for _ in range(dice.choices([1, 2, 3], [6, 3, 1])[0]))


def _environment(dice: random.Random, kind: str) -> list[str]:
    environment = ["PATH=/usr/bin"]
    if dice.random() < 0.85:
        value = dice.choice(["", "void"]) if dice.random() < 0.1 else _names(dice, kind)
        environment.append(f"NVIDIA_VISIBLE_DEVICES={value}")
    if dice.random() < 0.05:
        environment.append("NVIDIA_VISIBLE_DEVICES=1")
    for name in ("A_GPU", "B_GPU"):
        if dice.random() < 0.1:
            environment.append(f"{name}={_names(dice, kind)}")
    if dice.random() < 0.15:
        environment.append("CUDA_VERSION=11.0.3")
    if dice.random() < 0.05:
        environment.append("NVIDIA_REQUIRE_CUDA=cuda>=11.0")
    if dice.random() < 0.06:
        environment.append(f"NVIDIA_MIG_CONFIG_DEVICES={dice.choice(['all', 'ALL', '0', ''])}")
    if dice.random() < 0.06:
        environment.append(f"NVIDIA_MIG_MONITOR_DEVICES={dice.choice(['all', '1'])}")
    if dice.random() < 0.02:
        environment.append("BADENV")
    return environment


def _annotations(dice: random.Random) -> dict[str, str]:
    if dice.random() < 0.7:
        return {}
    key = dice.choice(["cdi.k8s.io/a", "nvidia.cdi.k8s.io/a", "other.io/a"])
    value = dice.choice(
        ["nvidia.com/gpu=0", "nvidia.com/gpu=all,vendor.com/dev=0", "0", "", "nvidia.com/gpu=0,", "a/b=0"]
        + [" nvidia.com/gpu=0", "runtime.nvidia.com/gpu=0", "vendor.com/dev=0,vendor.com/dev=0"]
    )
    return {key: value}


def _mounts(dice: random.Random) -> list[tuple[str, str]]:
    mounts = []
    while dice.random() < 0.3:
        path = dice.choice(
            ["0", "void", "all", "cdi/nvidia.com/gpu/0", "cdi/nvidia.com/gpu=0", "cdi/bad", "a/b"]
            + [hardware.UUID_0, "VOID", "", "cdi/a/b/c", "none"]
        )
        root = dice.choice(["/var/run/nvidia-container-devices", "/run/nvidia-container-devices"])
        root = root if dice.random() < 0.3 else "/var/run/nvidia-container-devices"
        source = dice.choice(["/dev/null", "/dev/null", "/dev/null", "//dev//null", "/dev/zero"])
        mounts.append((source, f"{root}/{path}"))
    return mounts

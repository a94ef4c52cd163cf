"""Random nodes for the comparison with the real runtime.

Owns: a case, its engine and toolkit configuration. Every case comes from one seed and can be made
again from it alone. Must not know: what the answer is.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.differential_runtime import containers
from tests.differential_runtime.containers import KINDS, SPEC_DIRS
from tests.lab.hardware import Fault
from tests.lab.programs import TOOLKIT_VERSIONS


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


def make_case(seed: int) -> Case:
    """Return the case of a seed."""
    dice = random.Random(seed)  # noqa: S311 - repeatable, not secret
    version = dice.choice(TOOLKIT_VERSIONS)
    wrapped = dice.random() < 0.5
    kind = dice.choice([*KINDS[:2], *KINDS[:2], KINDS[2], dice.choice(["", "no-kind", *KINDS])])
    engine, engine_version = _engine(dice, version, wrapped=wrapped)
    mode = dice.choices(
        ["auto", "cdi", "legacy", "jit-cdi", "foo", ""], weights=[40, 38, 4, 14, 2, 2]
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
        specs=containers.specs(dice),
        environment=containers.environment(dice, kind),
        annotations=containers.annotation(dice),
        mounts=containers.mounts(dice),
        privileged=dice.random() < 0.25,
        fault=dice.choice(list(Fault)[:2]) if dice.random() < 0.12 else None,
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
        text += (
            f"[{table}.containerd.runtimes.nvidia{suffix}.options]\n  BinaryName = '{program}'\n"
        )
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
    if dice.random() < 0.1:
        top.append(f"features.ignore-imex-channel-requests = {_flag(dice, 0.7)}")
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

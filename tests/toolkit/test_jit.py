"""Just-in-time requests against what NVML or the kernel module tells."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from gpucdi.host import HostTree
from gpucdi.toolkit import JitGpu, JitInventory, kernel_inventory
from gpucdi.toolkit.jit import JitError, JitUnknownError, generated, is_uuid
from gpucdi.toolkit.rules import rules_of

MakeTree = Callable[[Mapping[str, str | bytes]], HostTree]

U0 = "GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
U1 = "GPU-2bd7f9eb-5916-6dc2-dea4-1d97d1fb848e"
OTHER = "GPU-00000000-1111-2222-3333-444444444444"
MIG = "MIG-5b1f2c9a-0000-5000-8000-000000000001"
NODE = JitInventory((JitGpu(0, U0), JitGpu(1, U1, mig_enabled=True, mig={2: MIG})))
NEW, OLD = rules_of((1, 20, 2)), rules_of((1, 17, 4))


@pytest.mark.parametrize(
    ("ids", "uuids"),
    [
        (["0"], (U0,)),
        (["00"], (U0,)),
        ([U1], (U1,)),
        (["1:2"], (MIG,)),
        ([MIG, "0"], (MIG, U0)),
        (["all"], (U0, MIG)),
        (["0", "none"], ()),
        (["none", "all"], ()),
        (["nonsense", "all"], (U0, MIG)),
        ([], (U0, MIG)),
    ],
)
def test_ids_are_generated_as_nvml_knows_them(ids: list[str], uuids: tuple[str, ...]) -> None:
    assert generated(ids, NODE, NEW) == uuids


@pytest.mark.parametrize(
    ("identifier", "cause"),
    [
        ("7", "failed to get device handle from index: Invalid Argument"),
        ("0:0", "failed to get MIG handle by index: Not Found"),
        ("9:0", "failed to get parent device handle: Invalid Argument"),
        (OTHER, "failed to get device handle from UUID: Not Found"),
        ("GPU-4044aeb5", 'identifier is not a valid UUID or index: "GPU-4044aeb5"'),
        ("-1", 'identifier is not a valid UUID or index: "-1"'),
        ("9999999999999999999", "value out of range"),
    ],
)
def test_other_ids_fail_with_the_generators_words(identifier: str, cause: str) -> None:
    with pytest.raises(JitError, match="failed to construct device spec generators: ") as caught:
        generated([identifier], NODE, NEW)
    assert cause in str(caught.value)


def test_none_is_no_id_before_1_18_2() -> None:
    with pytest.raises(JitError):
        generated(["none"], NODE, OLD)


def test_nvml_that_does_not_start_fails_everything() -> None:
    with pytest.raises(JitError, match="failed to initialize NVML: Driver Not Loaded"):
        generated(["none"], JitInventory(problem="Driver Not Loaded"), NEW)


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        (U0, True),
        (U0.upper().replace("GPU", "GPU"), True),
        (U0.replace("-", "", 2), False),
        ("GPU-4044aeb5b7e48cb069a840490ce01a2f", True),
        ("GPU-{4044aeb5-b7e4-8cb0-69a8-40490ce01a2f}", True),
        (f"MIG-{U0}/1/0", True),
        (f"MIG-{U0}/1", False),
        ("4044aeb5-b7e4-8cb0-69a8-40490ce01a2f", False),
    ],
)
def test_what_counts_as_a_uuid(text: str, yes: bool) -> None:
    assert is_uuid(text) is yes


PROC = "/proc/driver/nvidia/gpus/0000:3b:00.0/information"


def test_the_kernel_modules_list_answers_for_uuids_only(make_tree: MakeTree) -> None:
    found = kernel_inventory(make_tree({PROC: f"Model: \t X\nGPU UUID: \t {U0}\n"}))
    assert found is not None
    assert generated([U0], found, NEW) == (U0,)
    assert generated(["all"], found, NEW) == (U0,)
    with pytest.raises(JitError, match="Not Found"):
        generated([OTHER], found, NEW)
    for unknown in ("0", "0:1", MIG):
        with pytest.raises(JitUnknownError):
            generated([unknown], found, NEW)


def test_a_gpu_without_uuid_leaves_other_uuids_unknown(make_tree: MakeTree) -> None:
    found = kernel_inventory(make_tree({PROC: "GPU UUID: \t GPU-????????-????\n"}))
    assert found is not None
    with pytest.raises(JitUnknownError):
        generated([OTHER], found, NEW)


def test_without_the_kernel_modules_list_there_is_no_inventory(make_tree: MakeTree) -> None:
    assert kernel_inventory(make_tree({"/etc/hostname": "x"})) is None

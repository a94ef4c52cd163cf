"""Policies without a server: which one governs, what holds a node, and whose turn it is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.fakeapi.controlplane import ROOT

from gpucdi.api import Hold, Intent, RepairMode
from gpucdi.api.policy import BOUNDS, BreakerState, BreakerStatus, Policy
from gpucdi_operator import policies
from gpucdi_operator.policies import (
    Ruling,
    Turns,
    could_repair,
    governing,
    is_persons,
    label_hold,
    rule,
)
from gpucdi_operator.store import NodeRecord

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100"}


def policy(name: str, **spec: Any) -> Policy:
    return Policy.from_json(name, spec)


def test_the_highest_priority_governs_and_of_equals_the_first_by_name() -> None:
    policies = [
        policy("b", priority=1),
        policy("a", priority=1),
        policy("c", priority=5, nodeSelector={"matchLabels": H100}),
    ]
    assert [found.name for found in governing(policies, {})] == ["a", "b"]
    assert [found.name for found in governing(policies, H100)] == ["c", "a", "b"]


@pytest.mark.parametrize(
    ("operator", "values", "labels", "selected"),
    [
        ("In", ["x"], {"k": "x"}, True),
        ("In", ["x"], {}, False),
        ("NotIn", ["x"], {}, True),
        ("NotIn", ["x"], {"k": "x"}, False),
        ("Exists", [], {"k": ""}, True),
        ("DoesNotExist", [], {"k": ""}, False),
        ("Gt", ["1"], {"k": "2"}, False),
    ],
)
def test_a_selector_means_what_kubernetes_means(
    operator: str, values: list[str], labels: dict[str, str], *, selected: bool
) -> None:
    term = {"key": "k", "operator": operator, "values": values}
    found = policy("p", nodeSelector={"matchExpressions": [term]})
    assert found.selects(labels) is selected


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"nvidia.com/mig.config.state": "pending"}, "MigChange"),
        ({"nvidia.com/mig.config.state": "success"}, None),
        ({"nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change"}, "OperandsPaused"),
        ({"nvidia.com/gpu.deploy.device-plugin": "true"}, None),
        ({"gpucdi.io/repair": "atuo"}, "RepairLabelUnreadable"),
        ({"gpucdi.io/repair": ""}, "RepairLabelUnreadable"),
        ({"gpucdi.io/repair": "Observe"}, None),
    ],
)
def test_labels_of_other_operators_hold_repairs(labels: dict[str, str], reason: str | None) -> None:
    hold = label_hold(labels)
    assert (hold.reason if hold else None) == reason


@pytest.mark.parametrize(
    ("state", "held"),
    [
        ("upgrade-required", False),
        ("cordon-required", True),
        ("wait-for-jobs-required", True),
        ("pod-deletion-required", True),
        ("drain-required", True),
        ("node-maintenance-required", True),
        ("post-maintenance-required", True),
        ("pod-restart-required", True),
        ("validation-required", True),
        ("uncordon-required", True),
        ("upgrade-done", False),
        ("upgrade-failed", False),
    ],
)
def test_a_driver_upgrade_holds_from_its_cordon_to_its_uncordon(state: str, *, held: bool) -> None:
    hold = label_hold({"nvidia.com/gpu-driver-upgrade-state": state})
    assert (hold.reason if hold else None) == ("DriverUpgrade" if held else None)


@pytest.mark.parametrize(
    ("mode", "labels", "able"),
    [
        ("Auto", {}, True),
        ("Observe", {}, False),
        ("Off", {}, False),
        ("Auto", {"gpucdi.io/repair": "off"}, False),
        ("Auto", {"gpucdi.io/repair": "observe"}, False),
        ("Auto", {"gpucdi.io/repair": "atuo"}, False),
        ("Observe", {"gpucdi.io/repair": "auto"}, True),
        ("Auto", {"nvidia.com/mig.config.state": "pending"}, False),
        ("Auto", {"nvidia.com/gpu.deploy.dcgm": "paused-for-driver-upgrade"}, False),
    ],
)
def test_who_could_repair(mode: str, labels: dict[str, str], *, able: bool) -> None:
    found = policy("p", repair={"mode": mode})
    assert could_repair(labels, found, silent=False) is able
    assert not could_repair(labels, found, silent=True)


def node(name: str = "n1", **labels: str) -> NodeRecord:
    return NodeRecord(name, "u", labels)


def test_the_label_of_the_node_stands_above_every_policy() -> None:
    auto = policy("p", repair={"mode": "Auto"})
    found = rule(node(**{"gpucdi.io/repair": "off"}), auto, BreakerStatus(), None)
    assert found.mode is RepairMode.OFF
    found = rule(node(**{"gpucdi.io/repair": "auto"}), None, BreakerStatus(), None)
    assert found.mode is RepairMode.AUTO


def test_without_policy_and_label_nothing_is_asked() -> None:
    found = rule(node(), None, BreakerStatus(), None)
    assert found.is_met_by(Intent("n1"))
    assert found.mode is None


def test_an_open_breaker_holds_all_but_the_trial() -> None:
    auto = policy("p", repair={"mode": "Auto"})
    state = BreakerStatus(BreakerState.HALF_OPEN, trial="n2")
    held = rule(node("n1"), auto, state, None).hold
    assert held is not None
    assert held.reason == "BreakerOpen"
    assert rule(node("n2"), auto, state, None).hold is None
    again = rule(node("n2"), auto, replace(state, state=BreakerState.OPEN), None).hold
    assert again is not None, "the last one that was tried is held like all the others"


def test_at_most_so_many_nodes_have_their_turn() -> None:
    turns = Turns()
    drifted = [f"n{number}" for number in range(10)]
    first = turns.give(3, drifted, 0.0)
    assert first == {"n0", "n1", "n2"}
    assert turns.give(3, drifted, 1.0) == first
    assert turns.give(3, [item for item in drifted if item != "n1"], 2.0) == {"n0", "n2", "n3"}


def test_a_node_that_does_not_get_well_makes_room_for_others() -> None:
    turns = Turns(patience_s=10)
    assert turns.give(1, ["n0", "n1"], 0.0) == {"n0"}
    assert turns.give(1, ["n0", "n1"], 11.0) == {"n1"}
    assert turns.give(1, ["n0"], 12.0) == {"n0"}


def test_every_reason_of_a_hold_of_ours_is_known_for_ours() -> None:
    reasons = [value for name, value in vars(policies).items() if name.startswith("HOLD_")]
    assert len(reasons) > 5
    assert not any(is_persons(Hold(reason)) for reason in reasons)
    assert is_persons(Hold("Maintenance"))
    assert not is_persons(None)


def test_the_hold_of_a_person_is_the_only_one_that_keeps_a_node_from_being_tried() -> None:
    auto = policy("p", repair={"mode": "Auto"})
    assert could_repair({}, auto, silent=False, hold=Hold("BreakerOpen"))
    assert could_repair({}, auto, silent=False, hold=Hold("AwaitingTurn"))
    assert not could_repair({}, auto, silent=False, hold=Hold("Maintenance"))


def test_the_hold_of_a_person_meets_every_wish_and_one_of_ours_only_its_own() -> None:
    upgrade, mig = Hold("DriverUpgrade", message="m"), Hold("MigChange", message="m")
    for wish in (None, upgrade, mig):
        assert Ruling(hold=wish).is_met_by(Intent(hold=Hold("Maintenance")))
        assert Ruling(hold=wish).is_met_by(Intent(hold=upgrade)) is (wish is upgrade)


def integers(schema: dict[str, Any], path: str = "") -> dict[str, tuple[int, int]]:
    """Return the bounds of every integer of a schema, by its path."""
    found = {}
    for name, item in schema.get("properties", {}).items():
        if item["type"] == "integer":
            found[path + name] = (item["minimum"], item["maximum"])
        found |= integers(item, f"{path}{name}.")
    return found


def nested(path: str, value: int) -> dict[str, Any]:
    """Return a spec with one field set."""
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def test_the_bounds_of_numbers_are_those_of_the_schema() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "gpucdipolicies.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert integers(schema["properties"]["spec"]) == BOUNDS


@pytest.mark.parametrize("path", BOUNDS)
def test_a_number_beyond_its_bounds_is_taken_for_the_bound(path: str) -> None:
    least, greatest = BOUNDS[path]
    for wild, bound in ((-(2**31), least), (2**31 - 1, greatest), (10**30, greatest)):
        assert policy("p", **nested(path, wild)) == policy("p", **nested(path, bound))
    assert policy("p", **nested(path, least)) != policy("p", **nested(path, greatest))

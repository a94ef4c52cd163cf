"""What the operator does for a fleet, on a real API server and with the rights that are shipped.

The same deeds are tested one by one on the fake; here nothing of ours answers the operator.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from tests.controller.accounts import kubeconfig, operators
from tests.controller.circle import Agents, SteeredClock, whole_circle
from tests.controller.conftest import Eventually, Grant, Run
from tests.controller.scene import Scene, fresh, node_status
from tests.fakeapi.controlplane import ControlPlane

from gpucdi.api.names import LABEL_REPAIR
from gpucdi.api.taint import is_tainted
from gpucdi_kube import Clock, HttpKubeApi, paths
from gpucdi_operator.policies import DEPLOY_PREFIX, MIG_LABEL, UPGRADE_LABEL

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]
WITHIN_S = 60.0


def repair(stage: Scene, node: str) -> dict[str, Any]:
    found: dict[str, Any] = stage.spec(node).get("repair", {})
    return found


def held_by(stage: Scene, node: str) -> str:
    return str(repair(stage, node).get("hold", {}).get("reason", ""))


def policy_status(stage: Scene, name: str) -> dict[str, Any]:
    body = stage.api.find("gpucdipolicies", name) or {}
    found: dict[str, Any] = body.get("status") or {}
    return found


def counted(stage: Scene, name: str) -> object:
    """Return what a policy's status says of how many nodes."""
    return policy_status(stage, name).get("nodes")


def counts(**numbers: int) -> dict[str, int]:
    zeros = dict.fromkeys(("selected", "governed", "drifted", "held", "tainted"), 0)
    return zeros | numbers


def finalized(stage: Scene) -> list[str]:
    """Return every object that we touch and that has a finalizer."""
    return [
        f"{plural} {body['metadata']['name']}"
        for plural in ("nodes", "gpucdistatuses", "gpucdipolicies", "pods", "leases")
        for body in stage.api.all(plural)
        if body["metadata"].get("finalizers")
    ]


def marked(stage: Scene, node: str) -> str:
    return str((stage.condition(node) or {}).get("status", ""))


def fleet(stage: Scene, *names: str, drifted: bool = True, **meta: Any) -> None:
    for name in names:
        stage.node(name, **meta)
        stage.agent_says(name, fresh(drifted=drifted))


async def test_a_policy_becomes_the_spec_of_the_nodes_that_it_selects(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", labels={"pool": "a"})
    fleet(stage, "r2", labels={"pool": "b"})
    fleet(stage, "r3", labels={"pool": "a"}, drifted=False)
    stage.policy(
        "p-a",
        nodeSelector={"matchLabels": {"pool": "a"}},
        kinds={"extra": ["example.com/gpu"], "strategies": ["uuid"], "none": True},
    )
    async with run():
        await eventually(lambda: repair(stage, "r1").get("mode") == "Auto", WITHIN_S)
        await eventually(
            lambda: counted(stage, "p-a") == counts(selected=2, governed=2, drifted=1), WITHIN_S
        )
    kinds = stage.spec("r1")["kinds"]
    assert kinds == {"extra": ["example.com/gpu"], "strategies": ["uuid"], "none": True}
    assert repair(stage, "r2") == {"mode": "Observe"}
    assert "kinds" not in stage.spec("r2")


async def test_the_policy_of_the_highest_priority_rules_and_the_losers_say_so(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    stage.policy("p-high", priority=5, repair={"mode": "Off"})
    stage.policy("p-low", priority=1)

    def outvoted() -> object:
        told = policy_status(stage, "p-low").get("conditions", [])
        return [item for item in told if "p-high" in item["message"]]

    async with run():
        await eventually(lambda: repair(stage, "r1").get("mode") == "Off", WITHIN_S)
        await eventually(outvoted, WITHIN_S)
        one = counts(selected=1, governed=1, drifted=1)
        await eventually(lambda: counted(stage, "p-high") == one, WITHIN_S)
        await eventually(lambda: counted(stage, "p-low") == counts(selected=1), WITHIN_S)
        # When the winner goes, the next one rules.
        stage.api.remove("gpucdipolicies", "p-high")
        await eventually(lambda: repair(stage, "r1").get("mode") == "Auto", WITHIN_S)
        await eventually(lambda: not outvoted(), WITHIN_S)
        await eventually(lambda: counted(stage, "p-low") == one, WITHIN_S)


async def test_labels_of_a_node_hold_and_override_what_a_policy_says(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", labels={UPGRADE_LABEL: "drain-required"})
    fleet(stage, "r2", labels={LABEL_REPAIR: "off"})
    fleet(stage, "r3", labels={LABEL_REPAIR: "nonsense"})
    stage.policy("p-all", repair={"maxConcurrent": 10})
    async with run():
        await eventually(lambda: held_by(stage, "r1") == "DriverUpgrade", WITHIN_S)
        await eventually(lambda: repair(stage, "r2").get("mode") == "Off", WITHIN_S)
        await eventually(lambda: held_by(stage, "r3"), WITHIN_S)
        stage.node("r1", labels={UPGRADE_LABEL: "upgrade-done"})
        await eventually(lambda: held_by(stage, "r1") == "", WITHIN_S)
    assert repair(stage, "r1") == {"mode": "Auto"}


PLUGIN = f"{DEPLOY_PREFIX}device-plugin"


@pytest.mark.parametrize(
    ("change", "hold"),
    [
        ((MIG_LABEL, "pending", "success"), "MigChange"),
        ((PLUGIN, "paused-for-driver-upgrade", "true"), "OperandsPaused"),
        ((UPGRADE_LABEL, "uncordon-required", "upgrade-done"), "DriverUpgrade"),
    ],
)
async def test_what_other_operators_do_with_a_node_holds_it_until_they_are_done(
    stage: Scene, run: Run, eventually: Eventually, change: tuple[str, str, str], hold: str
) -> None:
    label, begun, over = change
    fleet(stage, "r1", labels={label: begun})
    stage.policy("p-all")
    async with run():
        await eventually(lambda: held_by(stage, "r1") == hold, WITHIN_S)
        stage.api.put("nodes", {"metadata": {"name": "r1", "labels": {label: over}}})
        await eventually(lambda: repair(stage, "r1") == {"mode": "Auto"}, WITHIN_S)


@dataclass(slots=True)
class Turns:
    """Who is free to repair, by a watch: it tells of each change, in the order in which they came."""

    free: set[str] = field(default_factory=set)
    had: list[str] = field(default_factory=list)
    most_at_once: int = 0

    async def follow(self, client: HttpKubeApi) -> None:
        async for event in client.watch(paths.STATUSES, timeout_s=3600):
            if event.type in {"ADDED", "MODIFIED"}:
                self._take(cast("dict[str, Any]", event.object))
        pytest.fail("the watch ended")

    def _take(self, body: dict[str, Any]) -> None:
        name, repairing = body["metadata"]["name"], body["spec"]["repair"]
        drifted = body.get("status", {}).get("state") == "Drifted"
        if drifted and repairing["mode"] == "Auto" and "hold" not in repairing:
            self.had += [] if name in self.free else [name]
            self.free.add(name)
        else:
            self.free.discard(name)
        self.most_at_once = max(self.most_at_once, len(self.free))


@pytest.fixture
async def turns(apiserver: ControlPlane) -> AsyncIterator[Turns]:
    """Follow whose turn it is until the test ends."""
    seen, client = Turns(), HttpKubeApi(operators(apiserver))
    following = asyncio.create_task(seen.follow(client))
    yield seen
    ended = following.done()
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await client.close()
    assert not ended, following


async def test_never_more_nodes_repair_at_a_time_than_the_policy_lets_until_all_had_their_turn(
    stage: Scene, run: Run, turns: Turns, eventually: Eventually
) -> None:
    names = [f"r{number}" for number in range(4)]
    fleet(stage, *names)
    stage.policy("p-all", repair={"maxConcurrent": 1, "breaker": {"percent": 100, "minNodes": 100}})

    def says(left: int) -> Callable[[], bool]:
        expected = counts(selected=4, governed=4, drifted=left, held=left - 1)
        return lambda: counted(stage, "p-all") == expected

    def wait(others: set[str]) -> Callable[[], bool]:
        return lambda: {held_by(stage, name) for name in others} == {"AwaitingTurn"}

    def done(name: str) -> Callable[[], bool]:
        return lambda: name not in turns.free

    async with run():
        for number in range(4):
            await eventually(lambda: turns.free, WITHIN_S)
            (first,) = turns.free
            await eventually(wait(set(names) - {first}), WITHIN_S)
            await eventually(says(4 - number), WITHIN_S)
            stage.agent_says(first, node_status(drifted=False))
            await eventually(done(first), WITHIN_S)
    assert turns.most_at_once == 1
    assert sorted(turns.had) == names


async def test_many_nodes_that_drift_at_once_open_the_breaker_and_one_event_says_so(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    names = [f"r{number}" for number in range(6)]
    fleet(stage, *names, drifted=False)
    stage.policy("p-all", repair={"maxConcurrent": 10, "breaker": {"percent": 20, "minNodes": 2}})

    def state() -> str:
        return str(policy_status(stage, "p-all").get("breaker", {}).get("state", ""))

    async with run():
        await eventually(lambda: repair(stage, "r0").get("mode") == "Auto", WITHIN_S)
        for name in names:
            stage.agent_says(name, fresh(drifted=True))
        await eventually(lambda: state() == "Open", WITHIN_S)
        await eventually(
            lambda: {held_by(stage, name) for name in names} == {"BreakerOpen"}, WITHIN_S
        )
        everyone = counts(selected=6, governed=6, drifted=6, held=6)
        await eventually(lambda: counted(stage, "p-all") == everyone, WITHIN_S)
        await eventually(lambda: stage.api.all("events"), WITHIN_S)
    about = [
        event for event in stage.api.all("events") if event["involvedObject"]["name"] == "p-all"
    ]
    assert len(about) == 1
    assert "r" in about[0]["message"]


async def test_a_bad_roll_out_goes_the_whole_circle_and_repairs_resume(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    def lead(_number: int, clock: Clock) -> AbstractAsyncContextManager[object]:
        return run(clock, lease_sweep_s=30.0)

    await whole_circle(Agents(stage.api, stage, SteeredClock()), 20, lead, eventually)


async def test_a_silent_agent_makes_the_condition_unknown_until_it_renews_its_lease(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", drifted=False)
    stage.lease("r1", duration_s=1)
    async with run():
        await eventually(lambda: marked(stage, "r1") == "Unknown", WITHIN_S)
        assert (stage.condition("r1") or {})["reason"] == "AgentSilent"
        stage.lease("r1")
        await eventually(lambda: marked(stage, "r1") == "False", WITHIN_S)


async def test_a_condition_that_kubelet_wiped_is_written_again(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    async with run():
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
        body = stage.api.find("nodes", "r1") or {}
        others = [item for item in body["status"]["conditions"] if item["type"] == "Ready"]
        version = body["metadata"]["resourceVersion"]
        stage.api.put("nodes", {**body, "status": {**body["status"], "conditions": others}})

        def written_since() -> bool:
            now = stage.api.find("nodes", "r1") or {}
            return marked(stage, "r1") == "True" and now["metadata"]["resourceVersion"] != version

        await eventually(written_since, WITHIN_S)


async def test_only_our_entry_of_a_nodes_conditions_is_ours(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1")
    async with run():
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
    managers = (stage.api.find("nodes", "r1") or {})["metadata"]["managedFields"]
    (owned,) = [item["fieldsV1"] for item in managers if item["manager"] == "gpucdi-operator"]
    assert list(owned) == ["f:status"]
    assert list(owned["f:status"]) == ["f:conditions"]
    assert list(owned["f:status"]["f:conditions"]) == ['k:{"type":"GpuCdiUnresolvable"}']


async def test_a_node_that_leaves_the_selector_loses_the_condition_and_gets_it_back(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    fleet(stage, "r1", "r2", labels={"pool": "a"})
    stage.policy("p-a", nodeSelector={"matchLabels": {"pool": "a"}})

    def moves_to(pool: str) -> None:
        stage.api.put("nodes", {"metadata": {"name": "r1", "labels": {"pool": pool}}})

    async with run():
        await eventually(lambda: marked(stage, "r1") and marked(stage, "r2"), WITHIN_S)
        moves_to("b")
        await eventually(lambda: stage.condition("r1") is None, WITHIN_S)
        assert marked(stage, "r2") == "True"
        body = stage.api.find("nodes", "r1") or {}
        assert [item["type"] for item in body["status"]["conditions"]] == ["Ready"]
        moves_to("a")
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)


def tainted(stage: Scene) -> set[str]:
    return {body["metadata"]["name"] for body in stage.api.all("nodes") if is_tainted(body)}


def tainted_when_heard_of(stage: Scene, node: str) -> Callable[[], bool]:
    """Return what lets something be heard of a node, and tells whether it alone is tainted.

    What was refused is tried again after a minute, or when something new is heard of it.
    """
    turns = itertools.count()

    def heard() -> bool:
        meta = {"name": node, "labels": {"turn": str(next(turns))}}
        stage.api.put("nodes", {"metadata": meta})
        return tainted(stage) == {node}

    return heard


async def test_a_drifted_node_is_tainted_as_soon_as_the_right_is_granted_and_no_longer_than_it_drifts(
    stage: Scene, run: Run, optional_rights: Grant, eventually: Eventually
) -> None:
    fleet(stage, *(f"r{number}" for number in range(5)), drifted=False)
    stage.policy("p-all", taint="NoSchedule")

    def allowed() -> str:
        told = policy_status(stage, "p-all").get("conditions", [])
        return "".join(item["reason"] for item in told if item["type"] == "TaintsAllowed")

    async with run(right_asked_again_s=0.3):
        stage.agent_says("r1", fresh(drifted=True))
        await eventually(lambda: allowed() == "RightMissing", WITHIN_S)
        assert tainted(stage) == set()
        optional_rights()
        await eventually(tainted_when_heard_of(stage, "r1"), WITHIN_S)
        await eventually(lambda: allowed() == "Enabled", WITHIN_S)
        one = counts(selected=5, governed=5, drifted=1, tainted=1)
        await eventually(lambda: counted(stage, "p-all") == one, WITHIN_S)
        stage.agent_says("r1", fresh(drifted=False))
        await eventually(lambda: tainted(stage) == set(), WITHIN_S)
        none = counts(selected=5, governed=5)
        await eventually(lambda: counted(stage, "p-all") == none, WITHIN_S)


async def test_a_node_that_is_made_anew_under_its_name_is_marked_and_owned_anew(
    stage: Scene, run: Run, eventually: Eventually
) -> None:
    def owners() -> list[str]:
        body = stage.api.find("gpucdistatuses", "r1") or {"metadata": {}}
        return [item["uid"] for item in body["metadata"].get("ownerReferences", [])]

    def uid() -> str:
        return str((stage.api.find("nodes", "r1") or {})["metadata"]["uid"])

    fleet(stage, "r1")
    async with run():
        await eventually(lambda: marked(stage, "r1") == "True", WITHIN_S)
        await eventually(lambda: owners() == [uid()], WITHIN_S)
        # No controller collects garbage here: the status goes as it would.
        stage.api.remove("nodes", "r1")
        stage.api.remove("gpucdistatuses", "r1")
        fleet(stage, "r1", drifted=False)
        await eventually(lambda: marked(stage, "r1") == "False", WITHIN_S)
        await eventually(lambda: owners() == [uid()], WITHIN_S)


@pytest.fixture
def uninstalled(apiserver: ControlPlane, tmp_path: Path) -> Callable[[], Awaitable[str]]:
    """Return what runs ``gpucdi-operator uninstall`` as the shipped account; it returns the log."""

    async def done() -> str:
        config = tmp_path / "kubeconfig"
        await asyncio.to_thread(lambda: config.write_text(kubeconfig(apiserver)))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "gpucdi_operator", "uninstall", "--kubeconfig", str(config)),
            stderr=asyncio.subprocess.PIPE,
        )
        _, told = await asyncio.wait_for(process.communicate(), 2 * WITHIN_S)
        assert process.returncode == 0, told.decode()
        return told.decode()

    return done


async def test_uninstall_leaves_the_nodes_as_they_were_found(
    stage: Scene,
    run: Run,
    optional_rights: Grant,
    uninstalled: Callable[[], Awaitable[str]],
    eventually: Eventually,
) -> None:
    fleet(stage, "r1")
    fleet(stage, *(f"r{number}" for number in range(2, 6)), drifted=False)
    stage.node("unmarked")
    stage.policy("p-all", taint="NoSchedule")
    stage.failing_pod("gpu-pod", "r1")

    def left() -> dict[str, object]:
        """Return what of each Node was never ours to keep."""
        return {
            body["metadata"]["name"]: (
                [item["type"] for item in body["status"]["conditions"]],
                body["spec"].get("taints"),
            )
            for body in stage.api.all("nodes")
        }

    found = left()
    optional_rights()
    async with run(right_asked_again_s=0.3):
        await eventually(lambda: all(marked(stage, f"r{n}") for n in range(1, 6)), WITHIN_S)
        await eventually(tainted_when_heard_of(stage, "r1"), WITHIN_S)
        await eventually(lambda: stage.events("CdiDeviceUnresolvable"), WITHIN_S)
        assert finalized(stage) == []
    assert stage.condition("unmarked") is None
    assert '"nodes": 5' in await uninstalled()
    assert left() == found
    assert finalized(stage) == []

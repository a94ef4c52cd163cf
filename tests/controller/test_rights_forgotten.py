"""A right that is missing is told to the policies that ask for it, and for no longer than they do."""

from __future__ import annotations

from typing import Any

import pytest
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import MESSAGE, Scene, fresh
from tests.fakeapi.server import FakeApi, Target

from gpucdi.api.policy import Policy
from gpucdi.api.taint import is_tainted
from gpucdi_kube import SystemClock
from gpucdi_operator.app import Operator
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.rights import FORGOTTEN_S, Feature, Rights

AT_ONCE = {"perMinute": 100, "afterSeconds": 0}
QUICKLY = {"restart_settle_s": 0.0, "right_asked_again_s": 0.3}
TAINTS = {"taint": "NoSchedule"}


class MovedClock(SystemClock):
    """The machine's clock, whose monotonic time is moved on by hand."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead_s


def policy(name: str, **spec: Any) -> Policy:
    return Policy.from_json(name, spec)


def restarting(name: str, **chosen: Any) -> Policy:
    return policy(name, restartWaitingPods={**AT_ONCE, **chosen})


# Which policies a refusal is about ----------------------------------------------------------

EVERY: dict[str, Any] = {"namespaceSelector": {}}


@pytest.mark.parametrize(
    ("asking", "expected"),
    [
        (restarting("p", namespaces=["team-a"]), ("team-a",)),
        (restarting("p", namespaces=["team-b", "team-c", "team-a"]), ("team-a", "team-c")),
        (restarting("p", namespaces=["team-b"]), ()),
        (restarting("p", **EVERY), ()),
        (restarting("met", **EVERY), ("team-c",)),
        (restarting("met", namespaces=["team-a"]), ("team-a",)),
        (policy("met"), ()),
        (policy("met", **TAINTS), ()),
    ],
)
def test_a_refusal_is_about_the_policies_that_ask_for_it_there(
    asking: Policy, expected: tuple[str, ...]
) -> None:
    rights = Rights(SystemClock(), Metrics())
    for where in ("team-c", "team-a"):
        rights.refused(Feature.RESTARTS, where)
    rights.lacks("met", Feature.RESTARTS, "team-c")
    assert rights.refusals(asking).get(Feature.RESTARTS, ()) == expected


def test_the_right_to_taint_is_one_for_all_nodes() -> None:
    rights = Rights(SystemClock(), Metrics())
    rights.refused(Feature.TAINTS)
    assert rights.refusals(policy("p", **TAINTS)) == {Feature.TAINTS: ("",)}
    assert rights.refusals(policy("p", taint="None")) == {}


def shown(metrics: Metrics, feature: Feature) -> float:
    return float(metrics.rights_missing.labels(feature.value)._value.get())


def test_a_refusal_that_is_met_again_and_again_is_kept_and_then_forgotten() -> None:
    clock, metrics = MovedClock(), Metrics()
    rights = Rights(clock, metrics)
    for _ in range(5):
        rights.refused(Feature.TAINTS)
        # The queue tries again after five minutes at most.
        clock.ahead_s += 300.0
        rights.keep([policy("p", **TAINTS)], is_tainted=False)
        assert shown(metrics, Feature.TAINTS) == 1
    clock.ahead_s += FORGOTTEN_S
    rights.keep([policy("p", **TAINTS)], is_tainted=False)
    assert shown(metrics, Feature.TAINTS) == 0


def test_what_nobody_asks_for_any_more_is_forgotten_and_the_rest_is_kept() -> None:
    metrics = Metrics()
    rights = Rights(SystemClock(), metrics)
    rights.refused(Feature.TAINTS)
    for where in ("team-a", "team-b"):
        rights.refused(Feature.RESTARTS, where)
    rights.keep([restarting("p", namespaces=["team-b"])], is_tainted=True)
    assert rights.refusals() == {Feature.RESTARTS: ("team-b",), Feature.TAINTS: ("",)}
    rights.keep([policy("p")], is_tainted=False)
    assert rights.refusals() == {}
    assert shown(metrics, Feature.TAINTS) == shown(metrics, Feature.RESTARTS) == 0


# On the API server --------------------------------------------------------------------------


def condition(api: FakeApi, name: str, kind: str) -> dict[str, Any]:
    status = (api.find("gpucdipolicies", name) or {}).get("status", {})
    found = [item for item in status.get("conditions", []) if item["type"] == kind]
    return found[0] if found else {}


def restarts(api: FakeApi, name: str) -> object:
    return condition(api, name, "PodRestartsAllowed").get("reason")


def missing(operator: Operator, feature: Feature) -> bool:
    return shown(operator.metrics, feature) == 1


def no_eviction(_user: str, target: Target) -> bool:
    return target.subresource != "eviction"


def no_taint(_user: str, target: Target) -> bool:
    return not (target.resource.plural == "nodes" and target.verb == "patch")


def teams(scene: Scene, chosen: dict[str, dict[str, Any]]) -> None:
    """Give each team a node that resolves and a policy of its own."""
    for team, restart in chosen.items():
        scene.node(f"node-{team}", labels={"team": team})
        scene.agent_says(f"node-{team}", fresh(drifted=False))
        selector = {"matchLabels": {"team": team}}
        scene.policy(team, nodeSelector=selector, restartWaitingPods={**AT_ONCE, **restart})


def fails(scene: Scene, team: str, namespace: str) -> None:
    """Let a Pod fail on a team's node, which resolves only then."""
    pod = scene.failing_pod(f"of-{team}", f"node-{team}", owner="ReplicaSet", namespace=namespace)
    scene.agent_says(f"node-{team}", fresh(drifted=False))
    scene.warn(pod, MESSAGE)


async def test_only_the_policy_for_a_namespace_says_what_is_missing_there_until_it_is_gone(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    teams(scene, {"a": {"namespaces": ["team-a"]}, "b": {"namespaces": ["team-b"]}})
    api.authorizer = no_eviction
    async with start(**QUICKLY) as operator:
        fails(scene, "a", "team-a")
        await eventually(lambda: restarts(api, "a") == "RightMissing")
        await eventually(lambda: restarts(api, "b") == "Enabled")
        assert missing(operator, Feature.RESTARTS)
        api.remove("gpucdipolicies", "a")
        await eventually(lambda: not missing(operator, Feature.RESTARTS))
    assert restarts(api, "b") == "Enabled"


async def test_a_namespace_that_is_taken_out_of_the_policy_is_forgotten(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    teams(scene, {"a": {"namespaces": ["team-a"]}})
    api.authorizer = no_eviction
    async with start(**QUICKLY) as operator:
        fails(scene, "a", "team-a")
        await eventually(lambda: restarts(api, "a") == "RightMissing")
        teams(scene, {"a": {"namespaces": ["other"]}})
        await eventually(lambda: restarts(api, "a") == "Enabled")
        assert not missing(operator, Feature.RESTARTS)


async def test_of_policies_that_choose_by_labels_those_say_so_whose_pods_were_refused(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    teams(scene, {"a": EVERY, "b": EVERY})
    api.put("namespaces", {"metadata": {"name": "shared"}})
    api.authorizer = no_eviction
    # The second one is refused without a request: within this time one has asked for all.
    async with start(**{**QUICKLY, "right_asked_again_s": 3600.0}):
        fails(scene, "a", "shared")
        await eventually(lambda: restarts(api, "a") == "RightMissing")
        await eventually(lambda: restarts(api, "b") == "Enabled")
        fails(scene, "b", "shared")
        await eventually(lambda: restarts(api, "b") == "RightMissing")
    assert len(api.requests("create", plural="pods")) == 1


@pytest.mark.parametrize("ending", ["dropped", "deleted"])
async def test_without_a_policy_that_taints_no_right_to_taint_is_missing(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, ending: str
) -> None:
    for number in range(5):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", fresh(drifted=False))
    scene.policy("p", **TAINTS)
    api.authorizer = no_taint
    async with start(**QUICKLY) as operator:
        scene.agent_says("n0", fresh(drifted=True))
        await eventually(
            lambda: condition(api, "p", "TaintsAllowed").get("reason") == "RightMissing"
        )
        assert missing(operator, Feature.TAINTS)
        if ending == "dropped":
            scene.policy("p", taint="None")
        else:
            api.remove("gpucdipolicies", "p")
        await eventually(lambda: not missing(operator, Feature.TAINTS))


async def test_a_taint_that_may_not_be_removed_shows_the_missing_right_without_a_policy(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number in range(5):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", fresh(drifted=number == 0))
    scene.policy("p", **TAINTS)

    def tainted() -> bool:
        return is_tainted(api.find("nodes", "n0") or {})

    async with start(**QUICKLY) as operator:
        await eventually(tainted)
        await eventually(lambda: operator.store.nodes["n0"].tainted)
        api.authorizer = no_taint
        api.remove("gpucdipolicies", "p")
        await eventually(lambda: missing(operator, Feature.TAINTS))
        for _ in range(3):
            await operator.governor.look()
            assert missing(operator, Feature.TAINTS)
        api.authorizer = None

        def removed_when_tried() -> bool:
            operator.node_queue.add("n0")
            return not tainted()

        await eventually(removed_when_tried)
        await eventually(lambda: not missing(operator, Feature.TAINTS))


async def test_a_right_that_was_granted_when_nothing_is_left_to_taint_is_missed_no_longer(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    for number in range(5):
        scene.node(f"n{number}")
        scene.agent_says(f"n{number}", fresh(drifted=False))
    scene.policy("p", **TAINTS)
    api.authorizer = no_taint

    def told() -> object:
        return condition(api, "p", "TaintsAllowed").get("reason")

    async with start(**QUICKLY) as operator:
        scene.agent_says("n0", fresh(drifted=True))
        await eventually(lambda: told() == "RightMissing")
        scene.agent_says("n0", fresh(drifted=False))
        await eventually(lambda: (scene.condition("n0") or {}).get("status") == "False")
        await eventually(lambda: not operator.nodes.rulings["n0"].taint)
        await eventually(lambda: operator.node_queue.is_idle)
        api.authorizer = None
        patched = len(api.requests("patch", plural="nodes"))
        operator.rights.forgotten_s = 0.5
        await eventually(lambda: told() == "Enabled")
        assert not missing(operator, Feature.TAINTS)
        assert len(api.requests("patch", plural="nodes")) == patched

"""When a policy's status is written: as soon as anything differs from what stands there, else never."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh
from tests.fakeapi.server import FakeApi

from gpucdi_operator.app import Operator


def status(api: FakeApi, name: str = "p") -> dict[str, Any]:
    found: dict[str, Any] = (api.find("gpucdipolicies", name) or {}).get("status", {})
    return found


def governed(api: FakeApi, name: str = "p") -> int:
    count: int = status(api, name).get("nodes", {}).get("governed", -1)
    return count


def written(api: FakeApi) -> int:
    return len(api.requests("apply", plural="gpucdipolicies"))


async def settled(operator: Operator, api: FakeApi, eventually: Eventually) -> None:
    """Wait until the operator knows the policy as it stands there, and looked at it."""

    def version() -> int:
        return int((api.find("gpucdipolicies", "p") or {})["metadata"]["resourceVersion"])

    await eventually(lambda: operator.store.policies["p"].version == version())
    await operator.governor.look()


async def test_a_status_that_somebody_overwrote_is_put_right(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=False))
    scene.policy("p")
    async with start() as operator:
        await eventually(lambda: governed(api) == 1)
        await settled(operator, api, eventually)
        right = status(api)
        wrongs: list[dict[str, Any]] = [
            {"nodes": {**right["nodes"], "governed": 77}},
            {"nodes": {}},
            {"observedGeneration": 99},
            {"conditions": []},
        ]
        for wrong in wrongs:
            body = api.find("gpucdipolicies", "p") or {}
            api.put("gpucdipolicies", {**body, "status": {**right, **wrong}})
            await eventually(lambda: _without_times(status(api)) == _without_times(right))


def _without_times(status: dict[str, Any]) -> dict[str, Any]:
    conditions = [{**item, "lastTransitionTime": ""} for item in status.get("conditions", [])]
    return {**status, "conditions": conditions}


async def test_what_another_says_beside_us_is_no_reason_to_write_again_and_again(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=False))
    scene.policy("p")
    theirs = {"type": "Theirs", "status": "True", "reason": "R", "message": "m"}
    theirs["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    async with start() as operator:
        await eventually(lambda: governed(api) == 1)
        body = api.find("gpucdipolicies", "p") or {}
        said = {**body["status"], "conditions": [*body["status"]["conditions"], theirs]}
        api.put("gpucdipolicies", {**body, "status": said})
        await settled(operator, api, eventually)
        await settled(operator, api, eventually)
        api.log.clear()
        for _ in range(5):
            await operator.governor.look()
        assert written(api) == 0
        assert theirs in status(api)["conditions"]


async def test_a_change_of_the_leader_over_which_nothing_differs_writes_to_no_policy(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    scene.policy("p", taint="NoSchedule", repair={"maxConcurrent": 1})
    scene.policy("q", priority=-1)
    async with start() as operator:
        await eventually(lambda: governed(api) == 1)
        await eventually(lambda: governed(api, "q") == 0)
        await settled(operator, api, eventually)
    api.log.clear()
    async with start("replica-2") as operator:
        await eventually(lambda: operator.elector.is_leader and operator.nodes.rulings)
        for _ in range(3):
            await operator.governor.look()
            await asyncio.sleep(0)
        assert written(api) == 0

"""An hour in which nothing changes: nothing is written but the leader's Lease.

The hour is the operator's: every interval of it is shortened alike, and it has passed when the full
lists have come round six times. Meanwhile kubelets beat and Pods fail for reasons that are not ours.
"""

from __future__ import annotations

import asyncio
from dataclasses import fields as fields_of
from itertools import count

from tests.controller.conftest import Eventually, Start
from tests.controller.scene import Scene, fresh
from tests.fakeapi.server import FakeApi, Logged

from gpucdi_operator.options import Timing

SPEED = 180.0
WRITES = ("apply", "create", "patch", "update", "delete")
# Who leads does not hang on the shortened time, or a slow machine would lose the Lease.
LASTING = frozenset({"lease_s", "renew_s", "fence_margin_s", "watch_idle_s"})
SHORTENED = {
    item.name: getattr(Timing(), item.name) / SPEED
    for item in fields_of(Timing)
    if item.name not in LASTING
}
LONG_S = 86_400


def settle_the_fleet(scene: Scene) -> None:
    """Make a fleet that has something of everything that lasts."""
    scene.policy("auto", nodeSelector={"matchLabels": {"pool": "a"}}, taint="NoSchedule",
                 repair={"maxConcurrent": 2})  # fmt: skip
    scene.policy("observe", nodeSelector={"matchLabels": {"pool": "b"}}, repair={"mode": "Observe"})
    for number in range(24):
        name, drifted = f"n{number:02d}", number % 4 == 0
        scene.node(name, labels={"pool": "abc"[number % 3]})
        scene.agent_says(name, fresh(drifted=drifted))
        scene.lease(name, duration_s=LONG_S)
        if drifted:
            scene.failing_pod(f"pod-{name}", name, event=False)
            scene.pod_runs(f"pod-{name}")
    scene.lease("n01", age_s=3600, duration_s=1)


def written(api: FakeApi) -> list[Logged]:
    return [entry for entry in api.requests(*WRITES) if entry.plural != "leases"]


async def bustle(scene: Scene, numbers: count[int]) -> None:
    """Let kubelets beat, and Pods fail and go that ask for no device."""
    while True:
        number = next(numbers)
        body = scene.api.find("nodes", f"n{number % 24:02d}")
        assert body is not None
        ready = next(item for item in body["status"]["conditions"] if item["type"] == "Ready")
        ready["lastHeartbeatTime"] = f"2026-01-01T00:00:{number % 60:02d}Z"
        scene.api.put("nodes", body)
        pod = scene.failing_pod(f"other-{number}", "n02", event=False)
        scene.warn(pod, f'Failed to pull image "registry/app:{number}": not found')
        scene.pod_runs(f"other-{number}")
        scene.api.remove("pods", f"other-{number}", "default")
        await asyncio.sleep(0.05)


async def quiet(api: FakeApi, seconds: float) -> None:
    """Wait until nothing has been written for so long."""
    while True:
        api.log.clear()
        await asyncio.sleep(seconds)
        if not written(api):
            return


async def test_an_hour_in_which_nothing_changes_writes_nothing(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    settle_the_fleet(scene)
    async with start(**SHORTENED):
        await eventually(lambda: (scene.condition("n01") or {}).get("status") == "Unknown")
        numbers = count()
        bustling = asyncio.create_task(bustle(scene, numbers))
        async with asyncio.timeout(120):
            await quiet(api, 600.0 / SPEED)
        api.log.clear()
        await eventually(lambda: len(api.requests("list", plural="runtimeclasses")) >= 6)
        bustling.cancel()
        assert written(api) == []
    assert next(numbers) > 20
    assert api.requests("list", plural="pods") != []

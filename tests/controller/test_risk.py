"""Pods at risk: what a status tells of missing names, and when the Pods of a node are counted."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
import yaml
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import C00, KIND, UUID, Scene, node_status
from tests.fakeapi.server import FakeApi

from gpucdi.api import GpuDevice, GpuStatus, Intent, KindStatus, MissingNames, write_status
from gpucdi.api.status_json import NAMES_SHOWN
from gpucdi.findings import Cause
from gpucdi.node.kinds import device_names
from gpucdi_operator.diagnosing import is_at_risk
from gpucdi_operator.store import StatusRecord, Store

GPUS = 12
INVENTORY = GpuStatus(
    "nvml",
    "570.86.15",
    "12.8",
    tuple(
        GpuDevice(uuid_of, n, n)
        for n, uuid_of in enumerate(UUID[:-2] + f"{n:02}" for n in range(GPUS))
    ),
)
# "0", the first UUID, "1", the second UUID, ..., "all": what an agent expects, in its order.
NAMES = device_names(INVENTORY, Intent("gpu-17"))
DAY_S = 86_400.0


def asks(device: str) -> dict[str, Any]:
    """Return a Pod that runs and asks for a device by its environment."""
    body: dict[str, Any] = yaml.safe_load((C00 / "pod.yaml").read_text())
    body["metadata"]["annotations"] = {}
    container = body["spec"]["containers"][0]
    container["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": device}]
    return body


def at_risk(device: str, missing: tuple[str, ...], **kind: Any) -> bool:
    """Tell whether a Pod is at risk where these names of a node are missing."""
    status = node_status(drifted=True)
    shown = KindStatus(
        KIND,
        kind.pop("referenced_by", ("nvidia",)),
        managed=True,
        expected=kind.pop("expected", len(NAMES)),
        resolvable=len(NAMES) - len(missing),
        missing=MissingNames(len(missing), missing[:NAMES_SHOWN]),
        **kind,
    )
    status = replace(status, gpus=INVENTORY, kinds=(shown,))
    record = StatusRecord("gpu-17", "u", Intent("gpu-17"), status, has_status=True)
    return is_at_risk(asks(device), Store({}, {"gpu-17": record}, {"nvidia": "nvidia"}))


def test_the_names_of_this_test_are_more_than_a_status_shows() -> None:
    assert len(NAMES) == 2 * GPUS + 1 > NAMES_SHOWN + 2
    assert NAMES[-1] == "all"


@pytest.mark.parametrize("device", NAMES)
def test_where_no_name_resolves_each_is_missing_listed_or_not(device: str) -> None:
    assert at_risk(device, NAMES)


@pytest.mark.parametrize("device", NAMES)
def test_where_only_all_resolves_every_other_is_missing(device: str) -> None:
    assert at_risk(device, NAMES[:-1], cause=Cause.ONLY_ALL_DEVICE) is (device != "all")


@pytest.mark.parametrize("device", NAMES)
def test_where_all_behind_the_listed_is_missing_it_is_known_of_each(device: str) -> None:
    # The first six resolve; of the others sixteen are listed, and all that follow are missing.
    assert at_risk(device, NAMES[6:]) is (device in NAMES[6:])


def test_a_name_of_which_the_status_does_not_tell_is_not_guessed() -> None:
    resolve = {NAMES[0], NAMES[-2]}
    missing = tuple(name for name in NAMES if name not in resolve)
    assert at_risk(missing[0], missing)
    assert not at_risk(NAMES[0], missing)
    # One of the names behind the listed ones resolves, and the status does not say which.
    assert not at_risk(NAMES[-2], missing)
    assert not at_risk(NAMES[-1], missing)


def test_one_name_that_resolves_without_being_all_is_not_taken_for_missing() -> None:
    missing = tuple(name for name in NAMES if name != NAMES[-2])
    assert not at_risk(NAMES[-2], missing, cause=Cause.SPEC_LACKS_DEVICE)


def test_of_a_kind_that_is_merely_checked_only_uuids_are_known_to_be_missing() -> None:
    status = node_status(drifted=True)
    gpus = tuple(
        replace(item, uuid=UUID[:-2] + f"{n:02}")
        for n, item in enumerate(GpuDevice("", n, n) for n in range(20))
    )
    names = tuple(gpu.uuid for gpu in gpus)
    checked = KindStatus(
        "nvidia.com/gpu", expected=20, resolvable=0, missing=MissingNames(20, names[:NAMES_SHOWN])
    )
    inventory = replace(INVENTORY, devices=gpus)
    status = replace(status, gpus=inventory, kinds=(*node_status(drifted=False).kinds, checked))
    record = StatusRecord("gpu-17", "u", Intent("gpu-17"), status, has_status=True)
    store = Store({}, {"gpu-17": record}, {"nvidia": "nvidia"})
    assert is_at_risk(asks(f"nvidia.com/gpu={names[-1]}"), store)
    assert not is_at_risk(asks("nvidia.com/gpu=19"), store)
    assert not is_at_risk(asks("nvidia.com/gpu=all"), store)


# When it is counted -----------------------------------------------------------------------------


def shown(api: FakeApi, name: str) -> object:
    return (api.find("gpucdistatuses", name) or {})["status"].get("podsAtRisk")


def says(scene: Scene, api: FakeApi, name: str, *, drifted: bool) -> None:
    """Publish as the agent does: what others have written into the status stays."""
    count = shown(api, name)
    body = api.find("gpucdistatuses", name)
    assert body is not None
    kept = {} if count is None else {"podsAtRisk": count}
    status = {**write_status(node_status(drifted=drifted)), **kept}
    api.put("gpucdistatuses", {**body, "status": status})
    scene.lease(name)


async def test_a_node_that_begins_to_drift_is_counted_and_taken_back_without_the_list_of_all(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    scene.failing_pod("runs", "n1", event=False)
    scene.pod_runs("runs")
    async with start(pod_resync_s=DAY_S, risk_settle_s=0.1) as operator:
        await eventually(lambda: operator.elector.is_leader and scene.condition("n1"))
        assert api.requests("list", plural="pods") == []
        says(scene, api, "n1", drifted=True)
        await eventually(lambda: shown(api, "n1") == 1)
        says(scene, api, "n1", drifted=False)
        await eventually(lambda: shown(api, "n1") is None)
        assert len(api.requests("list", plural="pods")) == 1


async def test_missing_names_that_change_are_counted_anew(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    drifted = node_status(drifted=True)
    (kind,) = drifted.kinds
    other = replace(kind, missing=MissingNames(1, ("0",)), resolvable=2)
    scene.agent_says("n1", replace(drifted, kinds=(other,)))
    scene.failing_pod("runs", "n1", event=False)
    scene.pod_runs("runs")
    async with start(pod_resync_s=DAY_S, risk_settle_s=0.1):
        await eventually(lambda: shown(api, "n1") == 0)
        says(scene, api, "n1", drifted=True)
        await eventually(lambda: shown(api, "n1") == 1)


async def test_many_nodes_that_drift_at_once_are_listed_one_after_the_other(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    names = [f"n{number}" for number in range(30)]
    for name in names:
        scene.node(name)
        scene.agent_says(name, node_status(drifted=False))
    async with start(pod_resync_s=DAY_S, risk_settle_s=0.1, risk_interval_s=DAY_S) as operator:
        await eventually(lambda: all(scene.condition(name) for name in names))
        for drifted in (True, False, True):
            for name in names:
                says(scene, api, name, drifted=drifted)
        await eventually(lambda: len(operator.store.drifted()) == len(names))
        await eventually(lambda: api.requests("list", plural="pods"))
        await asyncio.sleep(1)
        assert len(api.requests("list", plural="pods")) == 1


async def test_a_node_that_flaps_is_listed_once_it_has_settled(
    scene: Scene, start: Start, eventually: Eventually, api: FakeApi
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=False))
    async with start(pod_resync_s=DAY_S, risk_settle_s=DAY_S) as operator:
        await eventually(lambda: operator.elector.is_leader and scene.condition("n1"))
        waiting = operator.fleet.node_pods._drifting
        for drifted in (True, False, True, False):
            says(scene, api, "n1", drifted=drifted)
            await eventually(lambda: ("n1" in waiting) is drifted)  # noqa: B023  # waited for at once
    assert api.requests("list", plural="pods") == []

"""What failing Pods ask for: bounded as a whole, at rest when full, and never in a policy's way."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import KIND, Scene, node_status
from tests.fakeapi.controlplane import ROOT
from tests.fakeapi.server import FakeApi, Logged

from gpucdi.api import NameRequest
from gpucdi_operator.asked import (
    ASKED_S,
    NAME_CHARACTERS,
    REQUEST_BYTES,
    REQUEST_KINDS,
    REQUEST_NAMES,
    Asked,
)
from gpucdi_operator.asked import KIND as KIND_PATTERN

Requests = tuple[NameRequest, ...]


def some(kinds: Iterable[int], names: Iterable[int] = (0,), length: int = 1) -> Requests:
    named = tuple(f"{number}".rjust(length, "n") for number in names)
    return tuple(NameRequest(f"a.com/k{kind}", named) for kind in kinds)


def size(requests: Iterable[NameRequest]) -> int:
    return sum(len("".join((item.kind, *item.names)).encode()) for item in requests)


def asks(requests: Iterable[NameRequest]) -> set[tuple[str, str]]:
    return {(item.kind, name) for item in requests for name in item.names}


# The bounds ---------------------------------------------------------------------------------


def _runs(starts: int, *lengths: int) -> st.SearchStrategy[range]:
    both = st.tuples(st.integers(0, starts), st.sampled_from(lengths))
    return both.map(lambda run: range(run[0], run[0] + run[1]))


MANY_KINDS = st.builds(some, _runs(60, 1, 30, 70), _runs(3, 0, 1, 3), st.sampled_from([1, 250]))
MANY_NAMES = st.builds(some, _runs(4, 1, 4), _runs(200, 1, 60, 300), st.sampled_from([1, 250]))
ASKS = st.lists(MANY_KINDS | MANY_NAMES, min_size=1, max_size=4)


@settings(max_examples=60)
@given(ASKS, ASKS)
def test_whatever_stands_there_and_is_asked_for_it_is_bounded_and_comes_to_rest(
    written: list[Requests], wanted: list[Requests]
) -> None:
    kinds: dict[str, dict[str, None]] = {}
    for item in (item for requests in written for item in requests):
        kinds.setdefault(item.kind, {}).update(dict.fromkeys(item.names))
    present = tuple(NameRequest(kind, tuple(names)) for kind, names in kinds.items())
    asked = Asked()
    for more in wanted:
        present = asked.ask(present, more, 0.0)
        assert len(present) <= REQUEST_KINDS
        assert max((len(item.names) for item in present), default=0) <= REQUEST_NAMES
        assert size(present) <= REQUEST_BYTES
    for more in (*wanted, *wanted):
        assert asked.ask(present, more, 1.0) == present
        assert asked.over(present, 1.0) == present


def test_what_is_asked_for_already_keeps_its_order() -> None:
    present = some(range(3), range(5))
    assert Asked().ask(present, [NameRequest("a.com/k1", ("2", "0"))], 0.0) == present


def test_a_kind_that_somebody_wrote_without_names_stays() -> None:
    present = (NameRequest("a.com/k0", ()), *some([1]))
    found = Asked().ask(present, some([2]), 0.0)
    assert found == (*present, *some([2]))


@pytest.mark.parametrize(
    ("full", "newcomer"),
    [
        (some(range(64)), some([64])),
        (some([0], range(256)), some([0], [256])),
        (some(range(8), range(32), 255), some([9], range(9), 250)),
    ],
)
def test_what_is_asked_for_still_is_not_given_up_for_something_new(
    full: Requests, newcomer: Requests
) -> None:
    asked = Asked()
    assert asked.ask((), full, 0.0) == full
    for now in range(0, int(3 * ASKED_S), 600):
        found = asked.ask(full, newcomer, now)
        assert asks(found) >= asks(full)
        assert asked.ask(found, full, now) == found
        assert asked.ask(found, newcomer, now + 1) == found


def test_a_newcomer_gets_the_room_of_what_was_not_asked_for_in_an_hour() -> None:
    asked = Asked()
    present = asked.ask((), some(range(64)), 0.0)
    for now in range(0, int(ASKED_S), 300):
        assert asked.ask(present, some(range(1, 65)), now) == present
    found = asked.ask(present, some([64]), ASKED_S)
    assert asks(found) == asks(some(range(1, 65)))
    # The other one is a newcomer itself by now.
    assert asked.ask(found, some([0]), ASKED_S + 1) == found


def test_after_a_start_or_a_long_silence_everything_gets_the_time_to_be_asked_for_again() -> None:
    full, newcomer, asked = some(range(64)), some([64]), Asked()
    for begin in (0.0, 10 * ASKED_S):
        for after_s in range(0, int(ASKED_S), 600):
            assert asked.ask(full, newcomer, begin + after_s) == full
    assert newcomer[0] in asked.ask(full, newcomer, 11 * ASKED_S)


def test_a_name_that_a_person_took_out_is_not_put_back_because_it_once_stood_there() -> None:
    asked = Asked()
    present = asked.ask(some([0], [7]), some([1]), 0.0)
    assert asks(present) == asks((*some([0], [7]), *some([1])))
    assert asked.ask(some([1]), some([1]), 1.0) == some([1])


def test_the_bounds_of_requests_are_those_of_the_schema() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "gpucdistatuses.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    requests = schema["properties"]["spec"]["properties"]["requests"]
    item = requests["items"]["properties"]
    assert requests["maxItems"] == REQUEST_KINDS
    assert item["names"]["maxItems"] == REQUEST_NAMES
    assert item["names"]["items"]["maxLength"] == NAME_CHARACTERS
    for kind in ("a.com/b", "a/b", "é/x", "a.com", "a.com/b-", "a/b\n", "", f"a/{'b' * 255}"):
        fits = re.search(item["kind"]["pattern"].replace("$", r"\Z"), kind) is not None
        assert bool(KIND_PATTERN.fullmatch(kind)) is (fits and len(kind) <= 256)


# On the API server --------------------------------------------------------------------------


def requested(scene: Scene, node: str = "n1") -> Requests:
    found: list[Mapping[str, Any]] = scene.spec(node).get("requests", [])
    return tuple(NameRequest(item["kind"], tuple(item["names"])) for item in found)


def mode(scene: Scene) -> object:
    return scene.spec("n1")["repair"]["mode"]


def specs_written(api: FakeApi) -> list[Logged]:
    written = api.requests("apply", plural="gpucdistatuses")
    return [entry for entry in written if not entry.subresource]


async def test_names_that_the_schema_refuses_do_not_hide_the_others(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start() as operator:
        wanted = [
            NameRequest(KIND, ("x" * 300, "", "fits")),
            NameRequest("no kind", ("y",)),
            NameRequest("übel/gpu", ("z",)),
        ]
        assert operator.nodes.request("n1", wanted)
        operator.node_queue.add("n1")
        await eventually(lambda: requested(scene) == (NameRequest(KIND, ("fits",)),))


async def test_more_pods_than_there_is_room_for_come_to_rest(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start(pod_resync_s=0.5) as operator:
        for number in range(REQUEST_KINDS + 6):
            text = (
                "failed to create containerd container: CDI device injection failed: "
                f"unresolvable CDI devices a{number}.tenant.com/gpu=0"
            )
            waiting = {"reason": "CreateContainerError", "message": text}
            pod = scene.pending_pod(f"tenant-{number}", "n1", **waiting)
            scene.warn(pod, f"Error: {text}")
        everyone = REQUEST_KINDS + 6
        await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == everyone)
        await eventually(lambda: len(requested(scene)) == REQUEST_KINDS)
        await eventually(lambda: operator.node_queue.is_idle)
        api.log.clear()
        await eventually(lambda: len(api.requests("list", plural="pods")) >= 4)
        assert specs_written(api) == []


async def test_a_policy_reaches_a_node_whose_pods_ask_for_without_end(
    scene: Scene, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    async with start() as operator:
        await eventually(lambda: "n1" in operator.nodes.rulings)
        for part in range(8):
            names = range(part * 32, part * 32 + 32)
            operator.nodes.request("n1", some(range(REQUEST_KINDS), names, 250))
        operator.node_queue.add("n1")
        scene.policy("p", repair={"mode": "Off"})
        await eventually(lambda: mode(scene) == "Off")
        await eventually(lambda: requested(scene))
        assert size(requested(scene)) <= REQUEST_BYTES
        assert len(json.dumps(scene.spec("n1"))) < 2 * REQUEST_BYTES


async def test_a_spec_that_somebody_filled_shrinks_to_its_bound_and_the_policy_is_in_it(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    body = api.find("gpucdistatuses", "n1") or {}
    filled = some(range(REQUEST_KINDS), range(60), 250)
    asked = [{"kind": item.kind, "names": list(item.names)} for item in filled]
    api.put("gpucdistatuses", {**body, "spec": {**body["spec"], "requests": asked}})
    assert size(requested(scene)) > 10 * REQUEST_BYTES
    scene.policy("p", repair={"mode": "Off"})
    async with start() as operator:
        await eventually(lambda: mode(scene) == "Off")
        await eventually(lambda: 0 < size(requested(scene)) <= REQUEST_BYTES)
        await eventually(lambda: operator.node_queue.is_idle)
        # What a Pod asks for now goes before what only stands there, once that is an hour old.
        before = requested(scene)
        operator.nodes.request("n1", some([99], range(9), 250))
        operator.node_queue.add("n1")
        await operator.nodes.reconcile("n1")
        assert requested(scene) == before


async def test_names_that_the_server_refuses_keep_no_policy_from_the_node(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    scene.node("n1")
    scene.agent_says("n1", node_status(drifted=True))
    fault = api.faults.add(422, verbs=["apply"], plurals=["gpucdistatuses"], telling=b"refused")
    async with start() as operator:
        await eventually(lambda: "n1" in operator.nodes.rulings)
        operator.nodes.request("n1", [NameRequest(KIND, ("refused",))])
        scene.policy("p", repair={"mode": "Off"})
        await eventually(lambda: mode(scene) == "Off")
        assert fault.met
        assert requested(scene) == ()
        api.faults.clear()
        operator.node_queue.add("n1")
        await eventually(lambda: requested(scene) == (NameRequest(KIND, ("refused",)),))
        assert mode(scene) == "Off"

"""Which waiting Pods a repair restarts: the decision, then on the fake API server."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from tests.controller.accounts import operators
from tests.controller.conftest import Eventually, Start
from tests.controller.scene import C00, KIND, MESSAGE, UUID, Scene, fresh, owned_by
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.server import FakeApi, Target

from gpucdi.api import Hold, Intent, RepairMode
from gpucdi.api.policy import BreakerState, BreakerStatus
from gpucdi_kube import Credentials, HttpKubeApi, KubeError, KubeObject, paths
from gpucdi_kube.clock import SystemClock
from gpucdi_kube.errors import error_of
from gpucdi_operator.app import Operator
from gpucdi_operator.diagnosing import Explanation, explain
from gpucdi_operator.events import Note, Recorder
from gpucdi_operator.leader import NotLeadingError
from gpucdi_operator.metrics import Metrics
from gpucdi_operator.options import Options
from gpucdi_operator.policies import Ruling
from gpucdi_operator.restarter import MINUTE_S, Rate
from gpucdi_operator.restarts import Restart, Why, decide, resolved_since
from gpucdi_operator.store import StatusRecord, Store

NOW = datetime(2026, 7, 29, 9, 0, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=1)
AFTER, SETTLE = timedelta(minutes=6), timedelta(seconds=30)
GONE = "GPU-99999999-b7e4-8cb0-69a8-40490ce01a2f"


def record(**changes: Any) -> StatusRecord:
    status = replace(fresh(drifted=False, since=SINCE), **changes)
    return StatusRecord("gpu-17", "u", Intent("gpu-17"), status, has_status=True)


def pod(**meta: Any) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((C00 / "pod.yaml").read_text())
    body["metadata"]["ownerReferences"] = [owned_by("ReplicaSet")]
    body["metadata"].update(meta)
    return body


def failing(body: dict[str, Any]) -> tuple[Explanation, ...]:
    store = Store(statuses={"gpu-17": record()}, handlers={"nvidia": "nvidia"})
    return explain(body, (), store)


def judged(body: dict[str, Any]) -> Restart | None:
    return decide(body, failing(body), SINCE, after=AFTER, settle=SETTLE)


def never(body: dict[str, Any], phase: str = "Running") -> dict[str, Any]:
    """Return the Pod under restartPolicy Never: a helper runs, the container has ended."""
    container = body["status"]["containerStatuses"][0]
    container["state"] = container.pop("lastState")
    helper = {"name": "helper", "state": {"running": {}}, "ready": True}
    body["status"]["containerStatuses"].append(helper)
    body["spec"]["restartPolicy"] = "Never"
    body["status"]["phase"] = phase
    return body


def asking(body: dict[str, Any], uuid: str) -> dict[str, Any]:
    told = body["status"]["containerStatuses"][0]["lastState"]["terminated"]
    told["message"] = told["message"].replace(UUID, uuid)
    return body


def test_a_pod_in_back_off_is_left_to_kubelet_for_as_long_as_the_policy_says() -> None:
    expected = Restart(Why.STILL_WAITS, SINCE + AFTER, "ReplicaSet trainer", "ubuntu-container")
    assert judged(pod()) == expected


def test_a_container_that_kubelet_never_starts_again_does_not_wait_for_the_policys_time() -> None:
    body = never(pod(ownerReferences=[owned_by("Job", "batch/v1")]))
    expected = Restart(Why.NEVER_STARTED_AGAIN, SINCE + SETTLE, "Job trainer", "ubuntu-container")
    assert judged(body) == expected


def test_names_that_were_chosen_for_the_pod_and_are_gone_need_a_new_pod() -> None:
    body = asking(pod(), GONE)
    assert not failing(body)[0].diagnosis.resolved_now
    found = judged(body)
    assert found is not None
    assert (found.why, found.not_before) == (Why.NAMES_FIXED, SINCE + AFTER)


def test_names_that_the_pods_own_template_asks_for_would_be_asked_for_again() -> None:
    body = asking(pod(), GONE)
    body["spec"]["containers"][0]["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": GONE}]
    assert judged(body) is None
    body = asking(pod(annotations={}), GONE)
    body["spec"].update(schedulerName="default-scheduler")
    body["spec"]["containers"][0].pop("resources")
    assert judged(body) is None


def debug_only(body: dict[str, Any]) -> None:
    status = body["status"]
    status["ephemeralContainerStatuses"] = status.pop("containerStatuses")


def something_else_too(body: dict[str, Any]) -> None:
    other = copy.deepcopy(body["status"]["containerStatuses"][0])
    other["name"] = "other"
    other["lastState"]["terminated"]["message"] = (
        "failed to create containerd task: failed to create shim task: OCI runtime create failed: "
        "could not apply required modification to OCI specification: error modifying OCI spec: "
        "failed to inject CDI devices: failed to inject devices: failed to stat CDI host device "
        '"/dev/nvidia9": no such file or directory'
    )
    body["status"]["containerStatuses"].append(other)


def of(**meta: Any) -> Callable[[dict[str, Any]], None]:
    return lambda body: body["metadata"].update(meta)


def ready(body: dict[str, Any]) -> None:
    body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(of(ownerReferences=[]), id="a bare Pod"),
        pytest.param(
            of(ownerReferences=[{**owned_by("ReplicaSet"), "controller": False}]),
            id="an owner that does not control",
        ),
        pytest.param(
            of(ownerReferences=[owned_by("Workflow", "argoproj.io/v1alpha1")]),
            id="an owner that makes no other",
        ),
        pytest.param(
            of(ownerReferences=[owned_by("ReplicaSet", "example.com/v1")]),
            id="a kind of the same name in another group",
        ),
        pytest.param(
            of(ownerReferences=[owned_by("Node", "v1")]),
            id="a mirror Pod by its owner",
        ),
        pytest.param(of(annotations={"kubernetes.io/config.mirror": "x"}), id="a mirror Pod"),
        pytest.param(of(annotations={"kubernetes.io/config.source": "file"}), id="a static Pod"),
        pytest.param(of(deletionTimestamp="2026-07-29T08:59:59Z"), id="a Pod that is going"),
        pytest.param(of(creationTimestamp="2026-07-29T08:59:30Z"), id="a Pod made since"),
        pytest.param(of(creationTimestamp=None), id="a Pod of unknown age"),
        pytest.param(ready, id="a Pod that is ready"),
        pytest.param(debug_only, id="a person's debug container"),
        pytest.param(something_else_too, id="another failure beside it"),
        pytest.param(lambda body: never(body, "Failed"), id="a Pod that has ended"),
    ],
)
def test_these_pods_are_left_alone(change: Callable[[dict[str, Any]], object]) -> None:
    body = pod()
    assert judged(body) is not None
    change(body)
    assert judged(body) is None


def resolved(
    item: StatusRecord | None = None,
    ruling: Ruling | None = None,
    state: BreakerState = BreakerState.CLOSED,
    *,
    silent: bool = False,
) -> datetime | None:
    return resolved_since(
        item or record(),
        ruling or Ruling("p", RepairMode.AUTO),
        BreakerStatus(state),
        silent=silent,
        now=NOW,
    )


def test_a_nodes_pods_may_be_restarted_since_its_names_resolve() -> None:
    assert resolved() == SINCE
    assert resolved(state=BreakerState.RECOVERING) == SINCE


def test_waiting_for_a_turn_to_repair_is_no_reason_to_let_pods_wait() -> None:
    turn = Hold("AwaitingTurn")
    waiting = replace(record(hold=turn), intent=Intent("gpu-17", hold=turn))
    assert resolved(waiting, Ruling("p", RepairMode.AUTO, turn)) == SINCE


def test_a_node_whose_clock_is_ahead_counts_from_now() -> None:
    status = fresh(drifted=False, since=NOW + timedelta(hours=3))
    assert resolved(replace(record(), status=status)) == NOW


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(lambda: resolved(replace(record(), status=fresh(drifted=True))), id="drifted"),
        pytest.param(lambda: resolved(record(conditions=())), id="nothing told"),
        pytest.param(lambda: resolved(silent=True), id="silent"),
        pytest.param(lambda: resolved(record(hold=Hold("Disputed"))), id="held by its agent"),
        pytest.param(
            lambda: resolved(ruling=Ruling("p", RepairMode.AUTO, Hold("DriverUpgrade"))),
            id="held by a label",
        ),
        pytest.param(
            lambda: resolved(replace(record(), intent=Intent("n", hold=Hold("ByHand")))),
            id="held by a person",
        ),
        pytest.param(lambda: resolved(ruling=Ruling("p", RepairMode.OFF)), id="switched off"),
        pytest.param(lambda: resolved(state=BreakerState.OPEN), id="breaker open"),
        pytest.param(lambda: resolved(state=BreakerState.HALF_OPEN), id="breaker half open"),
    ],
)
def test_on_these_nodes_no_pod_is_restarted(asked: Callable[[], datetime | None]) -> None:
    assert asked() is None


@given(st.integers(1, 5), st.lists(st.floats(0, 30), max_size=40))
def test_in_no_minute_more_are_restarted_than_the_policy_says(
    limit: int, pauses: list[float]
) -> None:
    rate, now, done = Rate(), 0.0, list[float]()
    for pause in pauses:
        now += pause
        if rate.wait_s(limit, now) <= 0:
            rate.at.append(now)
            done.append(now)
    for number, moment in enumerate(done):
        assert sum(moment - MINUTE_S < other <= moment for other in done[: number + 1]) <= limit


@given(st.integers(1, 5), st.integers(0, 20))
def test_a_rate_that_is_used_up_says_when_to_come_again(limit: int, tries: int) -> None:
    rate, now = Rate(), 0.0
    for _ in range(tries):
        now += rate.wait_s(limit, now)
        assert rate.wait_s(limit, now) == 0
        rate.at.append(now)
    assert now == pytest.approx(MINUTE_S * (max(tries - 1, 0) // limit))


# On the API server --------------------------------------------------------------------------

QUICKLY = {"restart_settle_s": 0.0, "restart_later_s": 0.3, "right_asked_again_s": 0.3}


def going(api: FakeApi) -> set[str]:
    return {
        body["metadata"]["name"]
        for body in api.all("pods")
        if "deletionTimestamp" in body["metadata"]
    }


def evictions(api: FakeApi) -> list[str]:
    found = [entry for entry in api.requests("create", plural="pods") if entry.code == 201]
    return sorted(entry.name for entry in found if entry.subresource == "eviction")


def prepared(scene: Scene, *names: str, **restarts: Any) -> None:
    """Let Pods fail on a drifted node that then resolves, under a policy that restarts at once."""
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    chosen = {"namespaces": ["default"], "perMinute": 100, "afterSeconds": 0, **restarts}
    scene.policy("p", restartWaitingPods=chosen)
    for name in names:
        scene.failing_pod(name, "n1", owner="ReplicaSet")


def condition(api: FakeApi) -> dict[str, Any]:
    status = (api.find("gpucdipolicies", "p") or {}).get("status", {})
    found = status.get("conditions", [])
    return next((item for item in found if item["type"] == "PodRestartsAllowed"), {})


async def test_a_waiting_pod_is_evicted_once_after_its_node_resolves_and_is_told(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    uid = (api.find("pods", "waits", "default") or {})["metadata"]["uid"]
    async with start(**QUICKLY) as operator:
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        await eventually(lambda: condition(api).get("reason") == "Enabled")
        await asyncio.sleep(1)
        assert going(api) == set()
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: scene.events("CdiPodRestarted"))
        assert going(api) == {"waits"}
        counted = operator.metrics.restarted.labels("StillWaits")
        await eventually(lambda: counted._value.get() == 1)
        api.remove("pods", "waits", "default")
        await eventually(lambda: not operator.pods.tracks)
    event = scene.events("CdiPodRestarted")[0]
    assert event["involvedObject"]["uid"] == uid
    assert "ReplicaSet trainer makes it anew" in event["message"]
    assert evictions(api) == ["waits"]
    assert [entry for entry in api.requests("delete") if entry.plural == "pods"] == []


async def test_pods_without_a_maker_or_in_other_namespaces_wait_for_kubelet(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    scene.failing_pod("bare", "n1")
    scene.failing_pod("elsewhere", "n1", owner="ReplicaSet", namespace="other")
    async with start(**QUICKLY):
        await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == 3)
        looked = len(api.requests("get", plural="pods"))
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: scene.events("CdiPodRestarted"))
        await eventually(lambda: len(api.requests("get", plural="pods")) > looked + 12)
    assert evictions(api) == ["waits"]


async def test_without_a_policy_that_asks_for_it_no_pod_is_restarted(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    scene.policy("p")
    async with start(**QUICKLY):
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        looked = len(api.requests("get", plural="pods"))
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: len(api.requests("get", plural="pods")) > looked + 4)
    assert evictions(api) == []


async def test_the_rate_of_a_policy_holds_over_all_pods_and_a_change_of_the_leader(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    names = [f"waits-{number}" for number in range(5)]
    prepared(scene, *names, perMinute=2)
    scene.agent_says("n1", fresh(drifted=False))
    clock_at = asyncio.get_running_loop().time
    async with start(**QUICKLY):
        await eventually(lambda: len(evictions(api)) == 2)
        began = clock_at()
        await eventually(lambda: len(scene.events("CdiPodRestarted")) == 2)
    async with start("replica-2", **QUICKLY) as operator:
        await eventually(lambda: operator.pods.restarter.warm)
        looked = len(api.requests("get", plural="pods"))
        await eventually(lambda: len(api.requests("get", plural="pods")) > looked + 10)
        # On a machine so slow that the minute is over, more may have gone.
        assert len(evictions(api)) == 2 or clock_at() - began > MINUTE_S / 2
    assert len(set(evictions(api))) == len(evictions(api))


async def test_a_replica_that_does_not_lead_evicts_nobody(api: FakeApi, scene: Scene) -> None:
    scene.failing_pod("waits", "n1", owner="ReplicaSet")
    operator = Operator(Options(http="127.0.0.1:0"), Credentials(api.url))
    with pytest.raises(NotLeadingError):
        await operator.evicting.create(paths.pod_eviction("default", "waits"), {})
    for client in (operator.api, operator.evicting, operator.elector.api):
        await client.close()
    assert api.requests() == []


async def test_a_disruption_budget_that_is_used_up_means_later(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene)
    scene.failing_pod("waits", "n1", owner="ReplicaSet", labels={"app": "trainer"})
    spec = {"selector": {"matchLabels": {"app": "trainer"}}}
    meta = {"name": "budget", "namespace": "default"}
    status = {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 1}
    budget = {"metadata": meta, "spec": spec, "status": status}
    api.put("poddisruptionbudgets", budget)
    scene.agent_says("n1", fresh(drifted=False))
    async with start(**QUICKLY) as operator:
        refused = operator.metrics.restarts_refused.labels("DisruptionBudget")
        await eventually(lambda: refused._value.get() >= 2)
        assert going(api) == set()
        assert scene.events("CdiPodRestarted") == []
        api.put("poddisruptionbudgets", {**budget, "status": {**status, "disruptionsAllowed": 1}})
        await eventually(lambda: going(api) == {"waits"})
        await eventually(lambda: scene.events("CdiPodRestarted"))


async def test_namespaces_can_be_chosen_by_their_labels(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene)
    selector = {"matchLabels": {"team": "research"}}
    scene.policy("p", restartWaitingPods={"namespaceSelector": selector, "afterSeconds": 0})
    for name, team in (("research", "research"), ("other", "sales")):
        api.put("namespaces", {"metadata": {"name": name, "labels": {"team": team}}})
        scene.failing_pod(f"waits-{name}", "n1", owner="ReplicaSet", namespace=name)
    scene.agent_says("n1", fresh(drifted=False))
    async with start(**QUICKLY):
        await eventually(lambda: scene.events("CdiPodRestarted"))
        looked = len(api.requests("get", plural="pods"))
        await eventually(lambda: len(api.requests("get", plural="pods")) > looked + 4)
    assert evictions(api) == ["waits-research"]


async def test_a_held_node_keeps_its_pods_until_the_hold_ends(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    label = "nvidia.com/gpu-driver-upgrade-state"
    prepared(scene, "waits")
    scene.node("n1", labels={label: "drain-required"})
    scene.agent_says("n1", fresh(drifted=False))
    async with start(**QUICKLY):
        await eventually(lambda: "hold" in scene.spec("n1")["repair"])
        await eventually(lambda: len(api.requests("get", plural="pods")) > 4)
        assert going(api) == set()
        scene.node("n1", labels={label: "upgrade-done"})
        await eventually(lambda: going(api) == {"waits"})


async def test_an_answer_that_is_lost_leads_to_one_eviction_and_one_event(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    scene.agent_says("n1", fresh(drifted=False))
    fault = api.faults.add(verbs=["create"], plurals=["pods"], lose=True, times=1)
    async with start(**QUICKLY):
        await eventually(lambda: scene.events("CdiPodRestarted"))
    assert fault.met == 1
    assert len(scene.events("CdiPodRestarted")) == 1
    assert len(api.requests("create", plural="pods")) == 1


async def test_an_event_that_cannot_be_written_is_written_later(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    async with start(**QUICKLY):
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        fault = api.faults.add(403, verbs=["create"], plurals=["events"])
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: fault.met)
        api.faults.clear()
        scene.agent_says("n1", replace(fresh(drifted=False), kinds=()))
        await eventually(lambda: scene.events("CdiPodRestarted"))
    assert evictions(api) == ["waits"]


async def test_an_event_about_another_name_with_the_pods_uid_does_not_say_that_it_was_evicted(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    scene.agent_says("n1", fresh(drifted=False))
    fault = api.faults.add(503, verbs=["create"], plurals=["pods"])
    async with start(**QUICKLY) as operator:
        await eventually(lambda: fault.met)
        pod = api.find("pods", "waits", "default") or {}
        scene.warn({**pod, "metadata": {**pod["metadata"], "name": "other"}}, MESSAGE)
        await eventually(lambda: [e for e in api.requests("get") if e.name == "other"])
        await eventually(lambda: [key.name for key in operator.pods.tracks] == ["waits"])
    assert scene.events("CdiPodRestarted") == []


class Going(HttpKubeApi):
    """A connection on which no Event can be created any more; it says so as the API server does."""

    def __init__(self, url: str, error: KubeError) -> None:
        super().__init__(Credentials(url))
        self.error, self.met = error, 0

    async def create(self, path: str, body: KubeObject) -> KubeObject:
        """Refuse Events."""
        if not path.endswith("/events"):
            return await super().create(path, body)
        self.met += 1
        raise self.error


IS_GONE = error_of(
    404,
    {"reason": "NotFound", "message": 'namespaces "default" not found'},
    request="create /apis/events.k8s.io/v1/namespaces/default/events",
)
GOES = error_of(
    403,
    {
        "reason": "Forbidden",
        "message": 'events.events.k8s.io "waits.0" is forbidden: unable to create new content in '
        "namespace default because it is being terminated",
    },
    request="create /apis/events.k8s.io/v1/namespaces/default/events",
)


@pytest.mark.parametrize("error", [IS_GONE, GOES])
async def test_what_cannot_be_told_in_a_namespace_that_goes_is_told_nobody_and_ends(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, error: KubeError
) -> None:
    prepared(scene, "waits", "runs")
    async with start(**QUICKLY) as operator:
        await eventually(lambda: len(scene.events("CdiDeviceUnresolvable")) == 2)
        connection = Going(api.url, error)
        operator.pods.recorder.api = connection
        scene.pod_runs("runs")
        scene.agent_says("n1", fresh(drifted=False))
        await eventually(lambda: going(api) == {"waits"})
        await eventually(lambda: connection.met >= 2)
        api.remove("pods", "waits", "default")
        await eventually(lambda: not operator.pods.tracks)
        failures = operator.metrics.failures.labels("pod")
        assert failures._value.get() == 0
        await connection.close()
    assert evictions(api) == ["waits"]


@pytest.mark.parametrize("error", [IS_GONE, GOES])
async def test_why_a_pod_fails_is_told_nobody_in_a_namespace_that_goes(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually, error: KubeError
) -> None:
    scene.node("n1")
    scene.agent_says("n1", fresh(drifted=True))
    async with start(pod_resync_s=0.5) as operator:
        connection = Going(api.url, error)
        operator.pods.recorder.api = connection
        scene.failing_pod("fails", "n1")
        scene.failing_pod("listed", "n1", event=False)
        await eventually(lambda: operator.pods.failing == 2)
        await eventually(lambda: operator.pod_queue.is_idle)
        met, listed = connection.met, len(api.requests("list", plural="pods"))
        await eventually(lambda: len(api.requests("list", plural="pods")) >= listed + 3)
        assert connection.met == met
        for name in ("fails", "listed"):
            api.remove("pods", name, "default")
        await eventually(lambda: not operator.pods.tracks)
        await connection.close()
    assert scene.events_of_ours() == []


@pytest.mark.lab
@pytest.mark.parametrize("goes", [True, False])
async def test_a_real_server_takes_no_event_into_a_namespace_that_goes_or_is_gone(
    apiserver: ControlPlane, goes: bool
) -> None:
    name = f"goes-{uuid4().hex[:8]}"
    if goes:
        # Without its controller the Namespace stays as it is when its deletion has begun.
        apiserver.kubectl("create", "namespace", name)
        apiserver.kubectl("delete", "namespace", name, "--wait=false")
    connection = HttpKubeApi(operators(apiserver))
    metrics = Metrics()
    recorder = Recorder(connection, SystemClock(), metrics, "replica-1")
    about = pod(name="waits", namespace=name)
    assert not await recorder.record(about, Note("Normal", "CdiPodRestarted", "Evict", "text"))
    await connection.close()
    if goes:
        body = json.loads(apiserver.kubectl("get", "namespace", name, "-o", "json"))
        assert body["status"]["phase"] == "Terminating"
        finalized = json.dumps({**body, "spec": {"finalizers": []}})
        path = f"/api/v1/namespaces/{name}/finalize"
        apiserver.kubectl("replace", "--raw", path, "-f", "-", stdin=finalized)


async def test_a_pod_that_is_made_anew_and_fails_again_is_not_restarted_without_end(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    since = datetime.now(UTC) - timedelta(hours=1)
    scene.agent_says("n1", fresh(drifted=False, since=since))
    async with start(**QUICKLY):
        await eventually(lambda: scene.events("CdiDeviceUnresolvable"))
        looked = len(api.requests("get", plural="pods"))
        await eventually(lambda: len(api.requests("get", plural="pods")) > looked + 4)
    assert evictions(api) == []


async def test_without_the_right_the_policy_says_what_to_grant_and_goes_on_once_it_is(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    def allowed(_user: str, target: Target) -> bool:
        return target.subresource != "eviction" or target.namespace != "default"

    prepared(scene, "waits", namespaces=["default", "granted"])
    scene.failing_pod("goes", "n1", owner="ReplicaSet", namespace="granted")
    scene.agent_says("n1", fresh(drifted=False))
    api.authorizer = allowed
    async with start(**QUICKLY) as operator:
        await eventually(lambda: condition(api).get("reason") == "RightMissing")
        told = condition(api)["message"]
        assert "gpucdi-operator-restarts in default: kubectl create clusterrolebinding" in told
        # Where the right is granted it is used all the same.
        await eventually(lambda: going(api) == {"goes"})
        assert operator.metrics.rights_missing.labels("restarts")._value.get() == 1
        api.authorizer = None
        await asyncio.sleep(0.5)
        scene.warn((api.find("pods", "waits", "default") or {}), MESSAGE)
        await eventually(lambda: len(scene.events("CdiPodRestarted")) == 2)
        await eventually(lambda: condition(api).get("reason") == "Enabled")


async def test_an_admission_policy_that_protects_a_pod_says_nothing_of_our_rights(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene, "waits")
    scene.agent_says("n1", fresh(drifted=False))
    fault = api.faults.add(403, verbs=["create"], plurals=["pods"], times=2)
    async with start(**QUICKLY) as operator:
        await eventually(lambda: going(api) == {"waits"})
        refused = operator.metrics.restarts_refused.labels("Admission")
        assert refused._value.get() == fault.met == 2
        assert operator.metrics.rights_missing.labels("restarts")._value.get() == 0


async def test_a_pod_whose_gpu_is_gone_is_made_anew_once_its_node_resolves(
    scene: Scene, api: FakeApi, start: Start, eventually: Eventually
) -> None:
    prepared(scene)
    body = scene.failing_pod("waits", "n1", owner="StatefulSet", event=False)
    body = api.put("pods", asking(copy.deepcopy(body), GONE))
    scene.agent_says("n1", fresh(drifted=False))
    async with start(**QUICKLY):
        scene.warn(body, MESSAGE.replace(UUID, GONE))
        await eventually(lambda: scene.events("CdiPodRestarted"))
    assert "chosen at its admission" in scene.events("CdiPodRestarted")[0]["message"]
    assert f"{KIND}={GONE}" in scene.events("CdiDeviceUnresolvable")[0]["message"]

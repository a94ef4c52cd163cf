"""The same questions to the fake and to a real API server: where they differ, the fake is wrong."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from gpucdi.api import fields
from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from gpucdi_kube.clock import rfc3339_micro
from gpucdi_kube.errors import AlreadyExists, Conflict, Invalid, NotFound, TooManyRequests

OURS = "GpuCdiUnresolvable"


def meta(body: KubeObject | None) -> dict[str, object]:
    return dict(fields.mapping(body, "metadata"))


def conditions(body: KubeObject | None) -> dict[str, str]:
    found = fields.objects(fields.mapping(body, "status"), "conditions")
    return {fields.text(item, "type"): fields.text(item, "status") for item in found}


def condition(kind: str, status: str) -> dict[str, object]:
    return {
        "type": kind,
        "status": status,
        "reason": "Test",
        "message": "told",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


def node_patch(name: str, *entries: dict[str, object]) -> KubeObject:
    status = {"status": {"conditions": list(entries)}} if entries else {}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, **status}


def gpu_status(name: str, **body: object) -> KubeObject:
    return {
        "apiVersion": "gpucdi.io/v1alpha1",
        "kind": "GpuCdiStatus",
        "metadata": {"name": name},
        **body,
    }


async def make_node(api: KubeApi, name: str) -> KubeObject:
    made = await api.create(
        paths.NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}}
    )
    await api.patch(
        paths.node_status(name),
        {"status": {"conditions": [condition("Ready", "True")]}},
        content_type=STRATEGIC_PATCH,
    )
    return made


async def make_status(api: KubeApi, name: str) -> KubeObject:
    return await api.create(paths.STATUSES, gpu_status(name, spec={"nodeName": name}))


async def test_a_created_object_has_uid_version_and_first_generation(
    api: KubeApi, name: str
) -> None:
    made = meta(await make_status(api, name))
    assert made["uid"]
    assert str(made["resourceVersion"]).isdecimal()
    assert made["generation"] == 1


async def test_a_name_can_be_taken_once(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    with pytest.raises(AlreadyExists):
        await make_status(api, name)


async def test_what_is_deleted_is_gone(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    await api.delete(paths.gpu_cdi_status(name))
    assert await api.get(paths.gpu_cdi_status(name)) is None
    await api.delete(paths.gpu_cdi_status(name))


async def test_defaults_are_filled_in_and_unknown_fields_pruned(api: KubeApi, name: str) -> None:
    made = await api.create(paths.STATUSES, gpu_status(name, spec={"nodeName": name, "new": 1}))
    assert made["spec"] == {"nodeName": name, "repair": {"mode": "Observe"}}


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        ({"nodeName": "another"}, "metadata.name must be the name of the Node: write another"),
        ({}, "spec.nodeName"),
        ({"repair": {"mode": "Sometimes"}}, "Unsupported value"),
        ({"kinds": {"extra": ["no-slash"]}}, "should match"),
        ({"requests": [{"names": ["x"]}]}, "Required value"),
    ],
)
async def test_a_spec_that_breaks_the_schema_is_refused_in_words(
    api: KubeApi, name: str, spec: dict[str, object], told: str
) -> None:
    full = spec if "nodeName" in spec or not spec else {"nodeName": name, **spec}
    with pytest.raises(Invalid, match=told):
        await api.create(paths.STATUSES, gpu_status(name, spec=full))


async def test_a_status_object_stays_with_its_node(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    with pytest.raises(Invalid):
        await api.patch(
            paths.gpu_cdi_status(name),
            {"spec": {"nodeName": "another"}},
            content_type=MERGE_PATCH,
        )


async def test_status_goes_through_its_own_door_only(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    main, status = paths.gpu_cdi_status(name), paths.gpu_cdi_status_status(name)
    both = gpu_status(
        name,
        spec={"nodeName": name, "repair": {"mode": "Auto"}},
        status={"state": "Drifted"},
    )
    answer = await api.apply(status, both, field_manager="agent", force=True)
    assert fields.mapping(answer["spec"], "repair")["mode"] == "Observe"
    assert answer["status"] == {"state": "Drifted"}
    assert meta(answer)["generation"] == 1
    both["status"] = {"state": "Resolved"}
    answer = await api.apply(main, both, field_manager="operator", force=True)
    assert fields.mapping(answer["spec"], "repair")["mode"] == "Auto"
    assert answer["status"] == {"state": "Drifted"}
    assert meta(answer)["generation"] == 2


async def test_applying_what_is_there_changes_no_version(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    body = gpu_status(name, status={"state": "Drifted"})
    path = paths.gpu_cdi_status_status(name)
    first = await api.apply(path, body, field_manager="agent", force=True)
    second = await api.apply(path, body, field_manager="agent", force=True)
    assert meta(first)["resourceVersion"] == meta(second)["resourceVersion"]


async def test_our_condition_comes_and_goes_without_touching_others(
    api: KubeApi, name: str
) -> None:
    await make_node(api, name)
    path = paths.node_status(name)
    ours = node_patch(name, condition(OURS, "True"))
    answer = await api.apply(path, ours, field_manager="gpucdi-operator", force=True)
    assert conditions(answer) == {"Ready": "True", OURS: "True"}
    answer = await api.apply(path, node_patch(name), field_manager="gpucdi-operator", force=True)
    assert conditions(answer) == {"Ready": "True"}


async def test_our_condition_leaves_the_others_however_often_it_goes(
    api: KubeApi, name: str
) -> None:
    await make_node(api, name)
    path = paths.node_status(name)
    for entries in ((), (condition(OURS, "True"),), (), (condition(OURS, "True"),)):
        await api.apply(path, node_patch(name, *entries), field_manager="ours", force=True)
    answer = await api.apply(path, node_patch(name), field_manager="ours", force=True)
    assert conditions(answer) == {"Ready": "True"}


async def unclaimed_node(api: KubeApi, name: str) -> None:
    """Register a Node as kubelet does: what a Node is created with belongs to no manager."""
    body = node_patch(name, condition("Ready", "True"))
    body["metadata"] = {"name": name, "labels": {"zone": "a"}}
    await api.create(paths.NODES, body)
    ours = node_patch(name, condition(OURS, "True"))
    answer = await api.apply(paths.node_status(name), ours, field_manager="ours", force=True)
    assert conditions(answer) == {"Ready": "True", OURS: "True"}


async def test_whoever_applies_its_only_condition_no_more_takes_those_that_nobody_owns(
    api: KubeApi, name: str
) -> None:
    await unclaimed_node(api, name)
    answer = await api.apply(paths.node_status(name), node_patch(name), field_manager="ours")
    assert conditions(answer) == {}


async def test_one_condition_can_be_deleted_beside_those_that_nobody_owns(
    api: KubeApi, name: str
) -> None:
    await unclaimed_node(api, name)
    removal = {"status": {"conditions": [{"$patch": "delete", "type": OURS}]}}
    for _ in range(2):
        answer = await api.patch(paths.node_status(name), removal, content_type=STRATEGIC_PATCH)
        assert conditions(answer) == {"Ready": "True"}


async def test_another_manager_needs_force_for_our_field(api: KubeApi, name: str) -> None:
    await make_node(api, name)
    path = paths.node_status(name)
    await api.apply(path, node_patch(name, condition(OURS, "True")), field_manager="one")
    other = node_patch(name, condition(OURS, "False"))
    with pytest.raises(Conflict, match='conflict with "one"'):
        await api.apply(path, other, field_manager="two")
    answer = await api.apply(path, other, field_manager="two", force=True)
    assert conditions(answer)[OURS] == "False"


async def test_a_shared_field_stays_while_one_manager_applies_it(api: KubeApi, name: str) -> None:
    await make_node(api, name)
    path, ours = paths.node_status(name), node_patch(name, condition(OURS, "True"))
    await api.apply(path, ours, field_manager="one")
    await api.apply(path, ours, field_manager="two")
    answer = await api.apply(path, node_patch(name), field_manager="one")
    assert OURS in conditions(answer)
    answer = await api.apply(path, node_patch(name), field_manager="two")
    assert OURS not in conditions(answer)


async def test_what_a_person_set_survives_our_apply_of_other_fields(
    api: KubeApi, name: str
) -> None:
    await make_status(api, name)
    path = paths.gpu_cdi_status(name)
    await api.patch(path, {"spec": {"repair": {"mode": "Auto"}}}, content_type=MERGE_PATCH)
    requests = [{"kind": "a/b", "names": ["x"]}]
    answer = await api.apply(
        path,
        gpu_status(name, spec={"nodeName": name, "requests": requests}),
        field_manager="gpucdi-operator",
        force=True,
    )
    assert answer["spec"] == {
        "nodeName": name,
        "repair": {"mode": "Auto"},
        "requests": requests,
    }


async def test_a_hold_has_one_owner_and_goes_as_a_whole(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    path, person = paths.gpu_cdi_status(name), {"reason": "Maintenance", "message": "until Monday"}
    await api.patch(path, {"spec": {"repair": {"hold": person}}}, content_type=MERGE_PATCH)
    for repair in ({"mode": "Auto", "hold": {"reason": "MigChange"}}, {"mode": "Auto"}):
        body = gpu_status(name, spec={"nodeName": name, "repair": repair})
        answer = await api.apply(path, body, field_manager="gpucdi-operator", force=True)
        assert answer["spec"] == {"nodeName": name, "repair": repair}


async def test_names_that_are_applied_take_the_place_of_those_that_were_there(
    api: KubeApi, name: str
) -> None:
    await make_status(api, name)
    path = paths.gpu_cdi_status(name)
    many = [{"kind": "a/b", "names": [f"n{number}" for number in range(256)]}]
    await api.patch(path, {"spec": {"requests": many}}, content_type=MERGE_PATCH)
    requests = [{"kind": "a/b", "names": ["x", "y"]}]
    answer = await api.apply(
        path,
        gpu_status(name, spec={"nodeName": name, "requests": requests}),
        field_manager="gpucdi-operator",
        force=True,
    )
    repair = {"mode": "Observe"}
    assert answer["spec"] == {"nodeName": name, "repair": repair, "requests": requests}


async def test_apply_makes_an_object_but_no_status_of_a_missing_one(
    api: KubeApi, name: str
) -> None:
    with pytest.raises(NotFound):
        await api.apply(
            paths.node_status(name), node_patch(name, condition(OURS, "True")), field_manager="m"
        )
    made = await api.apply(
        paths.gpu_cdi_status(name), gpu_status(name, spec={"nodeName": name}), field_manager="m"
    )
    assert meta(made)["generation"] == 1


async def test_apply_with_a_uid_never_brings_an_object_back(api: KubeApi, name: str) -> None:
    body = gpu_status(name, spec={"nodeName": name})
    body["metadata"] = {"name": name, "uid": "11111111-2222-3333-4444-555555555555"}
    with pytest.raises(Conflict):
        await api.apply(paths.gpu_cdi_status(name), body, field_manager="m", force=True)


async def test_a_replace_needs_the_present_version(api: KubeApi, name: str) -> None:
    body: KubeObject = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"holderIdentity": "a", "leaseDurationSeconds": 10},
    }
    made = await api.create(paths.leases("default"), body)
    path = paths.lease(name, "default")
    await api.replace(path, {**made, "spec": {"holderIdentity": "b", "leaseDurationSeconds": 10}})
    with pytest.raises(Conflict):
        await api.replace(
            path, {**made, "spec": {"holderIdentity": "c", "leaseDurationSeconds": 10}}
        )


async def test_a_json_patch_whose_test_fails_is_refused(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    operations = [{"op": "test", "path": "/spec/nodeName", "value": "no"}]
    with pytest.raises(Invalid):
        await api.patch(paths.gpu_cdi_status(name), operations, content_type=JSON_PATCH)


async def test_lists_come_in_pages_and_in_order(api: KubeApi, name: str) -> None:
    names = [f"{name}-{number}" for number in range(5)]
    for item in reversed(names):
        await make_status(api, item)
    listed = [meta(item)["name"] async for item in api.list(paths.STATUSES, limit=2)]
    assert [item for item in listed if str(item).startswith(name)] == names


async def test_a_custom_field_can_be_selected(api: KubeApi, name: str) -> None:
    for item, state in ((f"{name}-a", "Drifted"), (f"{name}-b", "Resolved")):
        await make_status(api, item)
        await api.apply(
            paths.gpu_cdi_status_status(item),
            gpu_status(item, status={"state": state}),
            field_manager="agent",
        )
    drifted = api.list(paths.STATUSES, field_selector="status.state=Drifted")
    names = [str(meta(item)["name"]) async for item in drifted]
    assert [item for item in names if item.startswith(name)] == [f"{name}-a"]


async def test_a_field_that_cannot_be_selected_is_refused(api: KubeApi) -> None:
    with pytest.raises(Invalid, match="field label not supported"):
        await anext(api.list(paths.PODS, field_selector="spec.runtimeClassName=nvidia"))


async def test_a_watch_without_version_begins_with_what_is_there(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    events = api.watch(paths.STATUSES, field_selector=f"metadata.name={name}", timeout_s=5)
    first = await anext(events)
    assert (first.type, meta(first.object)["name"]) == ("ADDED", name)
    await events.aclose()  # type: ignore[attr-defined]  # every implementation is a generator


async def test_a_watch_from_a_version_tells_what_came_after_it(api: KubeApi, name: str) -> None:
    made = await make_status(api, name)
    path = paths.gpu_cdi_status(name)
    await api.patch(path, {"spec": {"repair": {"mode": "Auto"}}}, content_type=MERGE_PATCH)
    await api.delete(path)
    events = api.watch(
        paths.STATUSES,
        field_selector=f"metadata.name={name}",
        resource_version=str(meta(made)["resourceVersion"]),
        timeout_s=2,
    )
    assert [event.type async for event in events if event.type != "BOOKMARK"] == [
        "MODIFIED",
        "DELETED",
    ]


async def test_what_leaves_a_selector_looks_deleted(api: KubeApi, name: str) -> None:
    await make_status(api, name)
    path = paths.gpu_cdi_status_status(name)
    versions = []
    for state in ("Drifted", "Resolved"):
        answer = await api.apply(
            path, gpu_status(name, status={"state": state}), field_manager="agent"
        )
        versions.append(str(meta(answer)["resourceVersion"]))
    events = api.watch(
        paths.STATUSES,
        field_selector=f"metadata.name={name},status.state=Drifted",
        resource_version=versions[0],
        timeout_s=2,
    )
    found = [event async for event in events if event.type != "BOOKMARK"]
    assert [event.type for event in found] == ["DELETED"]
    assert meta(found[0].object)["resourceVersion"] == versions[1]


def event(name: str, **changes: object) -> KubeObject:
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}},
        "eventTime": rfc3339_micro(datetime.now(UTC)),
        "type": "Warning",
        "reason": "CdiDeviceUnresolvable",
        "action": "Start",
        "note": "told",
        "reportingController": "gpucdi.io/operator",
        "reportingInstance": "replica-1",
        "regarding": {"kind": "Pod", "namespace": "default", "name": name, "uid": "u"},
        **changes,
    }


async def test_an_event_shows_through_both_doors(api: KubeApi, name: str) -> None:
    await api.create(paths.events("default"), event(name))
    core = await api.get(f"/api/v1/namespaces/default/events/{name}")
    assert core is not None
    assert core["message"] == "told"
    assert core["reportingComponent"] == "gpucdi.io/operator"
    assert fields.mapping(core, "involvedObject")["name"] == name
    selected = api.list(paths.events("default"), field_selector="reason=CdiDeviceUnresolvable")
    assert name in [meta(item)["name"] async for item in selected]


@pytest.mark.parametrize(
    "change",
    [
        {"note": "x" * 1025},
        {"type": "Error"},
        {"action": ""},
        {"reportingController": ""},
        {"reportingInstance": "x" * 129},
        {"eventTime": None},
        {"series": {"count": 1, "lastObservedTime": rfc3339_micro(datetime.now(UTC))}},
    ],
    ids=lambda change: next(iter(change)),
)
async def test_an_event_that_breaks_a_rule_is_refused(
    api: KubeApi, name: str, change: dict[str, object]
) -> None:
    with pytest.raises(Invalid):
        await api.create(paths.events("default"), event(name, **change))


async def test_an_event_becomes_a_series_and_nothing_else(api: KubeApi, name: str) -> None:
    await api.create(paths.events("default"), event(name))
    path = paths.event("default", name)
    series = {"count": 2, "lastObservedTime": rfc3339_micro(datetime.now(UTC))}
    answer = await api.patch(path, {"series": series}, content_type=MERGE_PATCH)
    assert fields.mapping(answer, "series")["count"] == 2
    with pytest.raises(Invalid):
        await api.patch(path, {"note": "another"}, content_type=MERGE_PATCH)


async def test_pods_of_one_node_can_be_selected(api: KubeApi, name: str) -> None:
    for item, node in ((f"{name}-a", name), (f"{name}-b", "another")):
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        body: KubeObject = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": item, "namespace": "default"},
            "spec": spec,
        }
        await api.create("/api/v1/namespaces/default/pods", body)
    found = api.list(paths.PODS, field_selector=f"spec.nodeName={name}")
    assert [meta(item)["name"] async for item in found] == [f"{name}-a"]

    async def cached() -> list[object]:
        found = api.list(paths.PODS, field_selector=f"spec.nodeName={name}", cached=True)
        return [meta(item)["name"] async for item in found]

    # What is in memory may be a moment old.
    async with asyncio.timeout(30):
        while not (names := await cached()):  # noqa: ASYNC110  # a server cannot be awaited
            await asyncio.sleep(0.05)
    assert names == [f"{name}-a"]


async def test_fields_that_are_applied_no_more_vanish_with_their_containers(
    api: KubeApi, name: str
) -> None:
    await make_status(api, name)
    path = paths.gpu_cdi_status(name)
    repair = {"mode": "Auto", "hold": {"reason": "DriverUpgrade", "message": "told"}}
    full = {
        "nodeName": name,
        "repair": repair,
        "kinds": {"extra": ["a.com/b"], "strategies": ["uuid"], "none": False},
        "requests": [{"kind": "a.com/b", "names": ["x", "y"]}],
    }
    await api.apply(path, gpu_status(name, spec=full), field_manager="operator", force=True)
    less = gpu_status(name, spec={"nodeName": name, "repair": {"mode": "Auto"}})
    answer = await api.apply(path, less, field_manager="operator", force=True)
    assert answer["spec"] == {"nodeName": name, "repair": {"mode": "Auto"}}
    none = gpu_status(name, spec={"nodeName": name})
    answer = await api.apply(path, none, field_manager="operator", force=True)
    assert answer["spec"] == {"nodeName": name, "repair": {"mode": "Observe"}}


def taint(key: str) -> dict[str, str]:
    return {"key": key, "effect": "NoSchedule"}


def taints_of(body: KubeObject | None) -> list[object]:
    found = fields.objects(fields.mapping(body, "spec"), "taints")
    return [fields.text(item, "key") for item in found]


async def test_the_taints_of_a_node_are_one_list_that_has_one_owner(
    api: KubeApi, name: str
) -> None:
    await make_node(api, name)
    body = node_patch(name)
    first = {**body, "spec": {"taints": [taint("one.io/a")]}}
    await api.apply(paths.node(name), first, field_manager="one", force=True)
    second = {**body, "spec": {"taints": [taint("two.io/b")]}}
    with pytest.raises(Conflict, match="conflict with"):
        await api.apply(paths.node(name), second, field_manager="two")
    answer = await api.apply(paths.node(name), second, field_manager="two", force=True)
    assert taints_of(answer) == ["two.io/b"]


async def test_a_merge_patch_that_names_a_version_is_refused_once_the_object_has_another(
    api: KubeApi, name: str
) -> None:
    await make_node(api, name)
    read = await api.get(paths.node(name))
    version = meta(read)["resourceVersion"]
    # The server's admission has marked the new Node as not ready.
    assert taints_of(read) == ["node.kubernetes.io/not-ready"]
    mine = {"metadata": {"resourceVersion": version}, "spec": {"taints": [taint("one.io/a")]}}
    answer = await api.patch(paths.node(name), mine, content_type=MERGE_PATCH)
    assert taints_of(answer) == ["one.io/a"]
    late = {"metadata": {"resourceVersion": version}, "spec": {"taints": None}}
    with pytest.raises(Conflict):
        await api.patch(paths.node(name), late, content_type=MERGE_PATCH)
    version = meta(answer)["resourceVersion"]
    late["metadata"] = {"resourceVersion": version}
    answer = await api.patch(paths.node(name), late, content_type=MERGE_PATCH)
    assert taints_of(answer) == []
    assert conditions(answer) == {"Ready": "True"}


BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


async def make_pod(api: KubeApi, name: str, *, node: str, phase: str = "Running") -> str:
    """Create a Pod as a scheduler and a kubelet leave it; return its uid."""
    body: KubeObject = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            **({"nodeName": node} if node else {}),
        },
    }
    made = await api.create("/api/v1/namespaces/default/pods", body)
    path = f"{paths.pod('default', name)}/status"
    await api.patch(path, {"status": {"phase": phase}}, content_type=MERGE_PATCH)
    return str(meta(made)["uid"])


async def make_budget(api: KubeApi, name: str, **status: int) -> None:
    body: KubeObject = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
    }
    await api.create(BUDGETS, body)
    counts = {"currentHealthy": 0, "desiredHealthy": 1, "disruptionsAllowed": 0}
    counts |= {"expectedPods": 1, "observedGeneration": 1, **status}
    await api.patch(f"{BUDGETS}/{name}/status", {"status": counts}, content_type=MERGE_PATCH)


def eviction(name: str, uid: str = "") -> KubeObject:
    options = {"preconditions": {"uid": uid}} if uid else {}
    return {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": "default"},
        "deleteOptions": options,
    }


async def test_an_evicted_pod_is_marked_and_stays_until_its_kubelet_has_stopped_it(
    once: KubeApi, name: str
) -> None:
    uid = await make_pod(once, name, node="n1")
    answer = await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    assert answer["status"] == "Success"
    pod = await once.get(paths.pod("default", name))
    assert meta(pod)["deletionTimestamp"]
    assert meta(pod)["deletionGracePeriodSeconds"] == 30
    assert conditions(pod)["DisruptionTarget"] == "True"


@pytest.mark.parametrize(("node", "phase"), [("", "Pending"), ("n1", "Failed")])
async def test_a_pod_that_no_kubelet_runs_is_gone_at_once(
    once: KubeApi, name: str, node: str, phase: str
) -> None:
    uid = await make_pod(once, name, node=node, phase=phase)
    await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    assert await once.get(paths.pod("default", name)) is None


async def test_a_deleted_pod_waits_for_its_kubelet_too(once: KubeApi, name: str) -> None:
    await make_pod(once, name, node="n1")
    await once.delete(paths.pod("default", name))
    assert meta(await once.get(paths.pod("default", name)))["deletionTimestamp"]


async def test_a_pod_whose_kubelet_is_given_no_time_is_gone_at_once(
    once: KubeApi, name: str
) -> None:
    await make_pod(once, name, node="n1")
    await once.delete(f"{paths.pod('default', name)}?gracePeriodSeconds=0")
    assert await once.get(paths.pod("default", name)) is None


async def test_a_pod_of_the_same_name_with_another_uid_is_not_evicted(
    once: KubeApi, name: str
) -> None:
    await make_pod(once, name, node="n1")
    with pytest.raises(Conflict, match=r"the UID in the precondition .another. does not match"):
        await once.create(paths.pod_eviction("default", name), eviction(name, "another"))
    assert "deletionTimestamp" not in meta(await once.get(paths.pod("default", name)))


async def test_a_pod_that_is_gone_cannot_be_evicted(once: KubeApi, name: str) -> None:
    with pytest.raises(NotFound):
        await once.create(paths.pod_eviction("default", name), eviction(name))


async def test_a_budget_that_is_used_up_says_later(once: KubeApi, name: str) -> None:
    uid = await make_pod(once, name, node="n1")
    await make_budget(once, name)
    with pytest.raises(TooManyRequests, match="violate the pod's disruption budget"):
        await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    await once.patch(
        f"{BUDGETS}/{name}/status",
        {"status": {"disruptionsAllowed": 1}},
        content_type=MERGE_PATCH,
    )
    await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    budget = await once.get(f"{BUDGETS}/{name}")
    assert fields.mapping(budget, "status")["disruptionsAllowed"] == 0


async def test_a_pod_that_is_not_ready_may_go_while_enough_others_are(
    once: KubeApi, name: str
) -> None:
    uid = await make_pod(once, name, node="n1")
    await make_budget(once, name, currentHealthy=1)
    await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    assert meta(await once.get(paths.pod("default", name)))["deletionTimestamp"]


async def test_a_pending_pod_asks_no_budget(once: KubeApi, name: str) -> None:
    uid = await make_pod(once, name, node="n1", phase="Pending")
    await make_budget(once, name)
    await once.create(paths.pod_eviction("default", name), eviction(name, uid))
    assert meta(await once.get(paths.pod("default", name)))["deletionTimestamp"]

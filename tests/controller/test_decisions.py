"""What a Node should carry, decided without a cluster."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from tests.controller.scene import node_status

from gpucdi.api import Condition, ConditionStatus, Intent, NodeState, NodeStatus
from gpucdi.api.names import NODE_CONDITION
from gpucdi_operator.decide import difference, node_condition
from gpucdi_operator.store import NodeRecord, StatusRecord, Store

NOW = "2026-01-02T00:00:00Z"


def record(status: NodeStatus, *, has_status: bool = True) -> StatusRecord:
    return StatusRecord("n1", "u", Intent("n1"), status, has_status=has_status)


def decided(status: NodeStatus, *, silent: bool = False) -> Condition:
    found = node_condition(record(status), silent=silent)
    assert found is not None
    return found


def test_on_a_node_true_means_a_problem() -> None:
    assert decided(node_status(drifted=True)).status is ConditionStatus.TRUE
    assert decided(node_status(drifted=True)).reason == "OnlyAllDevice"
    assert decided(node_status(drifted=False)).status is ConditionStatus.FALSE


def test_a_silent_agent_is_unknown_whatever_it_said_last() -> None:
    for drifted in (True, False):
        found = decided(node_status(drifted=drifted), silent=True)
        assert (found.status, found.reason) == (ConditionStatus.UNKNOWN, "AgentSilent")


def test_a_node_without_status_object_carries_nothing() -> None:
    assert node_condition(None, silent=True) is None


def test_an_object_without_status_is_unknown() -> None:
    found = node_condition(record(NodeStatus(), has_status=False), silent=False)
    assert found is not None
    assert found.reason == "NotObserved"


def test_without_the_agents_condition_the_state_decides() -> None:
    drifted = replace(node_status(drifted=True), conditions=())
    assert decided(drifted).status is ConditionStatus.TRUE
    assert decided(NodeStatus(state=NodeState.RESOLVED)).status is ConditionStatus.FALSE
    assert decided(NodeStatus(state=NodeState.UNKNOWN)).status is ConditionStatus.UNKNOWN


@given(st.text(max_size=2000), st.sampled_from(ConditionStatus))
def test_a_message_never_exceeds_its_bytes(text: str, status: ConditionStatus) -> None:
    told = Condition("Resolvable", status, "Reason", text)
    found = decided(NodeStatus(conditions=(told,)))
    assert len(found.message.encode()) <= 512


def test_what_is_there_already_is_not_written() -> None:
    wanted = decided(node_status(drifted=True))
    present = replace(wanted, last_transition_time="2026-01-01T00:00:00Z")
    assert difference(wanted, present, NOW) is None


def test_the_transition_time_stays_while_the_status_does() -> None:
    wanted = decided(node_status(drifted=True))
    present = replace(wanted, reason="Other", last_transition_time="2026-01-01T00:00:00Z")
    change = difference(wanted, present, NOW)
    assert change is not None
    assert change.last_transition_time == "2026-01-01T00:00:00Z"
    change = difference(replace(wanted, status=ConditionStatus.FALSE), present, NOW)
    assert change is not None
    assert change.last_transition_time == NOW


def node(version: str, status: str) -> NodeRecord:
    ours = {"type": NODE_CONDITION, "status": status, "reason": "R", "message": ""}
    return NodeRecord.of(
        {
            "metadata": {"name": "n1", "uid": "u", "resourceVersion": version},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, ours]},
        }
    )


def test_an_older_version_of_an_object_is_ignored() -> None:
    store = Store()
    assert store.put_node(node("12", "True"))
    assert not store.put_node(node("9", "False"))
    kept = store.nodes["n1"].condition
    assert kept is not None
    assert kept.status is ConditionStatus.TRUE


def test_a_heartbeat_is_no_change() -> None:
    store = Store()
    assert store.put_node(node("12", "True"))
    assert not store.put_node(node("13", "True"))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "metadata",
                        "name",
                        "labels",
                        "status",
                        "conditions",
                        "spec",
                        "kinds",
                        "requests",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=20,
    )
)
def test_no_json_breaks_the_reduction_of_an_object(body: object) -> None:
    source = body if isinstance(body, dict) else {"metadata": body}
    NodeRecord.of(source)
    StatusRecord.of(source)

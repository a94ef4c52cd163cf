"""A policy is read without ever failing, and what is wrong in it is its default."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpucdi.api.policy import Policy, RestartConfig, Selector, TaintEffect

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = ["nodeSelector", "repair", "kinds", "restartWaitingPods", "taint", "priority"]
INNER = ["namespaces", "namespaceSelector", "matchLabels", "matchExpressions", "perMinute", "mode"]


@given(st.dictionaries(st.sampled_from(KEYS), JSON | st.dictionaries(st.sampled_from(INNER), JSON)))
def test_no_json_makes_the_reader_of_a_policy_fail(spec: object) -> None:
    found = Policy.from_json("p", spec)
    assert isinstance(found.selects({"a": "b"}), bool)


def test_what_is_off_by_default_is_off_where_it_is_absent_or_wrong() -> None:
    for spec in ({}, {"restartWaitingPods": True, "taint": "NoExecute"}, {"taint": None}):
        found = Policy.from_json("p", spec)
        assert found.restarts is None
        assert found.taint is TaintEffect.NONE


def test_restarts_without_a_namespace_choose_none_and_with_an_empty_selector_all() -> None:
    nowhere = Policy.from_json("p", {"restartWaitingPods": {"perMinute": 3}}).restarts
    assert nowhere == RestartConfig(per_minute=3)
    everywhere = Policy.from_json("p", {"restartWaitingPods": {"namespaceSelector": {}}}).restarts
    assert everywhere == RestartConfig(selector=Selector())
    assert Selector().matches({})

"""What docs/operator.md, docs/agent.md and the runbooks list is what the code and the schema have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml
from tests.fakeapi.controlplane import ROOT

from gpucdi.api import KindStatus, NodeStatus, names
from gpucdi.api.policy import BreakerState
from gpucdi_agent import holds
from gpucdi_agent.metrics import Metrics as AgentMetrics
from gpucdi_operator import policies, policy_status

HOLD_REASON = re.compile(r"[A-Z][A-Za-z]+")
# A table tells of these with the field above them.
SELECTORS = {"matchLabels", "matchExpressions"}


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without its head."""
    section = (ROOT / page).read_text().partition(f"\n{heading}\n")[2]
    lines = section[section.index("|---") :].splitlines()[1:]
    table = lines[: next(at for at, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def fields_of(schema: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every field of a schema that is no object with its default, ``none`` where it has none."""
    for name, inner in schema["properties"].items():
        here = f"{path}{name}"
        if inner["type"] == "object" and not SELECTORS & inner["properties"].keys():
            if "default" not in inner:
                yield here, "none"
            yield from fields_of(inner, f"{here}.")
        else:
            default = inner.get("default", "none")
            yield here, default if isinstance(default, str) else json.dumps(default)


def test_the_page_lists_every_field_of_a_policy_with_its_default() -> None:
    crd = yaml.safe_load((ROOT / "crds" / "gpucdipolicies.yaml").read_text())
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    told = {
        row[0].strip("`"): row[1].partition(", every")[0].strip("`")
        for row in rows("docs/operator.md", "### Fields")
    }
    listed = {
        name: text.replace("[uuid, index]", '["uuid", "index"]') for name, text in told.items()
    }
    assert listed == dict(fields_of(root["spec"]))


def test_the_page_lists_every_condition_and_reason_of_a_policy() -> None:
    table = rows("docs/operator.md", "### Conditions of a policy")
    kinds = {row[0].strip("`") for row in table if row[0]}
    assert kinds == {
        names.CONDITION_GOVERNS,
        names.CONDITION_REPAIRS_ALLOWED,
        names.CONDITION_RESTARTS_ALLOWED,
        names.CONDITION_TAINTS_ALLOWED,
    }
    reasons = {reason for row in table for reason in re.findall(r"`(\w+)`", row[2])}
    written = {value for name, value in vars(policy_status).items() if name.startswith("REASON_")}
    assert written | set(BreakerState) <= reasons


def test_the_page_lists_every_state_of_the_breaker() -> None:
    states = [row[0].strip("`") for row in rows("docs/operator.md", "### Breaker")]
    assert states == list(BreakerState)


def reasons_of_holds() -> set[str]:
    agents = {value for name, value in vars(holds).items() if name.isupper()}
    operators = {value for name, value in vars(policies).items() if name.startswith("HOLD_")}
    texts = {value for value in agents | operators if isinstance(value, str)}
    return {text for text in texts if HOLD_REASON.fullmatch(text)}


def test_the_runbook_has_a_line_for_every_reason_of_a_hold() -> None:
    page = (ROOT / "docs" / "runbooks" / "GpuCdiRepairHeld.md").read_text()
    assert set(re.findall(r"^- `(\w+)`: ", page, re.MULTILINE)) == reasons_of_holds()


def test_the_page_lists_every_metric_of_the_agent_with_type_and_labels() -> None:
    told = {
        name: (row[1], set(re.findall(r"`([a-z]+)`", row[2])))
        for row in rows("docs/agent.md", "## Metrics")
        for name in re.findall(r"`(\w+)`", row[0])
    }
    metrics = AgentMetrics()
    metrics.show(NodeStatus(kinds=(KindStatus("v.com/c", expected=1),)), 0.0)
    metrics.requests.labels("get", "200").inc()
    kept = {
        f"{item.name}_total" if item.type == "counter" else item.name: item.type
        for item in metrics.registry.collect()
    }
    assert {name: kind for name, (kind, _) in told.items()} == kept
    samples = [sample for item in metrics.registry.collect() for sample in item.samples]
    labels = {item.name: set(item.labels) for item in samples if item.name in kept}
    assert {name: found for name, (_, found) in told.items() if name in labels} == labels
    assert {name for name, kind in kept.items() if kind != "histogram"} == labels.keys()

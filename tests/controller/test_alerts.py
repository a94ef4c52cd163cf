"""The alerting rules: promtool judges them, and every metric they name exists in the code."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from tests.fakeapi.controlplane import ROOT

from gpucdi_agent.metrics import RESULTS as AGENT_RESULTS
from gpucdi_agent.metrics import Metrics as AgentMetrics
from gpucdi_agent.transaction import FAILED, REMOVED, ROLLED_BACK, SUCCEEDED
from gpucdi_operator.metrics import REPAIR_RESULTS
from gpucdi_operator.metrics import Metrics as OperatorMetrics
from gpucdi_operator.restarts import Why

MONITORING = ROOT / "manifests" / "monitoring"
CASES = Path(__file__).parent / "alerts" / "rules_test.yaml"
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"?([^",]*)"?')
# kubernetes-mixin's; and what Prometheus adds to every alert (external_labels).
FOREIGN = {"KubePodCrashLooping": {"namespace", "pod", "container", "reason"}}
EXTERNAL = {"cluster"}
HEADINGS = ("## Meaning", "## Impact", "## Diagnosis", "## Mitigation")


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def exposed(registry: CollectorRegistry) -> set[str]:
    names: set[str] = set()
    for metric in registry.collect():
        names |= {metric.name, f"{metric.name}_total"} | {item.name for item in metric.samples}
    return names


def promtool(*arguments: str, folder: Path) -> None:
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("promtool is not on this machine (Debian: prometheus)")
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.lab
def test_promtool_accepts_the_rules() -> None:
    promtool("check", "rules", "rules.yaml", folder=MONITORING)


@pytest.mark.lab
def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    shutil.copy(MONITORING / "rules.yaml", tmp_path)
    shutil.copy(CASES, tmp_path)
    promtool("test", "rules", CASES.name, folder=tmp_path)


def test_each_alert_has_a_case_that_fires_and_one_that_does_not() -> None:
    firing: set[str] = set()
    quiet: set[str] = set()
    for case in yaml.safe_load(CASES.read_text())["tests"]:
        for item in case["alert_rule_test"]:
            (firing if item["exp_alerts"] else quiet).add(item["alertname"])
    assert firing == quiet == {rule["alert"] for rule in rules()}


def test_every_metric_of_a_rule_exists_in_the_code() -> None:
    known = exposed(AgentMetrics().registry) | exposed(OperatorMetrics().registry)
    named = {name for rule in rules() for name in re.findall(r"\bgpucdi_[a-z_]+\b", rule["expr"])}
    # A label-less family without samples still has its name.
    assert named - known == set()


def test_the_document_lists_every_metric_of_the_operator() -> None:
    text = (ROOT / "docs" / "operator.md").read_text()
    table = text.partition("\n## Metrics\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"`(gpucdi_[a-z_]+)", table))
    kept = OperatorMetrics().registry.collect()
    made = {f"{item.name}_total" if item.type == "counter" else item.name for item in kept}
    assert listed == made


def test_every_series_whose_labels_are_known_begins_with_zero() -> None:
    kept = {item.name: item for item in OperatorMetrics().registry.collect()}
    # Which policies there are is not known beforehand.
    empty = {name for name, item in kept.items() if not item.samples} - {"gpucdi_breaker_open"}
    assert empty == set()
    whys = {sample.labels["why"] for sample in kept["gpucdi_pods_restarted"].samples}
    assert whys == set(Why)


def emitted() -> dict[tuple[str, str], set[str]]:
    """Return the values of every (metric, label) of the code; those of enumerations begin with 0."""
    found: dict[tuple[str, str], set[str]] = {}
    for registry in (AgentMetrics().registry, OperatorMetrics().registry):
        for metric in registry.collect():
            for sample in metric.samples:
                for label, value in sample.labels.items():
                    found.setdefault((sample.name, label), set()).add(value)
    daemon_sets = {
        item["metadata"]["name"]
        for item in yaml.safe_load_all((ROOT / "manifests" / "install.yaml").read_text())
        if item["kind"] == "DaemonSet"
    }
    found["kube_daemonset_status_number_unavailable", "daemonset"] = daemon_sets
    return found


def picked(expression: str) -> list[tuple[str, str, str]]:
    """Return metric, label and value of what an expression picks, each alternative by itself."""
    found = []
    for metric, inside in re.findall(r"([a-z_:]+)\{([^}]*)\}", expression):
        for label, operator, text in MATCHER.findall(inside):
            assert operator in {"=", "=~"}
            values = text.split("|") if operator == "=~" else [text]
            found += [(metric, label, value) for value in values]
    return found


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_label_value_that_a_rule_picks_is_one_that_the_code_emits(
    rule: dict[str, Any],
) -> None:
    known = emitted()
    named = picked(rule["expr"])
    assert [item for item in named if item[2] not in known.get(item[:2], set())] == []
    assert len(named) >= rule["expr"].count("{")


def test_the_results_of_repairs_are_the_same_for_agent_operator_and_schema() -> None:
    written = {SUCCEEDED, ROLLED_BACK, FAILED, REMOVED}
    assert set(AGENT_RESULTS) == set(REPAIR_RESULTS) == written
    crd = yaml.safe_load((ROOT / "crds" / "gpucdistatuses.yaml").read_text())
    root = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    repair = root["status"]["properties"]["repairs"]["items"]["properties"]
    assert written <= set(repair["result"]["enum"])


def carried(alert: str) -> set[str]:
    """Return the labels that an alert has when it fires."""
    if alert in FOREIGN:
        return FOREIGN[alert] | EXTERNAL
    rule = next(rule for rule in rules() if rule["alert"] == alert)
    kept = [set(re.split(r",\s*", part)) for part in re.findall(r"by \(([^)]*)\)", rule["expr"])]
    return set.intersection(*kept) | set(rule["labels"]) | EXTERNAL


def inhibitions() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = yaml.safe_load(
        (MONITORING / "alertmanager-inhibit.yaml").read_text()
    )["inhibit_rules"]
    return found


def chosen(matchers: list[str]) -> tuple[set[str], set[str]]:
    """Return the alerts that matchers name, and the other labels that they ask for."""
    read = [MATCHER.fullmatch(matcher) for matcher in matchers]
    parts = [found.groups() for found in read if found is not None]
    assert len(parts) == len(matchers)
    alerts = {name for label, _, text in parts if label == "alertname" for name in text.split("|")}
    return alerts, {label for label, _, _ in parts} - {"alertname"}


@pytest.mark.parametrize("inhibition", inhibitions(), ids=lambda item: item["source_matchers"][0])
def test_an_inhibition_names_alerts_that_exist_and_labels_that_they_carry(
    inhibition: dict[str, Any],
) -> None:
    assert set(inhibition) == {"source_matchers", "target_matchers", "equal"}
    ours = {rule["alert"] for rule in rules()}
    sources, _ = chosen(inhibition["source_matchers"])
    targets, _ = chosen(inhibition["target_matchers"])
    assert sources, "an inhibition without a source would silence for ever"
    assert sources <= ours
    assert targets
    assert targets <= ours | set(FOREIGN)
    assert not sources & targets
    for side in ("source_matchers", "target_matchers"):
        alerts, labels = chosen(inhibition[side])
        # A label that neither carries would be equal too: both are empty.
        asked = labels | set(inhibition["equal"])
        assert [alert for alert in alerts if not asked <= carried(alert)] == []


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_each_alert_says_what_how_bad_and_where_to_read_on(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in {"critical", "warning", "info"}
    notes = rule["annotations"]
    assert set(notes) == {"summary", "description", "runbook_url"}
    page = (ROOT / notes["runbook_url"]).read_text()
    assert page.startswith(f"# {rule['alert']}\n")
    assert [heading for heading in HEADINGS if f"\n{heading}\n" not in page] == []


def test_the_prometheus_rule_is_the_plain_file_wrapped() -> None:
    wrapped = yaml.safe_load((MONITORING / "prometheusrule.yaml").read_text())
    plain = yaml.safe_load((MONITORING / "rules.yaml").read_text())
    assert wrapped["spec"] == plain

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

from gpucdi_agent.metrics import Metrics as AgentMetrics
from gpucdi_operator.metrics import Metrics as OperatorMetrics
from gpucdi_operator.restarts import Why

MONITORING = ROOT / "manifests" / "monitoring"
CASES = Path(__file__).parent / "alerts" / "rules_test.yaml"
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

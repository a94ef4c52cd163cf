"""What the demo works out by itself: which rules hold, how kubectl prints, who has ended."""

from __future__ import annotations

import io
import json
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.demo import alerts, kubectl, page
from tests.demo.stage import CHECKOUT, StageError, _start, set_stage

from gpucdi_cli.console import make_console

DRIFTED = 'gpucdi_node_state{state="Drifted"} 1.0\ngpucdi_node_state{state="Held"} 0.0\n'


def names(text: str, **labels: str) -> list[str]:
    return [alert.name for alert in alerts.judge(alerts.scraped(text, **labels)).active]


def test_a_rule_holds_when_its_series_has_the_value() -> None:
    assert names(DRIFTED) == ["GpuCdiNodeDrifted"]


def test_a_rule_does_not_hold_over_another_value_or_without_its_series() -> None:
    assert names(DRIFTED.replace("1.0", "0.0")) == []
    assert names("") == []


@pytest.mark.parametrize(("count", "holds"), [(0, False), (1, True), (7, True)])
def test_a_rule_that_asks_for_more_than_a_number_gets_it(count: int, *, holds: bool) -> None:
    assert (names(f"gpucdi_pods_failing {count}") == ["GpuCdiPodsFailing"]) is holds


def test_the_greatest_of_a_group_counts_and_each_group_is_an_alert() -> None:
    series = [
        alerts.Series("gpucdi_node_state", {"state": "Drifted", "node": node, "pod": pod}, value)
        for node, pod, value in (("a", "1", 0.0), ("a", "2", 1.0), ("b", "3", 1.0), ("c", "4", 0.0))
    ]
    assert [item.labels for item in alerts.judge(series).active] == [{"node": "a"}, {"node": "b"}]


def test_an_alert_carries_what_its_rule_says() -> None:
    (alert,) = alerts.judge(alerts.scraped(DRIFTED, job="gpucdi-agent", node="n")).active
    groups = yaml.safe_load(alerts.RULES.read_text())["groups"]
    rule = next(item for item in groups[0]["rules"] if item["alert"] == alert.name)
    assert (alert.lasting, alert.summary) == (rule["for"], rule["annotations"]["summary"])
    assert f"({alert.term})" in rule["expr"]
    assert alert.labels == {"job": "gpucdi-agent", "node": "n"}


def test_rules_of_another_form_are_counted_and_not_judged() -> None:
    text = DRIFTED + "gpucdi_operator_leader 0\ngpucdi_repairs_total 3\n"
    found = alerts.judge(alerts.scraped(text))
    assert found.judged == 2
    assert found.rules == len(yaml.safe_load(alerts.RULES.read_text())["groups"][0]["rules"])


def printed(show: object, *arguments: object) -> str:
    assert callable(show)
    file = io.StringIO()
    show(make_console(file), *arguments)
    return file.getvalue()


def test_the_columns_are_those_of_the_definition() -> None:
    definition = yaml.safe_load((CHECKOUT / "crds/gpucdistatuses.yaml").read_text())
    made = datetime.now(UTC) - timedelta(seconds=30)
    item = {
        "metadata": {"name": "n1", "creationTimestamp": made.isoformat()},
        "spec": {"repair": {"mode": "Auto"}},
        "status": {"state": "Resolved", "summary": {"gpus": 8, "kinds": "3/3", "missing": 0}},
    }
    head, row = printed(kubectl.show_table, definition, [item]).splitlines()
    assert head.split() == ["NAME", "STATE", "GPUS", "KINDS", "MISSING", "CAUSE", "REPAIR", "AGE"]
    assert row.split()[:-1] == ["n1", "Resolved", "8", "3/3", "0", "Auto"]
    assert head.index("REPAIR") == row.index("Auto")


def test_a_long_message_is_broken_between_names_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    name = "management.nvidia.com/gpu=GPU-4044aeb5-b7e4-8cb0-69a8-40490ce01a2f"
    event = {"type": "Warning", "reason": "Failed", "message": f"no {name} on this node at all"}
    event["lastTimestamp"] = "2026-07-29T08:00:00Z"
    lines = printed(kubectl.show_events, [event]).splitlines()[2:]
    assert len(lines) > 1
    assert name in [line.strip() for line in lines]


def test_events_of_one_second_are_in_order() -> None:
    kubelets = {"reason": "first", "lastTimestamp": "2026-07-29T08:00:00Z"}
    ours = {"reason": "second", "eventTime": "2026-07-29T08:00:00.400000Z"}
    found = kubectl.in_order([ours, kubelets])
    assert [item["reason"] for item in found] == ["first", "second"]


def test_the_page_keeps_everything_but_times_and_ages() -> None:
    told = (
        "cast\n\n1. One ──\n  Age    From\n  12s    kubelet\n\n2. Two ──\n   12.3 s  agent  done\n"
        "\n3. Three ──\nlong\n\n4. Four ──\nend\n\n9.9 s. gone\nmore\n"
    )
    assert page.excerpt(told).split("\n\n") == [
        "1. One ──\n  Age    From\n  3s     kubelet",
        "2. Two ──\n  agent  done",
        "…",
        "4. Four ──\nend",
    ]


async def test_a_program_that_ends_before_its_time_ends_the_wait(tmp_path: Path) -> None:
    async def never() -> None:
        return None

    async with set_stage(tmp_path) as stage:
        await _start(stage, "agent", [sys.executable, "-c", "exit(3)"], 1)
        with pytest.raises(StageError, match="agent ended with exit code 3"):
            await stage.until("nothing", never)


async def test_the_stage_ends_programs_that_still_run(tmp_path: Path) -> None:
    code = f"import time; open({json.dumps(str(tmp_path / 'up'))}, 'w').close(); time.sleep(600)"

    async def up() -> bool | None:
        return (tmp_path / "up").exists() or None

    async with set_stage(tmp_path) as stage:
        program = await _start(stage, "operator", [sys.executable, "-c", code], 1)
        await stage.until("the program", up)
        assert program.process.returncode is None
    assert program.process.returncode is not None

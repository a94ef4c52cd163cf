"""Which of our alerting rules hold over what the two programs serve, without a Prometheus.

Owns: one form of rule, a metric's maximum compared with a number, and reading it from the rule file.
A rule of any other form, or over a metric that nobody here serves, is not judged; how many were is
part of the answer. Must not know: where the text was scraped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families
from tests.demo.stage import CHECKOUT

RULES = CHECKOUT / "manifests" / "monitoring" / "rules.yaml"
_FORM = re.compile(
    r'max by \((?P<by>[\w, ]+)\) \(\s*(?P<metric>\w+)(?:\{(?P<label>\w+)="(?P<value>[^"]*)"\})?'
    r"\s*\) (?P<compare>==|>) (?P<limit>\d+)"
)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of an exposition, with the labels of the scrape."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Alert:
    """A rule whose expression is true for one group of series.

    ``lasting`` is how long it must stay true before the alert fires, as the rule file writes it.
    """

    name: str
    severity: str
    lasting: str
    summary: str
    term: str
    value: float
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Judged:
    """The alerts that are active, and how many of all rules could be judged."""

    active: tuple[Alert, ...]
    judged: int
    rules: int


def scraped(text: str, **labels: str) -> list[Series]:
    """Read an exposition; ``labels`` are those that the scrape adds."""
    return [
        Series(sample.name, {**labels, **sample.labels}, sample.value)
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    ]


def judge(series: Iterable[Series], rules: Path = RULES) -> Judged:
    """Return what the rule file says of the series."""
    known, active, judged, count = list(series), list[Alert](), 0, 0
    groups = yaml.safe_load(rules.read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        count += 1
        form = _FORM.fullmatch(rule["expr"].strip())
        chosen = [item for item in known if form and _is_meant(form, item)]
        if form and chosen:
            judged += 1
            active += _active(rule, form, chosen)
    return Judged(tuple(active), judged, count)


def _is_meant(form: re.Match[str], series: Series) -> bool:
    label = form["label"]
    return series.name == form["metric"] and (
        label is None or series.labels.get(label) == form["value"]
    )


def _active(rule: Mapping[str, Any], form: re.Match[str], chosen: list[Series]) -> Iterator[Alert]:
    by = [name.strip() for name in form["by"].split(",")]
    groups: dict[tuple[str, ...], float] = {}
    for item in chosen:
        key = tuple(item.labels.get(name, "") for name in by)
        groups[key] = max(item.value, groups.get(key, item.value))
    term, limit = rule["expr"].partition(") (")[2].partition(")")[0].strip(), float(form["limit"])
    for key, value in groups.items():
        if value == limit if form["compare"] == "==" else value > limit:
            yield Alert(
                rule["alert"],
                rule["labels"]["severity"],
                rule.get("for", "0s"),
                rule["annotations"]["summary"],
                term,
                value,
                {name: text for name, text in zip(by, key, strict=True) if text},
            )

"""What an operator in this process has counted. Owns reading its metrics, and nothing of them."""

from __future__ import annotations

from gpucdi_operator.app import Operator


def reads_of_pods(operator: Operator) -> int:
    """Return how many single Pods the operator has asked for."""
    return sum(
        round(sample.value)
        for family in operator.metrics.requests.collect()
        for sample in family.samples
        if sample.name.endswith("_total")
        and (sample.labels["verb"], sample.labels["resource"]) == ("get", "pods")
    )

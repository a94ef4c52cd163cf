"""Optional rights: what the operator was refused, so that a policy can say which one is missing.

Owns: the two features that need more than the operator's own ClusterRole, and when a refused one is
asked for again. A refusal is learnt by trying; it is no error of the operator.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field

from gpucdi_kube import Clock
from gpucdi_kube.errors import Forbidden
from gpucdi_operator.metrics import Metrics

SHOWN = 5


class Feature(enum.StrEnum):
    """What a cluster's administrator grants by a binding of its own."""

    RESTARTS = "restarts"
    TAINTS = "taints"

    @property
    def role(self) -> str:
        """Return the ClusterRole that grants it."""
        return f"gpucdi-operator-{self.value}"


@dataclass(slots=True)
class Rights:
    """See the module. A refusal is kept until the same right was used with success.

    A right may be granted in some Namespaces only, so a refusal is one of a Namespace; it is empty
    for Nodes. Every node and Pod would ask in turn; within ``ask_again_s`` one of them has asked for
    all.
    """

    clock: Clock
    metrics: Metrics
    ask_again_s: float = 60.0
    _refused_at: dict[tuple[Feature, str], float] = field(default_factory=dict)

    def refusals(self) -> dict[Feature, tuple[str, ...]]:
        """Return where the last attempt was refused, by feature; the Namespaces in order."""
        found: dict[Feature, tuple[str, ...]] = {}
        for feature, where in sorted(self._refused_at):
            found[feature] = (*found.get(feature, ()), where)
        return found

    def forget(self) -> None:
        """Say nothing more: another replica leads and finds out for itself."""
        self._refused_at.clear()
        for feature in Feature:
            self.metrics.rights_missing.labels(feature.value).set(0)

    def check(self, feature: Feature, where: str = "") -> None:
        """Raise ``Forbidden`` without a request while a refusal is fresh."""
        at = self._refused_at.get((feature, where))
        if at is not None and self.clock.monotonic() - at < self.ask_again_s:
            raise Forbidden(missing(feature, (where,)), code=403)

    def refused(self, feature: Feature, where: str = "") -> None:
        """Take a 403."""
        self._refused_at[feature, where] = self.clock.monotonic()
        self.metrics.rights_missing.labels(feature.value).set(1)

    def granted(self, feature: Feature, where: str = "") -> None:
        """Take that the API server let us."""
        if self._refused_at.pop((feature, where), None) is not None:
            still = feature in self.refusals()
            self.metrics.rights_missing.labels(feature.value).set(still)


def is_rbac(error: Forbidden) -> bool:
    """Tell a missing right from an admission policy that refuses one object."""
    return " cannot " in str(error) and " resource " in str(error)


def missing(feature: Feature, where: Sequence[str]) -> str:
    """Return what a person reads and can paste."""
    shown = ", ".join(list(where)[:SHOWN]) + (", …" if len(where) > SHOWN else "")
    place = f" in {shown}" if any(where) else ""
    return (
        f"the operator lacks the ClusterRole {feature.role}{place}: kubectl create "
        f"clusterrolebinding {feature.role} --clusterrole={feature.role} "
        "--serviceaccount=gpucdi-system:gpucdi-operator"
        + (" (or a rolebinding in each Namespace)" if place else "")
    )

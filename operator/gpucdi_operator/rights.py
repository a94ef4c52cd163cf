"""Optional rights: what the operator was refused, so that a policy can say which one is missing.

Owns: the two features that need more than the operator's own ClusterRole, and when a refused one is
asked for again. A refusal is learnt by trying; it is no error of the operator.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from gpucdi_kube import Clock
from gpucdi_kube.errors import Forbidden
from gpucdi_operator.metrics import Metrics


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

    Every node and Pod would ask in turn; within ``ask_again_s`` one of them has asked for all.
    """

    clock: Clock
    metrics: Metrics
    ask_again_s: float = 60.0
    _refused_at: dict[Feature, float] = field(default_factory=dict)

    def is_refused(self, feature: Feature) -> bool:
        """Tell whether the last attempt was refused."""
        return feature in self._refused_at

    def forget(self) -> None:
        """Say nothing more: another replica leads and finds out for itself."""
        self._refused_at.clear()
        for feature in Feature:
            self.metrics.rights_missing.labels(feature.value).set(0)

    def check(self, feature: Feature) -> None:
        """Raise ``Forbidden`` without a request while a refusal is fresh."""
        at = self._refused_at.get(feature)
        if at is not None and self.clock.monotonic() - at < self.ask_again_s:
            raise Forbidden(missing(feature), code=403)

    def refused(self, feature: Feature) -> None:
        """Take a 403."""
        self._refused_at[feature] = self.clock.monotonic()
        self.metrics.rights_missing.labels(feature.value).set(1)

    def granted(self, feature: Feature) -> None:
        """Take that the API server let us."""
        if self._refused_at.pop(feature, None) is not None:
            self.metrics.rights_missing.labels(feature.value).set(0)


def missing(feature: Feature) -> str:
    """Return what a person reads and can paste."""
    return (
        f"the operator lacks the ClusterRole {feature.role}: kubectl create clusterrolebinding "
        f"{feature.role} --clusterrole={feature.role} "
        "--serviceaccount=gpucdi-system:gpucdi-operator"
    )

"""Optional rights: what the operator was refused, so that a policy can say which one is missing.

Owns: the two features that need more than the operator's own ClusterRole, when a refused one is asked
for again, and which policies a refusal is about. A refusal is learnt by trying; it is no error of the
operator. To ask the API server without trying would be a write (SelfSubjectAccessReview) in a cluster
where nothing happens; so a refusal that nobody has met again in a while is forgotten.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gpucdi.api.policy import Policy, TaintEffect
from gpucdi_kube import Clock
from gpucdi_kube.errors import Forbidden
from gpucdi_operator.metrics import Metrics

SHOWN = 5
# What is refused is tried again every five minutes at least, for as long as anything needs it.
FORGOTTEN_S = 600.0


class Feature(enum.StrEnum):
    """What a cluster's administrator grants by a binding of its own."""

    RESTARTS = "restarts"
    TAINTS = "taints"

    @property
    def role(self) -> str:
        """Return the ClusterRole that grants it."""
        return f"gpucdi-operator-{self.value}"


@dataclass(slots=True)
class _Refusal:
    """When it was met last, and which policies met it; some may be unknown."""

    at: float
    policies: set[str] = field(default_factory=set)

    def is_about(self, policy: Policy, feature: Feature, where: str) -> bool:
        """Tell whether ``policy`` asks for what was refused."""
        if feature is Feature.TAINTS:
            return policy.taint is not TaintEffect.NONE
        if policy.restarts is None or policy.restarts.selector is None:
            return policy.restarts is not None and where in policy.restarts.namespaces
        # Whether it chooses this Namespace may be the very thing that we may not know.
        return policy.name in self.policies


@dataclass(slots=True)
class Rights:
    """See the module. A refusal is kept until the same right was used with success.

    A right may be granted in some Namespaces only, so a refusal is one of a Namespace; it is empty
    for Nodes. Every node and Pod would ask in turn; within ``ask_again_s`` one of them has asked for
    all. A refusal that nobody has met again in ``forgotten_s`` is forgotten.
    """

    clock: Clock
    metrics: Metrics
    ask_again_s: float = 60.0
    forgotten_s: float = FORGOTTEN_S
    _refused: dict[tuple[Feature, str], _Refusal] = field(default_factory=dict)

    def refusals(self, policy: Policy | None = None) -> dict[Feature, tuple[str, ...]]:
        """Return where the last attempt was refused, by feature; the Namespaces in order.

        With a policy only what is refused to it.
        """
        found: dict[Feature, tuple[str, ...]] = {}
        for (feature, where), refusal in sorted(self._refused.items(), key=lambda item: item[0]):
            if policy is None or refusal.is_about(policy, feature, where):
                found[feature] = (*found.get(feature, ()), where)
        return found

    def forget(self) -> None:
        """Say nothing more: another replica leads and finds out for itself."""
        self._refused.clear()
        self._show()

    def keep(self, policies: Iterable[Policy], *, is_tainted: bool) -> None:
        """Forget what no policy asks for any more, and what nobody has met again.

        ``is_tainted`` tells that a Node carries our taint: even if no policy asks for that, the same
        right is needed to remove it.
        """
        asking, since = list(policies), self.clock.monotonic() - self.forgotten_s
        for (feature, where), refusal in list(self._refused.items()):
            removes = feature is Feature.TAINTS and is_tainted
            asked = removes or any(refusal.is_about(item, feature, where) for item in asking)
            if not asked or refusal.at <= since:
                del self._refused[feature, where]
        self._show()

    def check(self, feature: Feature, where: str = "") -> None:
        """Raise ``Forbidden`` without a request while a refusal is fresh."""
        refusal = self._refused.get((feature, where))
        if refusal is not None and self.clock.monotonic() - refusal.at < self.ask_again_s:
            raise Forbidden(missing(feature, (where,)), code=403)

    def refused(self, feature: Feature, where: str = "") -> None:
        """Take a 403."""
        now = self.clock.monotonic()
        self._refused.setdefault((feature, where), _Refusal(now)).at = now
        self._show()

    def lacks(self, policy: str, feature: Feature, where: str) -> None:
        """Note that this policy met a refusal, its own or, while it is fresh, another's."""
        refusal = self._refused.get((feature, where))
        if refusal is not None:
            refusal.policies.add(policy)

    def granted(self, feature: Feature, where: str = "") -> None:
        """Take that the API server let us."""
        if self._refused.pop((feature, where), None) is not None:
            self._show()

    def _show(self) -> None:
        missing_now = {feature for feature, _ in self._refused}
        for feature in Feature:
            self.metrics.rights_missing.labels(feature.value).set(feature in missing_now)


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

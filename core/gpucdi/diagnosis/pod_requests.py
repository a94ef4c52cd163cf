"""What a Pod itself asks for, and through which kinds that can reach a spec.

Owns: the join of the Pod's claims, resources, annotations and variable with the handler that runs
it. Must not know: whether any of it resolves. A Pod whose image brings the variable shows nothing
of it, so a handler's default kind counts as asked unless the Pod says that it wants nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.api import EngineStatus, HandlerStatus, NodeStatus
from gpucdi.diagnosis.case import DEVICE_PLUGIN_VENDOR, DRA_VENDORS, Case
from gpucdi.failures import PodView, RequesterName
from gpucdi.failures.names import KIND, kind_of

# Values of NVIDIA_VISIBLE_DEVICES that ask for nothing.
NOTHING = frozenset({"", "void", "none"})
_KUBELETS = ("containerd", "cri-o")
_LABELS_OF_A_VENDOR = 2


@dataclass(frozen=True, slots=True)
class PodRequests:
    """One Pod's requests beside the handler and the engine that would read them."""

    pod: PodView
    handler: HandlerStatus | None
    engine: EngineStatus | None

    @property
    def by_claim(self) -> bool:
        """True when the Pod has a ResourceClaim, which only an engine's own injection serves."""
        return self.pod.asked_by(RequesterName.DRA) is not None

    @property
    def by_plugin(self) -> bool:
        """True when a container asks NVIDIA's own device plugin.

        HAMi takes over the name of its resource, and hands over a variable only.
        """
        if self.pod.asked_by(RequesterName.HAMI) is not None:
            return False
        return any(_vendor(name) == "nvidia.com" for name in self._resources)

    @property
    def visible(self) -> tuple[str, ...]:
        """Return the items of every NVIDIA_VISIBLE_DEVICES that asks for something."""
        asking = (item.visible_devices or "" for item in self.pod.containers)
        found = (
            part.strip() for value in asking if value not in NOTHING for part in value.split(",")
        )
        return tuple(dict.fromkeys(part for part in found if part not in NOTHING))

    @property
    def default_kind(self) -> str | None:
        """Return the kind that unqualified names become; ``None`` where no file is asked."""
        handler = self.handler
        if handler is None or not handler.is_nvidia or handler.mode != "cdi":
            return None
        values = [item.visible_devices for item in self.pod.containers]
        wants_nothing = bool(values) and all(value in NOTHING for value in values)
        return None if wants_nothing else handler.default_kind

    @property
    def _resources(self) -> tuple[str, ...]:
        return tuple(name for item in self.pod.containers for name in item.resources)

    def asks(self, kind: str) -> bool:
        """Tell whether the Pod may have asked for a device of ``kind``."""
        vendor = kind.partition("/")[0]
        if vendor in DRA_VENDORS:
            return self.by_claim
        if vendor == DEVICE_PLUGIN_VENDOR:
            return self.by_plugin
        if kind in self._named_kinds():
            return True
        if vendor == "nvidia.com" or vendor.endswith(".nvidia.com"):
            # Of an unknown handler it is not known which kind it would turn a request into.
            return kind == self.default_kind or (self.handler is None and bool(self.visible))
        return self.by_claim or any(_vendor(name) == _vendor(kind) for name in self._resources)

    def devices(self, kind: str) -> frozenset[str] | None:
        """Return the names of ``kind`` that the Pod asks for; ``None`` where others fill them in."""
        others = tuple(name for name in RequesterName if name is not RequesterName.OWN_ENV)
        if not self.visible or any(self.pod.asked_by(name) for name in others):
            return None
        qualified = {item.partition("=")[2] for item in self.visible if kind_of(item) == kind}
        plain = {item for item in self.visible if "=" not in item}
        return frozenset(qualified | (plain if kind == self.default_kind else set()))

    def _named_kinds(self) -> frozenset[str]:
        by_annotation = (
            item
            for requester in self.pod.requesters
            if requester.name is RequesterName.CDI_ANNOTATION
            for item in requester.value.split(",")
        )
        named = {kind_of(item.strip()) for item in (*self.visible, *by_annotation)}
        return frozenset(kind for kind in named if KIND.fullmatch(kind))


def pod_requests(case: Case) -> PodRequests | None:
    """Return what the Pod asks for; ``None`` without a Pod, all of it, or a node."""
    if case.pod is None or not case.pod.is_whole or case.node is None:
        return None
    return PodRequests(case.pod, case.handler, _engine(case.node, case.handler))


def _engine(node: NodeStatus, handler: HandlerStatus | None) -> EngineStatus | None:
    """Return the engine that kubelet runs the Pod with; ``None`` where several may be it."""
    if handler is not None and handler.engine:
        return node.engine(handler.engine.split()[0])
    usual = [engine for engine in node.engines if engine.name in _KUBELETS]
    found = usual or [engine for engine in node.engines if engine.name == "docker"]
    return found[0] if len(found) == 1 else None


def _vendor(name: str) -> str:
    domain = name.partition("/")[0]
    return ".".join(domain.split(".")[-_LABELS_OF_A_VENDOR:])

"""Everything a rule may look at, joined once: the failure, the Pod, the node, the handler.

Owns the join of a Pod's RuntimeClass with the node's handlers and of names with kinds. Decides
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpucdi.api import GpuDevice, HandlerStatus, KindStatus, NodeStatus
from gpucdi.failures import Failure, PodView, RequesterName, Resolver, Stage, Symptom
from gpucdi.failures.names import device_of, kind_of
from gpucdi.findings import Cause, Finding

MANAGEMENT_KIND = "management.nvidia.com/gpu"
AUTOMATIC_VENDOR = "runtime.nvidia.com"
DEVICE_PLUGIN_VENDOR = "k8s.device-plugin.nvidia.com"
DRA_VENDORS = ("k8s.gpu.nvidia.com", "k8s.compute-domain.nvidia.com")


@dataclass(frozen=True, slots=True)
class Case:
    """One failure with what is known around it; ``None`` is *not known*."""

    failure: Failure
    pod: PodView | None = None
    node: NodeStatus | None = None
    handler_name: str | None = None
    related: tuple[Failure, ...] = ()

    @property
    def handler(self) -> HandlerStatus | None:
        """Return the handler that ran the Pod, as the node has it."""
        if self.node is None:
            return None
        name = self.handler_name
        if name is None and self.pod is not None and self.pod.is_whole:
            # A RuntimeClass is nearly always called like its handler; without one, the default.
            name = self.pod.runtime_class or ""
        if name is None:
            return self._only_handler()
        return self.node.handler(name)

    def _only_handler(self) -> HandlerStatus | None:
        # Without a Pod: the one NVIDIA handler that would ask for the failing kind, if one would.
        if self.node is None or not self.by_nvidia_runtime:
            return None
        kinds = set(self.failure.kinds)
        asking = [item for item in self.node.handlers if item.default_kind in kinds]
        return asking[0] if asking else None

    @property
    def by_nvidia_runtime(self) -> bool:
        """True when nvidia-container-runtime looked the names up, and not the engine."""
        failure = self.failure
        if failure.resolver is not None:
            return failure.resolver is Resolver.NVIDIA_RUNTIME
        return failure.symptom is Symptom.UNRESOLVABLE and failure.stage is Stage.START

    @property
    def kinds(self) -> tuple[KindStatus, ...]:
        """Return the node's status of each kind that the failure names, where it has one."""
        if self.node is None:
            return ()
        found = (self.node.kind(kind) for kind in self.failure.kinds)
        return tuple(kind for kind in found if kind is not None)

    @property
    def devices(self) -> tuple[str, ...]:
        """Return the device parts of the names, in order."""
        return tuple(device_of(name) for name in self.failure.names)

    def devices_of(self, kind: str) -> tuple[str, ...]:
        """Return the device parts of the names of one kind."""
        return tuple(device_of(name) for name in self.failure.names if kind_of(name) == kind)

    @property
    def inventory(self) -> tuple[GpuDevice, ...] | None:
        """Return the node's GPUs; ``None`` when nothing could be asked."""
        if self.node is None or self.node.gpus.source in {"", "none"}:
            return None
        return self.node.gpus.devices

    def finding(self, *causes: Cause) -> Finding | None:
        """Return the node's first finding with one of the causes, those of our kinds first."""
        if self.node is None:
            return None
        kinds = {None, *self.failure.kinds}
        found = [item for item in self.node.findings if item.cause in causes]
        near = [item for item in found if item.kind in kinds]
        return next(iter(near or found), None)

    def asked_by(self, *names: RequesterName) -> bool:
        """Tell whether the Pod shows that one of these asked for the devices."""
        return self.pod is not None and any(self.pod.asked_by(name) for name in names)

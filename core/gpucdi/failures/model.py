"""The values that texts and Pods are read into. Owns no reading."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field


class Stage(enum.StrEnum):
    """How far the container had come when it failed."""

    ADMISSION = "admission"  # refused before anything ran: RuntimeClass, device plugin
    PREPARE = "prepare"  # kubelet asks the DRA driver to prepare a claim
    SANDBOX = "sandbox"  # the Pod's sandbox does not come up
    CREATE = "create"  # CRI CreateContainer: the engine's own injection
    START = "start"  # CRI StartContainer: nvidia runtime, runc, hooks
    RUNNING = "running"  # started, and the GPU is missing or unusable inside
    GENERATE = "generate"  # a program that writes specs failed
    CONFIGURE = "configure"  # an engine or runtime refuses its configuration
    BUILD = "build"  # an image build, not a container
    UNKNOWN = "unknown"


class EngineFamily(enum.StrEnum):
    """Whose wording it is; ``None`` where the text does not tell."""

    CONTAINERD = "containerd"
    CRIO = "cri-o"
    DOCKER = "docker"
    PODMAN = "podman"
    KATA = "kata"
    GVISOR = "gvisor"
    BUILDKIT = "buildkit"


class Resolver(enum.StrEnum):
    """Who looked the device up: this decides which directories and which library count."""

    NVIDIA_RUNTIME = "nvidia-container-runtime"
    ENGINE = "engine"


class Symptom(enum.StrEnum):
    """What the text reports, independent of its wording."""

    UNRESOLVABLE = "unresolvable"
    INJECTION_FAILED = "injection failed"
    MALFORMED_NAME = "malformed name"
    MIXED_AUTOMATIC = "automatic kind mixed with another"
    SPEC_LOAD_FAILED = "spec not loaded"
    SPEC_WRITE_FAILED = "spec not written"
    NAME_CONFLICT = "name defined twice"
    NODE_MISSING = "device node missing"
    MOUNT_FAILED = "mount failed"
    IDMAP_FAILED = "idmap mount failed"
    RUNTIME_DIED = "runtime ended without a reason"
    HOOK_MISSING = "hook missing"
    HOOK_FAILED = "hook failed"
    HOOK_SKIPPED = "hook not run"
    GENERATE_FAILED = "generator failed"
    GENERATE_WARNING = "generator warned"
    UNIT_FAILED = "unit failed"
    PLUGIN_DISABLED = "plugin without CDI"
    PREPARE_FAILED = "claim not prepared"
    NO_SPEC = "no spec"
    SYMBOL_MISSING = "driver lacks a function"
    GENERATOR_ABSENT = "generator absent"
    CDI_DISABLED = "CDI switched off"
    NOT_CDI_AWARE = "CDI name taken for a path"
    HANDLER_MISSING = "handler missing"
    RUNTIME_CLASS_MISSING = "RuntimeClass missing"
    BINARY_MISSING = "runtime binary missing"
    MODE_REFUSED = "mode refused"
    CONFIG_REFUSED = "configuration refused"
    MODE_CONFLICT = "mode conflict"
    ENV_REFUSED = "environment request refused"
    NOT_INJECTED = "nothing injected"
    DRIVER_STATE = "driver state"
    GPU_LOST = "GPU lost"
    ACCESS_DENIED = "access denied"
    LEGACY = "legacy mode"
    IMAGE = "image"
    POLICY = "build policy"


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure that a text reports.

    ``names`` are the qualified names as the text lists them, in order, without repetition;
    ``malformed`` those among them that no spec could define. ``kinds`` are their ``vendor/class``
    parts. ``path`` is the host path the text blames, ``hook`` the hook's program or sub-command,
    ``subject`` the handler, unit or library that it is about, ``detail`` the innermost reason. ``format`` is the wording's id in ``docs/explain.md``.
    ``truncated`` says that the text was cut, so that names may be missing. ``text`` is the message
    itself, cleaned of wrapping.
    """

    format: str
    symptom: Symptom
    stage: Stage
    is_cdi: bool = True
    engine: EngineFamily | None = None
    resolver: Resolver | None = None
    names: tuple[str, ...] = ()
    malformed: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    path: str | None = None
    hook: str | None = None
    subject: str | None = None
    detail: str = ""
    truncated: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class PodFailure:
    """A failure of one container; ``container`` is empty for one of the whole Pod.

    ``container_list`` is ``containerStatuses``, ``initContainerStatuses``,
    ``ephemeralContainerStatuses``, ``events`` or ``status``. ``still_failing`` is what the Pod's
    status says now: Events go silent while a Pod fails on. ``is_final`` tells that kubelet does not
    start the container again, so that nothing can end the failure. ``containers`` are those that an
    Event is about, as far as that is known.
    """

    container: str
    container_list: str
    reason: str
    still_failing: bool
    failure: Failure
    is_final: bool = False
    containers: tuple[str, ...] = ()


class RequesterName(enum.StrEnum):
    """Who put the request into the container."""

    HAMI = "HAMi"
    KAI = "KAI Scheduler"
    VOLCANO = "Volcano"
    GPUSTACK = "GPUStack"
    DRA = "DRA"
    CDI_ANNOTATION = "CDI annotation of the Pod"
    NRI_ANNOTATION = "NRI annotation of the Pod"
    DEVICE_PLUGIN = "device plugin"
    OWN_ENV = "the Pod's own environment"


@dataclass(frozen=True, slots=True)
class Requester:
    """One party that asked for devices: ``key`` is the place in the Pod, ``value`` what it says."""

    name: RequesterName
    key: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class ContainerView:
    """What of a container's spec bears on devices; ``visible_devices`` is ``None`` when unset.

    ``privileged`` is what NVIDIA's runtime takes for it: the capability SYS_ADMIN. ``manages_mig``
    tells whether it asks for the nodes by which MIG is configured or monitored.
    """

    name: str
    visible_devices: str | None = None
    resources: Mapping[str, str] = field(default_factory=dict)
    privileged: bool = False
    manages_mig: bool = False


@dataclass(frozen=True, slots=True)
class PodView:
    """The part of a Pod that a diagnosis needs.

    ``is_whole`` is False where only an Event names the Pod: what it asks for, and through which
    RuntimeClass, is not known then.
    """

    namespace: str = ""
    name: str = ""
    uid: str = ""
    node: str = ""
    runtime_class: str | None = None
    host_users: bool | None = None
    phase: str = ""
    requesters: tuple[Requester, ...] = ()
    containers: tuple[ContainerView, ...] = ()
    is_whole: bool = True

    def container(self, name: str) -> ContainerView | None:
        """Return the container of that name."""
        return next((item for item in self.containers if item.name == name), None)

    def asked_by(self, name: RequesterName) -> Requester | None:
        """Return the first request by ``name``."""
        return next((item for item in self.requesters if item.name is name), None)

"""What gpucdi can say is wrong: the closed list of causes, and a finding with its place.

Owns: the vocabulary that every room speaks (cause, severity, who can mend it) and where a value
came from. Must not know: how any of it is found out.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


class Cause(enum.StrEnum):
    """Why a GPU container does not get its devices; one section each in ``docs/causes.md``."""

    KIND_HAS_NO_SPEC = "KindHasNoSpec"
    SPEC_LACKS_DEVICE = "SpecLacksDevice"
    ONLY_ALL_DEVICE = "OnlyAllDevice"
    STALE_UUID = "StaleUuid"
    UNKNOWN_DEVICE = "UnknownDevice"
    MIG_PARENT_HIDDEN = "MigParentHidden"
    MIG_LAYOUT_CHANGED = "MigLayoutChanged"
    SAME_DIR_CONFLICT = "SameDirConflict"
    SPEC_REJECTED = "SpecRejected"
    SPEC_TOO_NEW_FOR_READER = "SpecTooNewForReader"
    SPEC_DIR_NOT_READ = "SpecDirNotRead"
    SPEC_DIR_MISSING = "SpecDirMissing"
    SPEC_NOT_READABLE = "SpecNotReadable"
    DEVICE_NODE_MISSING = "DeviceNodeMissing"
    DEVICE_NUMBER_CHANGED = "DeviceNumberChanged"
    MOUNT_SOURCE_MISSING = "MountSourceMissing"
    HOOK_MISSING = "HookMissing"
    HOOK_TOO_OLD = "HookTooOld"
    HOOK_FAILED = "HookFailed"
    GENERATOR_MISSING = "GeneratorMissing"
    GENERATOR_FAILED = "GeneratorFailed"
    REFRESH_UNIT_FAILED = "RefreshUnitFailed"
    DRIVER_NOT_READY = "DriverNotReady"
    DRIVER_MISMATCH = "DriverMismatch"
    DRIVER_ROOT_WRONG = "DriverRootWrong"
    DRIVER_TOO_OLD = "DriverTooOld"
    GPU_LOST = "GpuLost"
    JIT_GENERATION_FAILED = "JitGenerationFailed"
    MIXED_AUTOMATIC_KIND = "MixedAutomaticKind"
    MALFORMED_REQUEST = "MalformedRequest"
    DEVICE_WITHOUT_NODE = "DeviceWithoutNode"
    VOID_MOUNT_SKEW = "VoidMountSkew"
    USER_NAMESPACE_IDMAP = "UserNamespaceIdmap"
    MEMORY_LIMIT_REJECTED = "MemoryLimitRejected"
    ENGINE_CDI_DISABLED = "EngineCdiDisabled"
    HANDLER_MISSING = "HandlerMissing"
    MODE_CONFLICT = "ModeConflict"
    DRA_CLAIM_SPEC_LOST = "DraClaimSpecLost"
    REQUEST_NOT_READ = "RequestNotRead"
    ENV_REQUEST_REFUSED = "EnvRequestRefused"
    DEVICE_ACCESS_DENIED = "DeviceAccessDenied"
    FOREIGN_SPEC_STALE = "ForeignSpecStale"
    CONFIG_UNREADABLE = "ConfigUnreadable"
    REPAIR_REFUSED = "RepairRefused"
    NOT_CDI = "NotCdi"
    UNDETERMINED = "Undetermined"


class Severity(enum.StrEnum):
    """How much a finding matters to the Pods of the node."""

    ERROR = "Error"  # some Pods fail, or would at their next start
    WARNING = "Warning"  # nothing fails yet, or gpucdi sees less than it should
    INFO = "Info"


class Who(enum.StrEnum):
    """Who can mend it."""

    GPUCDI = "gpucdi"
    COMPONENT = "component"  # restarting the component that owns the file
    ADMIN = "admin"
    USER = "user"  # the owner of the Pod


class SourceKind(enum.StrEnum):
    """Where an effective value comes from."""

    FILE = "file"
    DEFAULT = "default"
    ENVIRONMENT = "environment"
    PROCESS = "process"  # asked of the running program, or read from its command line
    BINARY_NAME = "binary name"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Source:
    """The provenance of one value; ``key`` is dotted, ``line`` counts from 1."""

    kind: SourceKind
    file: str | None = None
    key: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = self.file or ""
        if where and self.line is not None:
            where += f":{self.line}"
        return " ".join(part for part in (self.kind.value, where, self.key) if part)


DEFAULT = Source(SourceKind.DEFAULT)
UNKNOWN = Source(SourceKind.UNKNOWN)


@dataclass(frozen=True, slots=True)
class Sourced(Generic[T]):
    """A value together with where it was found."""

    value: T
    source: Source = DEFAULT


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where, and what to do about it.

    ``message`` is one line: the fact. ``advice`` is one line: the next step for ``who``. ``file``
    and ``key`` name the place, as host path and dotted key, where there is one.
    """

    cause: Cause
    severity: Severity
    message: str
    advice: str
    who: Who = Who.ADMIN
    file: str | None = None
    key: str | None = None
    kind: str | None = None
    names: tuple[str, ...] = ()

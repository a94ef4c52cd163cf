"""The custom resources as typed values, and every name that goes to the API server.

Owns: group, kinds, condition types, reasons, labels; reading a resource's JSON without ever
raising over its content, and writing it. Must not know: how a status comes about, nor HTTP.
"""

from gpucdi.api.conditions import Condition, ConditionStatus
from gpucdi.api.intent import Hold, Intent, NameRequest, NameStrategy, RepairMode
from gpucdi.api.names import GROUP, KIND_STATUS, PLURAL_STATUS, VERSION
from gpucdi.api.status import (
    EngineStatus,
    FileStatus,
    GpuDevice,
    GpuStatus,
    HandlerStatus,
    KindStatus,
    MigDevice,
    MissingNames,
    NearMiss,
    NodeState,
    NodeStatus,
    RefreshStatus,
    RepairRecord,
)
from gpucdi.api.status_json import read_status, write_status

__all__ = [
    "GROUP",
    "KIND_STATUS",
    "PLURAL_STATUS",
    "VERSION",
    "Condition",
    "ConditionStatus",
    "EngineStatus",
    "FileStatus",
    "GpuDevice",
    "GpuStatus",
    "HandlerStatus",
    "Hold",
    "Intent",
    "KindStatus",
    "MigDevice",
    "MissingNames",
    "NameRequest",
    "NameStrategy",
    "NearMiss",
    "NodeState",
    "NodeStatus",
    "RefreshStatus",
    "RepairMode",
    "RepairRecord",
    "read_status",
    "write_status",
]

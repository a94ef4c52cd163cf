"""Every literal that the cluster sees of gpucdi. Owns names only."""

from __future__ import annotations

GROUP = "gpucdi.io"
VERSION = "v1alpha1"
KIND_STATUS = "GpuCdiStatus"
PLURAL_STATUS = "gpucdistatuses"
KIND_POLICY = "GpuCdiPolicy"
PLURAL_POLICY = "gpucdipolicies"
NAMESPACE = "gpucdi-system"

# Field managers of server-side apply; one per writer and subject, so that no two share a field.
AGENT_MANAGER = "gpucdi-agent"
OPERATOR_MANAGER = "gpucdi-operator"

# On a Node. True means that Pods will fail: negative polarity, as node-problem-detector has it.
NODE_CONDITION = "GpuCdiUnresolvable"

# On a GpuCdiStatus.
CONDITION_RESOLVABLE = "Resolvable"
CONDITION_INVENTORY_FRESH = "InventoryFresh"
CONDITION_CONFIG_READABLE = "ConfigReadable"
CONDITION_REPAIR_SUCCEEDED = "RepairSucceeded"

# On a Pod.
EVENT_UNRESOLVABLE = "CdiDeviceUnresolvable"
EVENT_RESTORED = "CdiDeviceRestored"
EVENT_RESTARTED = "CdiPodRestarted"
# On a GpuCdiPolicy.
EVENT_REPAIRS_STOPPED = "RepairsStopped"
EVENT_REPAIRS_RESUMED = "RepairsResumed"
CONDITION_REPAIRS_ALLOWED = "RepairsAllowed"
CONDITION_GOVERNS = "Governs"
CONDITION_RESTARTS_ALLOWED = "PodRestartsAllowed"
CONDITION_TAINTS_ALLOWED = "TaintsAllowed"
# On a Node.
EVENT_LABEL_UNREADABLE = "RepairLabelUnreadable"

EVENT_CONTROLLER = "gpucdi.io/operator"

LABEL_REPAIR = "gpucdi.io/repair"
TAINT_KEY = "gpucdi.io/unresolvable"
LEASE_PREFIX = "gpucdi-agent-"
OPERATOR_LEASE = "gpucdi-operator"

# On the host.
OWN_FILE_PREFIX = "gpucdi-"
OWN_FILE_MARK = "# Written by gpucdi."
STATE_DIRECTORY = "/var/lib/gpucdi"

NOTE_LIMIT_BYTES = 1024
CONDITION_LIMIT_BYTES = 512


def own_file_name(kind: str) -> str:
    """Return the name of our spec file for ``vendor/class``: ``gpucdi-<vendor>-<class>.yaml``."""
    return f"{OWN_FILE_PREFIX}{kind.replace('/', '-')}.yaml"

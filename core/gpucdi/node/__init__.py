"""One node: what is there, what must resolve, and the verdict.

Owns: the pass from a host's files and an inventory to an assessment, the same for a live node and
a captured tree. Must not know: NVML, processes, the API server.
"""

from gpucdi.node.assessment import Assessment, KindAssessment, assess
from gpucdi.node.inventory import Inventory, proc_inventory
from gpucdi.node.missing import MissingName
from gpucdi.node.observation import NodeReader, Observation, observe
from gpucdi.node.owners import file_owner, is_ours
from gpucdi.node.summary import PassContext, node_status

__all__ = [
    "Assessment",
    "Inventory",
    "KindAssessment",
    "MissingName",
    "NodeReader",
    "Observation",
    "PassContext",
    "assess",
    "file_owner",
    "is_ours",
    "node_status",
    "observe",
    "proc_inventory",
]

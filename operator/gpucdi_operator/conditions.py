"""Our one entry among the conditions of a Node. Owns how it is written and how it goes.

It is written by server-side apply. It goes by a patch that deletes this one entry, not by applying
nothing: where no other manager owns any of the conditions, as between kubelet's registration of a
Node and its first patch, an apply that gives up the last owned entry takes the whole list with it.
Source: kubernetes-sigs/structured-merge-diff ``merge/update.go`` (``prune``,
``addBackDanglingItems``), seen on kube-apiserver 1.34.
"""

from __future__ import annotations

from gpucdi.api import Condition
from gpucdi.api.names import NODE_CONDITION, OPERATOR_MANAGER
from gpucdi_kube import KubeApi, KubeObject, paths
from gpucdi_kube.api import STRATEGIC_PATCH

_REMOVAL: KubeObject = {"status": {"conditions": [{"$patch": "delete", "type": NODE_CONDITION}]}}


async def write(api: KubeApi, node: str, condition: Condition | None) -> KubeObject:
    """Put our entry on a Node, or take it away with ``None``; return the Node.

    Raises ``NotFound`` when the Node is gone, and whatever else the API server answers.
    """
    path = paths.node_status(node)
    if condition is None:
        return await api.patch(path, _REMOVAL, content_type=STRATEGIC_PATCH)
    entry = {
        "type": NODE_CONDITION,
        "status": condition.status.value,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": condition.last_transition_time,
    }
    body: KubeObject = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": node},
        "status": {"conditions": [entry]},
    }
    return await api.apply(path, body, field_manager=OPERATOR_MANAGER, force=True)

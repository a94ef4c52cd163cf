"""What the server says that it serves. Owns the discovery documents."""

from __future__ import annotations

from tests.fakeapi.resources import Body, Resource


def document(path: str, resources: tuple[Resource, ...]) -> Body | None:
    """Return the document at ``path``, or None where no such document is."""
    if path in {"/healthz", "/readyz", "/livez"}:
        return {}
    if path == "/version":
        return {"major": "1", "minor": "34", "gitVersion": "v1.34.4"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        groups = sorted({(item.group, item.version) for item in resources if item.group})
        return {"kind": "APIGroupList", "groups": [_group(*group) for group in groups]}
    served = [item for item in resources if item.root == path]
    if served:
        return {
            "kind": "APIResourceList",
            "groupVersion": served[0].api_version,
            "resources": [entry for item in served for entry in _api_resources(item)],
        }
    return None


def _group(group: str, version: str) -> Body:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def _api_resources(resource: Resource) -> list[Body]:
    common: Body = {"namespaced": resource.namespaced, "kind": resource.kind}
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]
    entries: list[Body] = [
        {**common, "name": resource.plural, "singularName": resource.kind.lower(), "verbs": verbs}
    ]
    if resource.has_status:
        name = f"{resource.plural}/status"
        entries.append({**common, "name": name, "verbs": ["get", "patch", "update"]})
    return entries

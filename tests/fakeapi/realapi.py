"""The outside view of a real API server: what a scene puts into it and finds there.

The same four methods as the fake has, so that one scene plays on both. Must not know: scenes.
"""

from __future__ import annotations

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.resources import BUILT_IN, Body, Resource, custom_resources

_MERGE = "application/merge-patch+json"
_GONE_S = 20.0
_NOT_SENT = ("uid", "creationTimestamp", "resourceVersion", "generation", "managedFields")


@dataclass
class RealApi:
    """An administrator of a real API server."""

    plane: ControlPlane
    made: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tls = ssl.create_default_context(cafile=str(self.plane.ca_file))
        stem = Path(self.plane.kubeconfig)
        self._tls.load_cert_chain(stem.with_suffix(".crt"), stem.with_suffix(".key"))
        self._resources = {item.plural: item for item in reversed((*BUILT_IN, *custom_resources()))}

    def put(self, plural: str, body: Body) -> Body:
        """Create or change an object with all fields of the body, status included."""
        resource = self._resources[plural]
        meta = {key: item for key, item in body["metadata"].items() if key not in _NOT_SENT}
        sent = {
            **body,
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": meta,
        }
        path = self._path(resource, meta.get("namespace", ""), meta["name"])
        answer: Body
        known = self.find(plural, meta["name"], meta.get("namespace", ""))
        if known is None:
            self.made.append(path)
            answer = self._send("POST", path.rpartition("/")[0], sent)
        else:
            main = {key: item for key, item in sent.items() if key not in {"status", "spec"}}
            if "spec" in body and body["spec"] != known.get("spec"):
                main["spec"] = body["spec"]
            answer = self._send("PATCH", path, main)
        if resource.has_status and "status" in body:
            answer = self._put_status(path, answer, body["status"])
        return answer

    def _put_status(self, path: str, body: Body, status: Body) -> Body:
        """Replace a status; who writes at the same moment only makes this be tried again."""
        while True:
            try:
                answer: Body = self._send("PUT", f"{path}/status", {**body, "status": status})
            except urllib.error.HTTPError as error:
                error.close()
                if error.code != 409:
                    raise
                body = self._send("GET", path)
            else:
                return answer

    def find(self, plural: str, name: str, namespace: str = "") -> Body | None:
        """Return an object, or None."""
        try:
            found: Body = self._send("GET", self._path(self._resources[plural], namespace, name))
        except urllib.error.HTTPError as error:
            error.close()
            if error.code == 404:
                return None
            raise
        return found

    def all(self, plural: str, namespace: str = "") -> list[Body]:
        """Return all objects of a resource."""
        path = self._path(self._resources[plural], namespace, "").rstrip("/")
        items: list[Body] = self._send("GET", path)["items"]
        return items

    def remove(self, plural: str, name: str, namespace: str = "") -> None:
        """Delete an object at once and wait until it is gone."""
        self._delete(self._path(self._resources[plural], namespace, name))

    def sweep(self) -> None:
        """Delete what tests without a scene have left: one policy more changes every node."""
        for plural in ("gpucdipolicies", "gpucdistatuses", "pods", "nodes"):
            for body in self.all(plural):
                meta = body["metadata"]
                self.remove(plural, meta["name"], meta.get("namespace", ""))

    def clean(self) -> None:
        """Delete everything that was put and wait until it is gone."""
        for path in reversed(self.made):
            self._delete(path)
        self.made.clear()
        for namespace in ("default", "gpucdi-system"):
            self._send("DELETE", f"/api/v1/namespaces/{namespace}/events")

    def _delete(self, path: str) -> None:
        deadline = time.monotonic() + _GONE_S
        while True:
            try:
                # An object may outlive the first answer for a moment.
                self._send("DELETE", path, {"gracePeriodSeconds": 0})
            except urllib.error.HTTPError as error:
                error.close()
                if error.code == 404:
                    return
                if error.code != 409:
                    raise
            assert time.monotonic() < deadline, f"{path} stays"
            time.sleep(0.05)

    def _path(self, resource: Resource, namespace: str, name: str) -> str:
        inner = f"namespaces/{namespace}/" if namespace else ""
        return f"{resource.root}/{inner}{resource.plural}/{name}"

    def _send(self, method: str, path: str, body: Body | None = None) -> Any:
        kind = _MERGE if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.plane.url + path,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind},
            method=method,
        )
        with urllib.request.urlopen(request, context=self._tls, timeout=30) as answer:
            return json.load(answer)


def rules(account: str, *manifests: Path) -> Iterator[tuple[str, str, str, str]]:
    """Yield (namespace, group, resource, verb) for each right that the manifests grant together.

    The namespace is empty for rights in the whole cluster.
    """
    documents = [
        item for manifest in manifests for item in yaml.safe_load_all(manifest.read_text()) if item
    ]
    by_name = {(item["kind"], item["metadata"]["name"]): item for item in documents}
    for item in documents:
        if not item["kind"].endswith("RoleBinding"):
            continue
        if account not in {subject["name"] for subject in item["subjects"]}:
            continue
        role = by_name[item["roleRef"]["kind"], item["roleRef"]["name"]]
        namespace = item["metadata"].get("namespace", "")
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield namespace, group, resource, verb

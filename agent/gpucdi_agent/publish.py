"""Showing the node's status to the cluster and taking the intent from it.

Owns: the node's GpuCdiStatus object (created if absent, status applied only when its content
changed), its watch, and the Lease that says we are alive. Must not know: how a status comes about,
nor HTTP. Whatever the API server does, repairs go on; what was missed is caught up in one write.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from gpucdi.api import GROUP, KIND_STATUS, VERSION, Intent, NodeStatus, fields, write_status
from gpucdi.api.fields import Json
from gpucdi.api.names import AGENT_MANAGER, LEASE_PREFIX, NAMESPACE
from gpucdi_agent.logs import log
from gpucdi_kube import Clock, KubeApi, KubeError, KubeObject, Remedy, paths
from gpucdi_kube.clock import rfc3339_micro
from gpucdi_kube.errors import AlreadyExists, NotFound, TooManyRequests

LEASE_RENEW_SECONDS = 60.0
LEASE_DURATION_SECONDS = 180
# The first status of a burst is published at once; after a write those of this time make one more.
COALESCE_SECONDS = 0.2
RETRY_FIRST_SECONDS = 1.0
RETRY_LAST_SECONDS = 120.0
WATCH_SECONDS = 3000
SERVICE_ACCOUNT_TOKEN = Path("/var/run/secrets/kubernetes.io/serviceaccount/token")
_API_VERSION = f"{GROUP}/{VERSION}"


@dataclass(slots=True)
class Publisher:
    """Writes what :meth:`show` was given last. One task runs :meth:`run`."""

    api: KubeApi
    node_name: str
    clock: Clock
    token_file: Path = SERVICE_ACCOUNT_TOKEN
    _wanted: dict[str, Json] | None = None
    _published: dict[str, Json] | None = None
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def show(self, status: NodeStatus) -> None:
        """Publish ``status`` unless its content is what was published last."""
        self._wanted = write_status(status)
        if self._wanted != self._published:
            self._changed.set()

    def forget(self) -> None:
        """Publish again even unchanged content: the object is gone."""
        self._published = None
        self._changed.set()

    def known(self, status: object) -> None:
        """Take ``status`` (JSON) as what the cluster shows already."""
        if self._published is None and isinstance(status, dict):
            self._published = dict(status)

    async def run(self) -> None:
        """Publish until cancelled."""
        failures = 0
        while True:
            await self._changed.wait()
            self._changed.clear()
            wanted = self._wanted
            if wanted is None or wanted == self._published:
                continue
            try:
                await self._write(wanted)
            except KubeError as error:
                failures += 1
                log("status not published", 30, error=str(error), remedy=error.remedy.value)
                await self.clock.sleep(_wait_s(error, failures))
                self._changed.set()
                continue
            failures = 0
            self._published = wanted
            await self.clock.sleep(COALESCE_SECONDS)

    async def _write(self, status: dict[str, Json]) -> None:
        body: KubeObject = {**self._head(), "status": status}
        path = paths.gpu_cdi_status_status(self.node_name)
        try:
            await self.api.apply(path, body, field_manager=AGENT_MANAGER, force=True)
        except NotFound:
            await self._create()
            await self.api.apply(path, body, field_manager=AGENT_MANAGER, force=True)

    async def _create(self) -> None:
        body: KubeObject = {**self._head(), "spec": {"nodeName": self.node_name}}
        owner = node_owner(self.token_file, self.node_name)
        if owner is not None:
            body["metadata"] = {"name": self.node_name, "ownerReferences": [owner]}
        try:
            await self.api.create(paths.STATUSES, body)
        except AlreadyExists:
            return

    def _head(self) -> KubeObject:
        return {
            "apiVersion": _API_VERSION,
            "kind": KIND_STATUS,
            "metadata": {"name": self.node_name},
        }


def node_owner(token_file: Path, node_name: str) -> dict[str, object] | None:
    """Return the owner reference to our Node, from the claims of our own token.

    The agent may not read Nodes, but a Pod's token names its node and the node's uid (Kubernetes
    1.30, KEP-4193). Without that claim the object has no owner until the operator adds it. Nothing
    is verified here: it is our own token, and the API server judges what we write.
    """
    try:
        payload = token_file.read_text(encoding="ascii").split(".")[1]
        padded = payload + "=" * (-len(payload) % 4)
        claims = json.loads(base64.urlsafe_b64decode(padded))
    except (OSError, ValueError, IndexError, binascii.Error):
        return None
    node = fields.mapping(fields.mapping(claims, "kubernetes.io"), "node")
    uid = fields.text(node, "uid")
    if not uid or fields.text(node, "name") != node_name:
        return None
    return {"apiVersion": "v1", "kind": "Node", "name": node_name, "uid": uid}


@dataclass(slots=True)
class IntentWatch:
    """Follows the spec of the node's object; ``changed`` is called with each new one."""

    api: KubeApi
    node_name: str
    clock: Clock
    publisher: Publisher
    changed: Callable[[Intent, int | None], None]
    _generation: int | None = None

    async def run(self) -> None:
        """Watch until cancelled."""
        failures = 0
        while True:
            try:
                await self._follow()
                failures = 0
            except KubeError as error:
                failures += 1
                if failures == 1:
                    log("the spec is not watched", 30, error=str(error))
                await self.clock.sleep(_wait_s(error, failures))

    async def _follow(self) -> None:
        selector = f"metadata.name={self.node_name}"
        # A fleet that started together must not come back together.
        timeout_s = WATCH_SECONDS + random.randrange(WATCH_SECONDS // 5)  # noqa: S311 - spreads load
        async for event in self.api.watch(
            paths.STATUSES, field_selector=selector, timeout_s=timeout_s
        ):
            if event.type == "DELETED":
                self._generation = None
                self.publisher.forget()
            elif event.type in {"ADDED", "MODIFIED"}:
                self._take(event.object)

    def _take(self, found: KubeObject) -> None:
        self.publisher.known(found.get("status"))
        generation = fields.optional_integer(fields.mapping(found, "metadata"), "generation")
        # Our own status writes come back too; only the spec has a generation.
        if generation is None or generation != self._generation:
            self._generation = generation
            self.changed(Intent.from_json(found.get("spec")), generation)


@dataclass(slots=True)
class LeaseKeeper:
    """Renews ``gpucdi-agent-<node>`` while ``is_alive`` says that passes still end."""

    api: KubeApi
    node_name: str
    clock: Clock
    is_alive: Callable[[], bool]
    namespace: str = NAMESPACE

    async def run(self) -> None:
        """Renew until cancelled."""
        failures = 0
        while True:
            if not self.is_alive():
                await self.clock.sleep(LEASE_RENEW_SECONDS)
                continue
            try:
                await self._renew()
                failures = 0
                await self.clock.sleep(LEASE_RENEW_SECONDS)
            except KubeError as error:
                failures += 1
                if failures == 1:
                    log("the lease is not renewed", 30, error=str(error))
                await self.clock.sleep(min(LEASE_RENEW_SECONDS, _wait_s(error, failures)))

    async def _renew(self) -> None:
        body: KubeObject = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": LEASE_PREFIX + self.node_name, "namespace": self.namespace},
            "spec": {
                "holderIdentity": self.node_name,
                "leaseDurationSeconds": LEASE_DURATION_SECONDS,
                "renewTime": rfc3339_micro(self.clock.now()),
            },
        }
        path = paths.agent_lease(self.node_name, self.namespace)
        await self.api.apply(path, body, field_manager=AGENT_MANAGER, force=True)


def _wait_s(error: KubeError, failures: int) -> float:
    """Return the pause after the ``failures``-th failure in a row, with jitter over its half."""
    ceiling = min(RETRY_LAST_SECONDS, RETRY_FIRST_SECONDS * 2.0 ** min(failures - 1, 10))
    if error.remedy in {Remedy.ADMIN, Remedy.GIVE_UP}:
        # Only a person can mend it (or a CRD that is still being installed): ask seldom.
        ceiling = min(RETRY_LAST_SECONDS, max(ceiling, 10.0))
    wait = random.uniform(ceiling / 2, ceiling)  # noqa: S311 - spreads load
    return max(wait, error.retry_after_s) if isinstance(error, TooManyRequests) else wait

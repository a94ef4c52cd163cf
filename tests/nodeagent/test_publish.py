"""The agent's side of the cluster, against a server that speaks the protocol."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.fakeapi.server import FakeApi, serving
from tests.nodeagent.clocks import ShortClock

from gpucdi.api import Intent, NodeState, NodeStatus, RepairMode
from gpucdi.api.names import NAMESPACE
from gpucdi_agent.cluster import ClusterLink
from gpucdi_agent.publish import node_owner
from gpucdi_kube import (
    Credentials,
    CredentialsError,
    HttpKubeApi,
    KubeApi,
    RetryPolicy,
)

NODE = "gpu-17"
DRIFTED = NodeStatus(state=NodeState.DRIFTED)
RESOLVED = NodeStatus(state=NodeState.RESOLVED)
# The adapter's own retries out of the way: what the agent does itself is the subject.
ONCE = RetryPolicy(deadline_s=0.0)


def quick() -> ShortClock:
    """Return a clock on which short waits are shorter and long ones never end."""
    return ShortClock(lambda seconds: min(seconds, 0.02) if seconds < 30 else 3600)


@dataclass
class Session:
    """A link to a fake server, and what it brought."""

    api: FakeApi
    link: ClusterLink
    clock: ShortClock
    intents: list[tuple[Intent, int | None]]

    def status(self) -> dict[str, object]:
        found = self.api.find("gpucdistatuses", NODE)
        return found.get("status", {}) if found else {}

    async def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - the condition is the server's, not ours
                await asyncio.sleep(0.01)

    async def until_state(self, state: NodeState) -> None:
        await self.until(lambda: self.status().get("state") == state.value)

    async def settle(self) -> None:
        await asyncio.sleep(0.15)

    def writes(self) -> list[str]:
        return [
            entry.title
            for entry in self.api.requests("apply", "create", plural="gpucdistatuses")
            if entry.code < 400
        ]


@asynccontextmanager
async def session(api: FakeApi | None = None, alive: bool = True) -> AsyncIterator[Session]:
    clock = quick()
    intents: list[tuple[Intent, int | None]] = []
    async with serving(api) as server:

        async def connect() -> KubeApi:
            return HttpKubeApi(Credentials(server.url), policy=ONCE)

        link = ClusterLink(
            node_name=NODE,
            connect=connect,
            obey=lambda intent, generation: intents.append((intent, generation)),
            is_alive=lambda: alive,
            clock=clock,
        )
        task = asyncio.create_task(link.run())
        try:
            yield Session(server, link, clock, intents)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def test_the_first_status_creates_the_object() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)

        body = found.api.find("gpucdistatuses", NODE)
        assert body is not None
        assert body["spec"]["nodeName"] == NODE


async def test_unchanged_content_is_not_written_again() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        before = found.writes()

        for _ in range(20):
            found.link.show(replace(DRIFTED))
        await found.settle()

        assert found.writes() == before


async def test_a_burst_of_statuses_is_one_write() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        before = len(found.writes())

        for number in range(50):
            found.link.show(replace(DRIFTED, mode=str(number)))
        found.link.show(RESOLVED)
        await found.until_state(NodeState.RESOLVED)

        assert len(found.writes()) - before <= 2


async def test_an_object_that_says_the_same_already_is_not_written_after_a_restart() -> None:
    api = FakeApi()
    async with session(api) as first:
        first.link.show(DRIFTED)
        await first.until_state(NodeState.DRIFTED)
        before = len(first.writes())
    async with session(api) as second:
        await second.until(lambda: second.intents)

        second.link.show(DRIFTED)
        await second.settle()

        assert len(second.writes()) == before


async def test_a_deleted_object_is_created_again_with_its_status() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        await found.until(lambda: found.intents)

        found.api.remove("gpucdistatuses", NODE)

        await found.until_state(NodeState.DRIFTED)


async def test_the_spec_reaches_the_agent_and_its_own_writes_do_not() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        body = found.api.find("gpucdistatuses", NODE)
        assert body is not None
        spec = {"nodeName": NODE, "repair": {"mode": "Auto"}}
        generation = body["metadata"]["generation"] + 1
        metadata = {"name": NODE, "generation": generation}
        found.api.put("gpucdistatuses", {"metadata": metadata, "spec": spec})
        await found.until(lambda: found.intents and found.intents[-1][0].mode is RepairMode.AUTO)
        count = len(found.intents)

        found.link.show(RESOLVED)
        await found.until_state(NodeState.RESOLVED)
        await found.settle()

        assert len(found.intents) == count


@pytest.mark.parametrize(
    "fault",
    [
        {"code": 500},
        {"code": 503},
        {"code": 409},
        {"code": 429, "retry_after_s": 1},
        {"code": 401},
        {"code": 403},
        {"cut": True},
        {"lose": True},
    ],
    ids=lambda fault: "-".join(f"{key}={value}" for key, value in fault.items()),
)
async def test_after_a_fault_the_last_status_is_caught_up_in_one_write(
    fault: dict[str, object],
) -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        before = len(found.writes())
        met = found.api.faults.add(verbs=["apply"], plurals=["gpucdistatuses"])
        for name, value in {"times": 3, **fault}.items():
            setattr(met, name, value)
        for number in range(10):
            found.link.show(replace(DRIFTED, mode=str(number)))
            # Each is seen, and none waits for a write to end: the clock's waits are short here.
            await asyncio.sleep(0)

        found.link.show(RESOLVED)
        await found.until_state(NodeState.RESOLVED)
        await found.settle()

        assert met.met >= 1
        assert len(found.writes()) - before <= 2 + met.met


async def test_a_retry_after_is_honoured() -> None:
    async with session() as found:
        found.api.faults.add(429, verbs=["apply"], times=1, retry_after_s=7)

        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)

        assert [wait for wait in found.clock.waits if wait >= 7]


async def test_an_expired_watch_is_taken_up_again() -> None:
    async with session() as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)
        await found.until(lambda: found.intents)

        found.api.expire()
        body = found.api.find("gpucdistatuses", NODE)
        assert body is not None
        metadata = {"name": NODE, "generation": body["metadata"]["generation"] + 1}
        spec = {"nodeName": NODE, "repair": {"mode": "Off"}}
        found.api.put("gpucdistatuses", {"metadata": metadata, "spec": spec})

        await found.until(lambda: found.intents[-1][0].mode is RepairMode.OFF)


async def test_the_lease_names_the_node_and_has_a_time() -> None:
    async with session() as found:
        await found.until(lambda: found.api.all("leases", NAMESPACE))

        lease = found.api.find("leases", f"gpucdi-agent-{NODE}", NAMESPACE)
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == NODE
        assert lease["spec"]["renewTime"].endswith("Z")


async def test_a_stuck_agent_renews_no_lease() -> None:
    async with session(alive=False) as found:
        found.link.show(DRIFTED)
        await found.until_state(NodeState.DRIFTED)

        assert not found.api.all("leases", NAMESPACE)


async def test_without_credentials_the_last_status_waits_for_them() -> None:
    async with serving() as server:
        tries: list[int] = []

        async def connect() -> KubeApi:
            tries.append(1)
            if len(tries) == 1:
                raise CredentialsError("no service account")
            return HttpKubeApi(Credentials(server.url), policy=ONCE)

        clock = ShortClock(lambda _: 0.05)
        link = ClusterLink(NODE, connect, lambda *_: None, lambda: True, clock)
        link.show(DRIFTED)
        task = asyncio.create_task(link.run())
        async with asyncio.timeout(60):
            while not server.find("gpucdistatuses", NODE):  # noqa: ASYNC110 - as above
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert len(tries) == 2


def token(claims: object) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    return f"header.{payload}.signature"


def test_the_owner_comes_from_the_tokens_own_claims(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token({"kubernetes.io": {"node": {"name": NODE, "uid": "u-1"}}}))

    assert node_owner(file, NODE) == {
        "apiVersion": "v1",
        "kind": "Node",
        "name": NODE,
        "uid": "u-1",
    }


@pytest.mark.parametrize(
    "text",
    [
        "",
        "not a token",
        "a.%%%.c",
        token([]),
        token({"kubernetes.io": {}}),
        token({"kubernetes.io": {"node": {"name": "another", "uid": "u-2"}}}),
    ],
)
def test_a_token_without_our_node_gives_no_owner(tmp_path: Path, text: str) -> None:
    file = tmp_path / "token"
    file.write_text(text)

    assert node_owner(file, NODE) is None


def test_no_token_gives_no_owner(tmp_path: Path) -> None:
    assert node_owner(tmp_path / "absent", NODE) is None

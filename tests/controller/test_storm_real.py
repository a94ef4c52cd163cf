"""A storm of Events that do not tell of CDI, through a real server's watch.

``GPUCDI_STORM_EVENTS`` sets how many there are at least (default 2,000); with ``-s`` the test prints
what they cost.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.controller.conftest import Eventually, Run
from tests.controller.readings import reads_of_pods
from tests.controller.scene import MESSAGE, Scene, fresh
from tests.fakeapi.controlplane import ControlPlane
from tests.fakeapi.realapi import RealApi

pytestmark = [pytest.mark.lab, pytest.mark.timeout(900)]
LEAST = int(os.environ.get("GPUCDI_STORM_EVENTS", "2000"))
KUBELETS = 4
EVENTS = "/api/v1/namespaces/default/events"
EXPLAINED = "CdiDeviceUnresolvable"
HOUR_S = 3600.0


@dataclass
class Sheaf(RealApi):
    """Takes what a scene would put and keeps it."""

    kept: list[dict[str, Any]] = field(default_factory=list)

    def put(self, plural: str, body: dict[str, Any]) -> dict[str, Any]:
        assert plural == "events"
        self.kept.append({"apiVersion": "v1", "kind": "Event", **body})
        return body


@dataclass
class Storm:
    """Kubelets that cannot pull images: so many Events at least, and on until ``calm``."""

    plane: ControlPlane
    least: int
    calm: threading.Event = field(default_factory=threading.Event)
    numbers: Iterator[int] = field(default_factory=itertools.count)
    posted: list[int] = field(default_factory=list)

    def kubelet(self) -> None:
        sheaf = Sheaf(self.plane)
        scene = Scene(sheaf)
        server = urlsplit(self.plane.url).netloc
        connection = http.client.HTTPSConnection(server, context=sheaf._tls, timeout=60)
        while (number := next(self.numbers)) < self.least or not self.calm.is_set():
            name = f"pulls-{number % 50}"
            pod = {"metadata": {"namespace": "default", "name": name, "uid": f"uid-{name}"}}
            scene.warn(pod, f'Failed to pull image "registry/app:{number}": not found')
            body, sent = json.dumps(sheaf.kept.pop()), {"Content-Type": "application/json"}
            connection.request("POST", EVENTS, body, sent)
            with connection.getresponse() as answer:
                assert answer.status == 201, answer.read()
                answer.read()
            self.posted.append(number)
        connection.close()

    @asynccontextmanager
    async def blows(self) -> AsyncIterator[None]:
        """Blow during the block and until enough was posted."""
        kubelets = [asyncio.create_task(asyncio.to_thread(self.kubelet)) for _ in range(KUBELETS)]
        try:
            yield
            self.calm.set()
            await asyncio.gather(*kubelets)
        finally:
            self.least = 0
            self.calm.set()
            await asyncio.gather(*kubelets, return_exceptions=True)


@pytest.fixture
def swept(real: RealApi) -> Iterator[None]:
    """Delete the Events in pages: all at once would take longer than an answer may."""
    yield
    while real._send("GET", f"{EVENTS}?limit=1")["items"]:
        real._send("DELETE", f"{EVENTS}?limit=500")


@pytest.mark.usefixtures("swept")
async def test_a_storm_of_events_that_do_not_tell_of_cdi_costs_no_read_of_a_pod_and_delays_nobody(
    apiserver: ControlPlane, stage: Scene, run: Run, eventually: Eventually
) -> None:
    stage.node("r1")
    stage.agent_says("r1", fresh(drifted=True))
    storm = Storm(apiserver, LEAST)
    began = time.monotonic()
    async with run(pod_resync_s=HOUR_S, pod_get_s=HOUR_S) as operator:
        others = operator.metrics.events_seen.labels("false")._value
        await eventually(lambda: stage.condition("r1"))
        async with storm.blows():
            await eventually(lambda: others.get() >= LEAST // 4)
            assert reads_of_pods(operator) == 0
            stage.warn(stage.failing_pod("told", "r1", event=False), MESSAGE)
            failed = time.monotonic()
            # The storm goes on until this is done.
            await eventually(lambda: stage.events(EXPLAINED))
            took_s, seen = time.monotonic() - failed, others.get()
        await eventually(lambda: others.get() >= len(storm.posted) >= LEAST)
        await eventually(lambda: operator.pod_queue.is_idle)
        # The Pod that fails over a device, and once.
        assert reads_of_pods(operator) == 1
        assert len(operator.pods.tracks) == 1
    (event,) = stage.events(EXPLAINED)
    assert event["involvedObject"]["name"] == "told"
    print(
        f"{len(storm.posted)} Events in {time.monotonic() - began:.1f} s, no Pod read for them; "
        f"one that fails over a device was explained in {took_s:.2f} s, after {seen:.0f} others"
    )

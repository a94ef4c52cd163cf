"""``gpucdi-agent run``: the parts of the resident agent, put together.

Owns: which real things stand behind the seams, start and end of the process. Must not know: what
any part does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from gpucdi.api import Intent
from gpucdi.host import HostTree
from gpucdi_agent.cluster import ClusterLink
from gpucdi_agent.commands import HOST_PATH, HostRunner
from gpucdi_agent.files import RealFiles
from gpucdi_agent.generator import CtkGenerator
from gpucdi_agent.holds import HoldKeeper
from gpucdi_agent.inventory import find_library
from gpucdi_agent.logs import configure, log
from gpucdi_agent.loop import Loop, Settings
from gpucdi_agent.metrics import CONTENT_TYPE, Metrics
from gpucdi_agent.nvml import NvmlChild
from gpucdi_agent.passes import NodePass, Surroundings
from gpucdi_agent.programs import LivePrograms
from gpucdi_agent.recent import RecentNvml
from gpucdi_agent.server import Answer, Handlers, health, serve
from gpucdi_agent.state import StateStore
from gpucdi_agent.transaction import Transaction
from gpucdi_agent.units import RecentUnits, SystemdUnits
from gpucdi_kube import KubeApi, RequestRecord, SystemClock, connect
from gpucdi_kube.clock import rfc3339


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The command line of ``run``. ``state_dir`` is a host path; ``http`` is (host, port)."""

    node_name: str
    host_root: Path = Path("/")
    state_dir: str = "/var/lib/gpucdi"
    observe: bool = False
    interval_seconds: float = 300.0
    kubeconfig: str | None = None
    use_api: bool = True
    http: tuple[str, int] | None = None


# What stands behind the seams of a run with these options.
Stand: TypeAlias = Callable[[RunOptions], tuple[Surroundings, StateStore]]


def live_surroundings(options: RunOptions) -> tuple[Surroundings, StateStore]:
    """Return the real world below ``host_root``; in observe mode without a way to write."""
    host = HostTree(options.host_root)
    clock = SystemClock()
    files = RealFiles()
    runner = HostRunner(options.host_root)
    state = StateStore(host, files, options.state_dir)

    def now() -> str:
        return rfc3339(clock.now())

    return (
        Surroundings(
            host=host,
            programs=LivePrograms(host, runner),
            nvml=RecentNvml(NvmlChild(options.host_root), host, clock.monotonic),
            now=now,
            monotonic=clock.monotonic,
            generator=CtkGenerator(
                runner,
                # nvidia-ctk writes through a temporary file, and the host's /tmp may be read-only.
                environment={"PATH": HOST_PATH, "TMPDIR": f"{options.state_dir}/scratch"},
                library_path=lambda: find_library(host),
            ),
            state=state,
            transaction=None if options.observe else Transaction(host, state, files, now),
            holds=HoldKeeper(now, clock.monotonic),
            units=RecentUnits(SystemdUnits(options.host_root), clock.monotonic),
        ),
        state,
    )


def run(options: RunOptions, stand: Stand = live_surroundings) -> int:
    """Run until SIGTERM or SIGINT; files written stay, the Lease runs out.

    Returns 1 when the address to serve on is taken, 2 when the root is a damaged capture.
    """
    configure()
    problem = HostTree(options.host_root).capture.problem
    if problem is not None:
        # What else the tree says could be taken for a live node's.
        advice = "mend or remove it"
        log("no host to watch", logging.ERROR, problem=problem, advice=advice)
        return 2
    try:
        asyncio.run(_main(options, stand))
    except asyncio.CancelledError:
        log("ended by a signal")
    except OSError as error:
        # Only the listening socket can fail here: everything later is caught where it happens.
        log("cannot serve", logging.ERROR, address=options.http, error=str(error))
        return 1
    return 0


async def _main(options: RunOptions, stand: Stand) -> None:
    main_task = asyncio.current_task()
    if main_task is not None:
        for name in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(name, main_task.cancel)
    surroundings, state = stand(options)
    if not options.observe:
        _prepare(state)
    memory = state.memory()
    metrics = Metrics()
    loop = Loop(
        settings=Settings(options.node_name, options.interval_seconds, options.observe),
        host=surroundings.host,
        node_pass=NodePass(surroundings),
        metrics=metrics,
        clock=SystemClock(),
        state=state,
        intent=memory.intent or Intent(node_name=options.node_name),
        generation=memory.generation,
    )
    log("started", node=options.node_name, pid=os.getpid(), mode=loop.intent.mode.value)
    if options.http is not None:
        await serve(_handlers(loop, metrics), *options.http)
    async with asyncio.TaskGroup() as tasks:
        if options.use_api:
            link = _link(options, loop, metrics)
            loop.publish = link.show
            tasks.create_task(link.run())
        tasks.create_task(loop.run())


def _prepare(state: StateStore) -> None:
    try:
        state.prepare()
    except OSError as error:
        # Nothing will be written without a journal; each attempt then says so as a finding.
        log("the state directory cannot be used", 40, directory=state.directory, error=str(error))


def _handlers(loop: Loop, metrics: Metrics) -> Handlers:
    return {
        "/metrics": lambda: Answer(metrics.text(), content_type=CONTENT_TYPE),
        "/healthz": lambda: health(loop.health_problem()),
        "/readyz": lambda: health(loop.ready_problem()),
    }


def _link(options: RunOptions, loop: Loop, metrics: Metrics) -> ClusterLink:
    def observe(record: RequestRecord) -> None:
        metrics.requests.labels(record.verb, str(record.code)).inc()

    def connected() -> Awaitable[KubeApi]:
        return connect(options.kubeconfig, user_agent="gpucdi-agent", observe=observe)

    return ClusterLink(
        node_name=options.node_name,
        connect=connected,
        obey=loop.obey,
        is_alive=lambda: not loop.health_problem(),
        clock=SystemClock(),
    )

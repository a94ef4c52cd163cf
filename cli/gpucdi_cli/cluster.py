"""What the cluster says of its nodes, asked once.

Owns: the connection's options, the objects that are read, and errors in words. Must not know: how
they are shown.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from gpucdi.api import Intent, NodeStatus, fields, read_status
from gpucdi_cli.problems import CliError
from gpucdi_kube import CredentialsError, KubeApi, KubeError, RetryPolicy, connect, paths
from gpucdi_kube.errors import Forbidden, NotFound, Unauthorized, Unreachable

T = TypeVar("T")

# How long a person waits for a server that does not answer before wanting to know why.
_PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class FleetNode:
    """One GpuCdiStatus object as far as people look at it."""

    name: str
    intent: Intent
    status: NodeStatus

    @classmethod
    def of_object(cls, source: object) -> FleetNode:
        """Read an object of the API, however incomplete."""
        name = fields.text(fields.mapping(source, "metadata"), "name")
        intent = Intent.from_json(fields.mapping(source, "spec"))
        return cls(name, intent, read_status(fields.mapping(source, "status")))


def add_connection_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that kubectl has for the same purpose."""
    parser.add_argument("--kubeconfig", metavar="FILE", help="the kubeconfig to use")
    parser.add_argument("--context", metavar="NAME", help="the context in it")


def with_cluster(arguments: argparse.Namespace, session: Callable[[KubeApi], Awaitable[T]]) -> T:
    """Connect, run ``session``, close; whatever goes wrong becomes a :class:`CliError`."""

    async def run() -> T:
        api = await connect(
            arguments.kubeconfig,
            context=arguments.context,
            user_agent="gpucdi-cli",
            policy=RetryPolicy(deadline_s=_PATIENCE_S),
        )
        try:
            return await session(api)
        finally:
            await api.close()

    try:
        return asyncio.run(run())
    except CredentialsError as error:
        raise CliError(f"no cluster to ask: {error}", "name one with --kubeconfig") from error
    except NotFound as error:
        raise CliError(
            "the cluster has no GpuCdiStatus resource", "install gpucdi: see README, Install"
        ) from error
    except KubeError as error:
        raise CliError(f"the cluster did not answer as wanted: {error}", _advice(error)) from error


def _advice(error: KubeError) -> str:
    if isinstance(error, Forbidden):
        return "see whether you may: kubectl auth can-i get gpucdistatuses.gpucdi.io"
    if isinstance(error, Unauthorized):
        return "log in again: the credentials of this context were refused"
    if isinstance(error, Unreachable):
        return "see whether the API server of this context answers: kubectl version"
    return "try again; if it stays, ask the API server's log"


async def fleet(api: KubeApi) -> list[FleetNode]:
    """Return every node that an agent reports on, by name."""
    found = [FleetNode.of_object(item) async for item in api.list(paths.STATUSES)]
    return sorted(found, key=lambda node: node.name)


async def one_node(api: KubeApi, name: str) -> FleetNode:
    """Return one node; raise :class:`CliError` when no agent reports on it."""
    found = await api.get(paths.gpu_cdi_status(name))
    if found is None:
        raise CliError(
            f"no GpuCdiStatus is called {name}",
            "list the nodes with: gpucdi nodes; the agent runs on GPU nodes only",
        )
    return FleetNode.of_object(found)

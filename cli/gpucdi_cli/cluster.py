"""What the cluster says of its nodes, asked once.

Owns: the connection's options, the objects that are read, and errors in words. Must not know: how
they are shown.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from gpucdi.api import Intent, NodeStatus, fields, read_status
from gpucdi_cli.problems import CliError
from gpucdi_kube import CredentialsError, KubeApi, KubeError, RetryPolicy, connect, paths
from gpucdi_kube.errors import Forbidden, NotFound, Unauthorized, Unreachable

T = TypeVar("T")

# How long a person waits for a server that does not answer before wanting to know why.
_PATIENCE_S = 5.0
# As many names as fit into a line.
_SHOWN = 5
_NOT_INSTALLED = (
    "gpucdi is not installed in this cluster: it has no GpuCdiStatus resource; install it from a "
    "checkout (README, Install): kubectl apply -f crds/ -f manifests/install.yaml"
)


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
    # The kubeconfig's reader logs what the error below says as well.
    logging.getLogger("kubernetes").addHandler(logging.NullHandler())
    try:
        return asyncio.run(_connected(arguments, session))
    except CredentialsError as error:
        raise CliError(_no_credentials(arguments.kubeconfig, error)) from error
    except NotFound as error:
        raise CliError(_NOT_INSTALLED) from error
    except KubeError as error:
        silent = isinstance(error, Unreachable)
        fact = "the cluster does not answer" if silent else "the cluster did not answer as wanted"
        raise CliError(f"{fact}: {_in_one_line(error)}; {_advice(error)}") from error


async def _connected(
    arguments: argparse.Namespace, session: Callable[[KubeApi], Awaitable[T]]
) -> T:
    api = await connect(
        arguments.kubeconfig,
        context=arguments.context,
        user_agent="gpucdi-cli",
        policy=RetryPolicy(deadline_s=_PATIENCE_S, connect_timeout_s=_PATIENCE_S),
    )
    try:
        return await session(api)
    finally:
        await api.close()


def _no_credentials(named: str | None, error: CredentialsError) -> str:
    """Say in one line why there is no cluster to ask, and what to do."""
    if named is not None and not Path(named).exists():
        return f"there is no kubeconfig {named}; name another with --kubeconfig FILE"
    listed = os.environ.get("KUBECONFIG") or "~/.kube/config"
    places = [Path(place).expanduser() for place in listed.split(os.pathsep) if place]
    if named is None and not any(place.exists() for place in places):
        return (
            f"no cluster to ask: there is no kubeconfig {listed}; name one with --kubeconfig FILE, "
            "or look at a captured node with --root TREE (gpucdi inspect, gpucdi diff)"
        )
    return f"no cluster to ask: {_in_one_line(error)}; see kubectl config get-contexts"


def _in_one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _advice(error: KubeError) -> str:
    if isinstance(error, Forbidden):
        return "see whether you may: kubectl auth can-i list gpucdistatuses.gpucdi.io"
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
    if found is not None:
        return FleetNode.of_object(found)
    # A missing object and a missing resource are the same answer; only a list tells them apart.
    known = await _some_names(api)
    there = f"there are: {', '.join(known)}" if known else "no agent has reported yet"
    raise CliError(
        f"no GpuCdiStatus is called {name}; {there}",
        "list the nodes with: gpucdi nodes; the agent runs on GPU nodes only",
    )


async def _some_names(api: KubeApi) -> list[str]:
    """Return the first names that there are; none where they may not be listed."""
    found: list[str] = []
    try:
        async for item in api.list(paths.STATUSES, limit=_SHOWN):
            found.append(fields.text(fields.mapping(item, "metadata"), "name"))
            if len(found) == _SHOWN:
                return [*found, "…"]
    except (Forbidden, Unauthorized):
        return []
    return found

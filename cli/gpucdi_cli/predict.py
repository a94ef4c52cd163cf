"""``gpucdi predict``: what becomes of a Pod's containers on a captured node, before they start.

Owns: the command, and which engine and handler a Pod goes to. Must not know: the rules of any
release; they are ``gpucdi.toolkit``'s.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import yaml
from rich.console import Console

from gpucdi.api import fields
from gpucdi.engines import Engine, EngineName
from gpucdi.programs import CapturedPrograms
from gpucdi.toolkit import (
    HandlerRuntime,
    PodOutcome,
    kernel_inventory,
    predict_pod,
    rows_of,
)
from gpucdi_cli.console import make_console
from gpucdi_cli.forecast import Forecast
from gpucdi_cli.node_look import NodeLook, look, open_tree
from gpucdi_cli.pod_request import Added, NamedContainer, pod_containers
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM, CliError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("-f", "--filename", required=True, help="the Pod as YAML or JSON; - reads")
    parser.add_argument(
        "--root",
        required=True,
        metavar="TREE",
        help="a captured node: a folder, or the archive of gpucdi-agent capture",
    )
    parser.add_argument(
        "--handler", metavar="NAME", help="the RuntimeClass's handler, if it differs"
    )
    parser.add_argument(
        "--engine",
        choices=[name.value for name in EngineName],
        help="the engine that kubelet uses, if the node has several with such a handler",
    )
    _add_unseen(parser)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def _add_unseen(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what the image or the device plugin adds, for instance NVIDIA_VISIBLE_DEVICES=0",
    )
    parser.add_argument(
        "--cdi-device",
        action="append",
        default=[],
        metavar="KIND=NAME",
        help="what a device plugin or DRA driver hands to the engine by its qualified name",
    )
    parser.add_argument(
        "--annotation",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="what a device plugin annotates the container with (cdi.k8s.io/…)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Predict every container; exit 1 unless each gets what it asks for."""
    pod = read_pod(arguments.filename)
    containers = pod_containers(pod, _added(arguments))
    if not containers:
        raise CliError(f"{arguments.filename} has no containers", "give a Pod, not what makes it")
    name = arguments.handler or fields.text(fields.mapping(pod, "spec"), "runtimeClassName")
    with open_tree(arguments.root) as host:
        node = look(host)
        engine = find_engine(node, name, arguments.engine)
        found = [forecast(node, engine, name, item) for item in containers]
    if arguments.output == "json":
        listed = [item.as_json() for item in found]
        sys.stdout.write(json.dumps({"containers": listed}, indent=2) + "\n")
    else:
        show(make_console(), found, name)
    return EXIT_FINE if all(item.is_good for item in found) else EXIT_PROBLEM


def _added(arguments: argparse.Namespace) -> Added:
    return Added(
        environment=tuple(arguments.env),
        cdi_devices=tuple(arguments.cdi_device),
        annotations=dict(_pair(item) for item in arguments.annotation),
    )


def _pair(given: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals:
        raise CliError(f"--annotation {given} is not KEY=VALUE")
    return key, value


def forecast(node: NodeLook, engine: Engine, name: str, container: NamedContainer) -> Forecast:
    """Predict one container. ``name`` is the handler's, empty for the engine's default."""
    host = node.host
    outcome = predict_pod(
        host,
        CapturedPrograms.of(host),
        engine,
        name,
        container.request,
        inventory=kernel_inventory(host),
    )
    runtime = _runtime(node, engine, name)
    return Forecast(container, _told(outcome, engine, runtime, container), engine, runtime)


def _told(
    outcome: PodOutcome,
    engine: Engine,
    runtime: HandlerRuntime | None,
    container: NamedContainer,
) -> PodOutcome:
    """Add what a person needs to the reason: the other handlers, or that nobody reads a request."""
    if runtime is None:
        known = ", ".join(handler.name for handler in engine.handlers) or "none"
        advice = "a RuntimeClass may have another name than its handler: give that with --handler"
        return replace(outcome, reason=f"{outcome.reason}; there are: {known}; {advice}")
    if runtime.is_nvidia is False and container.origin and outcome.native is None:
        name = runtime.handler.name
        reason = f"handler {name} runs no NVIDIA runtime, so nobody reads the request"
        return replace(outcome, reason=reason)
    return outcome


def read_pod(filename: str) -> Mapping[str, object]:
    """Read one Pod; raise :class:`CliError` for anything else."""
    try:
        text = sys.stdin.read() if filename == "-" else Path(filename).read_text(encoding="utf-8")
        documents = [item for item in yaml.safe_load_all(text) if isinstance(item, dict)]
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CliError(f"{filename} cannot be read as YAML or JSON: {error}") from error
    pods = [item for item in documents if item.get("kind") == "Pod"]
    if len(pods) != 1:
        raise CliError(
            f"{filename} holds {len(pods)} Pods, not one", "kubectl get pod NAME -o yaml gives one"
        )
    return {str(key): value for key, value in pods[0].items()}


def find_engine(node: NodeLook, name: str, wanted: str | None) -> Engine:
    """Return the engine that has the handler, else the first; raise :class:`CliError` for none."""
    engines = node.observation.engines
    chosen = [engine for engine in engines if wanted in {None, engine.name.value}]
    if not chosen:
        known = ", ".join(engine.name.value for engine in engines) or "none"
        raise CliError(f"the node has no such container engine; there are: {known}")
    return next((engine for engine in chosen if engine.handler(name) is not None), chosen[0])


def _runtime(node: NodeLook, engine: Engine, name: str) -> HandlerRuntime | None:
    handler = engine.handler(name)
    rows = rows_of(node.observation.engines, node.observation.runtimes)
    return next(
        (row.runtime for row in rows if row.engine is engine and row.handler == handler), None
    )


def show(console: Console, found: Sequence[Forecast], name: str) -> None:
    """Print one paragraph a container."""
    engine, runtime = found[0].engine, found[0].runtime
    version = engine.version.value or "of unknown version"
    config = runtime.config.file if runtime is not None and runtime.config else "none"
    handler = runtime.handler.name if runtime is not None else name or "(default)"
    console.print(f"handler {handler} of {engine.name.value} {version}; config {config}")
    for item in found:
        console.print()
        item.show(console)

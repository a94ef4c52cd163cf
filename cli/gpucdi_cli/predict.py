"""``gpucdi predict``: what becomes of a Pod's containers on a captured node, before they start.

Owns: the command, and which engine and handler a Pod goes to. Must not know: the rules of any
release; they are ``gpucdi.toolkit``'s.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

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
from gpucdi_cli.intake import read_text
from gpucdi_cli.node_look import NodeLook, look, open_tree
from gpucdi_cli.output import json_text
from gpucdi_cli.pasted import GET_POD, Object, named, read_pasted, template_of
from gpucdi_cli.pod_request import Added, NamedContainer, pod_containers
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM, CliError

_EPILOG = """\
example:
  gpucdi predict -f pod.yaml --root node.tar.gz --env NVIDIA_VISIBLE_DEVICES=all

exit codes:
  0  every container gets what it asks for, or asks for nothing
  1  at least one does not, or it cannot be told
  2  the Pod or the tree could not be read, or the usage is wrong
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "-f",
        "--filename",
        required=True,
        metavar="FILE",
        help="a Pod, or what makes one, as YAML or JSON, with its RuntimeClass if at hand; - is "
        "standard input",
    )
    parser.add_argument(
        "--root",
        required=True,
        metavar="TREE",
        help="a captured node: a folder, or the archive of gpucdi-agent capture",
    )
    parser.add_argument(
        "--handler", metavar="NAME", help="the runtime handler, where no RuntimeClass in FILE tells"
    )
    parser.add_argument(
        "--engine",
        choices=[name.value for name in EngineName],
        help="the engine that kubelet uses, if the node has several with such a handler",
    )
    _add_unseen(parser)
    parser.add_argument(
        "-o", "--output", choices=("text", "json"), default="text", help="default: text"
    )


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
    added = _added(arguments)
    pod, handlers = read_pod(arguments.filename)
    containers = pod_containers(pod, added)
    if not containers:
        raise CliError(
            f"{arguments.filename} holds a Pod that has no containers", "give the whole of it"
        )
    name = _handler_of(pod, handlers) if arguments.handler is None else arguments.handler
    with open_tree(arguments.root) as host:
        node = look(host)
        engine = find_engine(node, name, arguments.engine)
        found = [forecast(node, engine, name, item) for item in containers]
    if arguments.output == "json":
        listed = [item.as_json() for item in found]
        sys.stdout.write(json_text({"containers": listed}))
    else:
        show(make_console(), found, name)
    return EXIT_FINE if all(item.is_good for item in found) else EXIT_PROBLEM


def _added(arguments: argparse.Namespace) -> Added:
    for given in arguments.env:
        _pair("--env", given, "NAME=VALUE, for instance NVIDIA_VISIBLE_DEVICES=all")
    if not all(name.strip() for name in arguments.cdi_device):
        raise CliError("--cdi-device is empty", "give a qualified name: nvidia.com/gpu=0")
    form = "KEY=VALUE, for instance cdi.k8s.io/gpus=nvidia.com/gpu=0"
    return Added(
        environment=tuple(arguments.env),
        cdi_devices=tuple(arguments.cdi_device),
        annotations=dict(_pair("--annotation", item, form) for item in arguments.annotation),
    )


def _pair(flag: str, given: str, form: str) -> tuple[str, str]:
    key, equals, value = given.partition("=")
    if not equals or not key:
        raise CliError(f"{flag} {given!r} is not {form.partition(',')[0]}", f"give {form}")
    return key, value


def _handler_of(pod: Object, handlers: Mapping[str, str]) -> str:
    """Return the handler of the Pod's RuntimeClass, empty for the engine's default.

    Without the RuntimeClass its handler is taken to have its name.
    """
    name = fields.text(fields.mapping(pod, "spec"), "runtimeClassName")
    return handlers.get(name) or name


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


def read_pod(filename: str) -> tuple[Object, Mapping[str, str]]:
    """Return the one Pod of a file, and the handlers of the RuntimeClasses beside it.

    What makes Pods (a Deployment, a Job) stands for the Pod of its template. Raises
    :class:`CliError` for none and for several.
    """
    pasted = read_pasted(read_text(filename, verb="predict", advice=f"pipe a Pod: {GET_POD}"))
    if pasted.problem:
        raise CliError(f"{filename} cannot be read as YAML or JSON: {pasted.problem}")
    pods = pasted.of_kind("Pod")
    if not pods:
        templates = (template_of(item) for item in pasted.objects)
        pods = tuple(item for item in templates if item is not None)
    if len(pods) != 1:
        others = [named(item) for item in pasted.objects if fields.text(item, "kind")]
        held = f", but {', '.join(others[:3])}" if others and not pods else ""
        raise CliError(f"{filename} holds {len(pods)} Pods, not one{held}", f"{GET_POD} gives one")
    return pods[0], pasted.handlers


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

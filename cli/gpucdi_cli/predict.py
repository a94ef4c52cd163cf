"""``gpucdi predict``: what becomes of a Pod's containers on a captured node, before they start.

Owns: the command and its JSON. Must not know: the rules of any release; they are
``gpucdi.toolkit``'s.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import yaml
from rich.console import Console
from rich.text import Text

from gpucdi.api import fields
from gpucdi.api.fields import Json
from gpucdi.cdi import reader_library
from gpucdi.engines import Engine
from gpucdi.host import HostTree
from gpucdi.node.observation import TOOLKIT
from gpucdi.toolkit import HandlerRuntime, Outcome, Verdict, predict
from gpucdi_cli.console import make_console, rule
from gpucdi_cli.node_look import NodeLook, look, open_tree
from gpucdi_cli.pod_request import PodContainer, pod_containers
from gpucdi_cli.problems import EXIT_FINE, EXIT_PROBLEM, CliError

_STYLES = {
    Verdict.DEVICES: "green",
    Verdict.OTHER_MECHANISM: "green",
    Verdict.WITHOUT_GPU: "yellow",
    Verdict.UNKNOWN: "yellow",
    Verdict.FAILS: "bold red",
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One container with its outcome."""

    container: PodContainer
    outcome: Outcome

    @property
    def is_good(self) -> bool:
        """True when the container gets what it asks for, or asks for nothing."""
        if self.outcome.verdict is Verdict.WITHOUT_GPU:
            return not self.container.origin and not self.container.unseen
        return self.outcome.verdict in {Verdict.DEVICES, Verdict.OTHER_MECHANISM}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument("-f", "--filename", required=True, help="the Pod as YAML or JSON; - reads")
    parser.add_argument("--root", required=True, metavar="TREE", help="a captured node (a folder)")
    parser.add_argument(
        "--handler", metavar="NAME", help="the RuntimeClass's handler, if it differs"
    )
    parser.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="what the image or the device plugin adds, for instance NVIDIA_VISIBLE_DEVICES=0",
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text")


def run(arguments: argparse.Namespace) -> int:
    """Predict every container; exit 1 unless each gets what it asks for."""
    pod = read_pod(arguments.filename)
    node = look(open_tree(arguments.root))
    spec = fields.mapping(pod, "spec")
    name = arguments.handler or fields.text(spec, "runtimeClassName")
    engine, runtime = find_runtime(node, name)
    containers = pod_containers(pod, runtime.handler, arguments.env)
    if not containers:
        raise CliError(f"{arguments.filename} has no containers", "give a Pod, not what makes it")
    found = [Prediction(item, outcome_of(node.host, runtime, item)) for item in containers]
    if arguments.output == "json":
        listed: list[Json] = [_as_json(item, engine, runtime) for item in found]
        sys.stdout.write(json.dumps({"containers": listed}, indent=2) + "\n")
    else:
        show(make_console(), found, engine, runtime)
    return EXIT_FINE if all(item.is_good for item in found) else EXIT_PROBLEM


def outcome_of(host: HostTree, runtime: HandlerRuntime, container: PodContainer) -> Outcome:
    """Predict one container; a handler that is no NVIDIA runtime reads no request at all."""
    outcome = predict(host, runtime, container.request)
    if runtime.is_nvidia is False and container.origin:
        reason = (
            f"handler {runtime.handler.name} runs no NVIDIA runtime, so nobody reads the request"
        )
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


def find_runtime(node: NodeLook, name: str) -> tuple[Engine, HandlerRuntime]:
    """Return the handler called ``name``, of the engine that kubelet uses as far as can be told."""
    for engine in node.observation.engines:
        handler = engine.handler(name)
        for runtime in node.observation.runtimes:
            if handler is not None and runtime.handler == handler:
                return engine, runtime
    known = ", ".join(runtime.handler.name for runtime in node.observation.runtimes) or "none"
    raise CliError(
        f"no engine of the node has the handler {name or '(default)'!r}; there are: {known}",
        "a RuntimeClass may have another name than its handler: give that with --handler",
    )


def show(
    console: Console, found: list[Prediction], engine: Engine, runtime: HandlerRuntime
) -> None:
    """Print one paragraph a container."""
    version = engine.version.value or "of unknown version"
    config = runtime.config.file if runtime.config else "none"
    console.print(
        f"handler {runtime.handler.name} of {engine.name.value} {version}; config {config}"
    )
    for item in found:
        console.print()
        rule(console, f"container {item.container.name}")
        _show_one(console, item)


def _show_one(console: Console, item: Prediction) -> None:
    outcome = item.outcome
    mode = f" (mode {outcome.mode.value})" if outcome.mode else ""
    console.print(Text.assemble((outcome.verdict.value, _STYLES[outcome.verdict]), mode))
    for name in outcome.names:
        lost = name in outcome.unresolved
        console.print(Text(f"  {'✘' if lost else '✔'} {name}", style="red" if lost else "green"))
        if name in outcome.why:
            console.print(Text(f"    {outcome.why[name].detail}", style="dim"))
    lines = (
        ("asked for by", item.container.origin),
        ("device nodes", ", ".join(outcome.nodes)),
        ("refused by", outcome.step.value if outcome.step else ""),
        ("text", outcome.text or ("the runtime crashes" if outcome.crashes else "")),
        ("because", outcome.reason or ""),
        ("not seen", item.container.unseen and f"{item.container.unseen}; add it with --env"),
    )
    for title, text in lines:
        if text:
            console.print(f"  {title}: {text}")


def _as_json(item: Prediction, engine: Engine, runtime: HandlerRuntime) -> dict[str, Json]:
    """Return the documented fields (``docs/predict.md``); what is unknown is ``null``."""
    config, outcome = runtime.config, item.outcome
    version = runtime.toolkit.version.value if runtime.toolkit else None
    library = reader_library(TOOLKIT, version) if version else None
    return {
        "container": item.container.name,
        "engine": engine.name.value,
        "engineVersion": engine.version.value,
        "handler": runtime.handler.name,
        "binary": runtime.program,
        "config": config.file if config else None,
        "toolkitVersion": version,
        "mode": outcome.mode.value if outcome.mode else None,
        "defaultKind": config.default_kind.value if config else None,
        "specDirs": list(config.spec_dirs.value) if config else None,
        "library": str(library) if library else None,
        "names": list(outcome.names),
        "unresolved": list(outcome.unresolved),
        "outcome": outcome.verdict.value,
        "text": outcome.text,
        "reason": outcome.reason,
        "deviceNodes": list(outcome.nodes),
        "origin": item.container.origin or None,
        "unseen": item.container.unseen or None,
    }

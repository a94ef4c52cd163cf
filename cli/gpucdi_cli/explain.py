"""``gpucdi explain``: why a Pod failed, from whatever was pasted.

Owns: the command and its three outputs. Must not know: how a text is parsed or a cause is found.
The JSON is documented in ``docs/explain.md``.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from gpucdi.api import Intent, NameRequest, NodeStatus
from gpucdi.api.fields import Json
from gpucdi.diagnosis import (
    Diagnosis,
    as_document,
    as_markdown,
    as_text,
    diagnose_all,
    diagnose_nothing,
    diagnose_silent,
)
from gpucdi.failures.names import device_of, kind_of
from gpucdi.node import PassContext, assess, node_status, observe, proc_inventory
from gpucdi.programs import CapturedPrograms
from gpucdi_cli.intake import read_text
from gpucdi_cli.node_look import check_handler, open_tree
from gpucdi_cli.output import json_text
from gpucdi_cli.pasted import GET_POD, read_pasted, refuse_manifests, refuse_without_failure
from gpucdi_cli.problems import EXIT_FINE
from gpucdi_cli.subjects import Asked, asked_of, name_of

_EPILOG = """\
examples:
  kubectl get pod NAME -o yaml | gpucdi explain
  kubectl describe pod NAME | gpucdi explain
  gpucdi explain pod.yaml --root node.tar.gz -o markdown

exit codes:
  0  the input could be read, whatever the verdict
  2  it could not: nothing given, no text, no Pod, no such file, tree or handler
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.epilog = _EPILOG
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="an error text, Pods or Events (YAML or JSON), or what `kubectl describe pod` prints; "
        "standard input without it, or with -",
    )
    parser.add_argument(
        "--root", metavar="TREE", help="the captured node that the Pod ran on (folder or archive)"
    )
    parser.add_argument(
        "--handler",
        metavar="NAME",
        help="the runtime handler, where the RuntimeClass is called differently",
    )
    parser.add_argument(
        "-o",
        "--output",
        choices=("text", "markdown", "json"),
        default="text",
        help="text for a terminal (the default), markdown for a ticket, json for programs",
    )


@dataclass(frozen=True, slots=True)
class Explained:
    """One subject with its diagnoses, the one to act on first; ``silent`` when nothing is wrong."""

    asked: Asked
    diagnoses: tuple[Diagnosis, ...]
    silent: bool


def run_explain(arguments: argparse.Namespace) -> int:
    """Explain what was pasted; exit 0 when it could be read, whatever the verdict."""
    advice = f"pipe a text into it: {GET_POD} | gpucdi explain"
    pasted = read_pasted(read_text(arguments.file, verb="explain", advice=advice))
    asked = asked_of(pasted)
    if not any(item.subject.failures or item.pod for item in asked):
        refuse_without_failure(pasted)
    node = None
    if arguments.root is not None:
        node = _node(arguments.root, asked, arguments.handler)
    found = [_explained(item, pasted.text, node, arguments.handler) for item in asked]
    if all(item.silent for item in found):
        refuse_manifests(pasted)
    sys.stdout.write(_rendered(arguments.output, found))
    return EXIT_FINE


def _node(root: str, asked: Sequence[Asked], handler: str | None) -> NodeStatus:
    # What failed is asked of the node as well, so that kinds no handler refers to are judged too.
    requests: dict[str, list[str]] = {}
    for item in asked:
        for found in item.subject.failures:
            for name in found.failure.names:
                requests.setdefault(kind_of(name), []).append(device_of(name))
    intent = Intent(
        requests=tuple(NameRequest(kind, tuple(names)) for kind, names in requests.items())
    )
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open_tree(root) as host:
        observation = observe(host, CapturedPrograms.of(host), proc_inventory(host), intent)
        check_handler(observation, handler or None)
        return node_status(assess(observation, host), PassContext(now=now))


def _explained(asked: Asked, text: str, node: NodeStatus | None, given: str | None) -> Explained:
    diagnoses = _diagnoses(asked, node, given if given is not None else asked.handler)
    silent = not diagnoses
    if silent:
        # Of a Pod that was read its own texts count, not every word around it.
        diagnoses = (diagnose_nothing("" if asked.pod else text, pod=asked.pod, node=node),)
    unseen = _unseen_handler(asked, node, given)
    if unseen:
        first = replace(diagnoses[0], not_seen=(*diagnoses[0].not_seen, unseen))
        diagnoses = (first, *diagnoses[1:])
    return Explained(asked, diagnoses, silent)


def _unseen_handler(asked: Asked, node: NodeStatus | None, given: str | None) -> str:
    """Say what is not known of the Pod's handler, empty where nothing is missing."""
    if node is None:
        told = f"what the handler {given} runs: only a captured node tells, behind --root"
        return told if given else ""
    pod = asked.pod
    name = pod.runtime_class if pod is not None else None
    if given is not None or asked.handler is not None or name is None or node.handler(name):
        return ""
    return (
        f"the handler of RuntimeClass {name}: the node has none of that name; paste the "
        "RuntimeClass with the Pod, or name its handler with --handler"
    )


def _diagnoses(asked: Asked, node: NodeStatus | None, handler: str | None) -> tuple[Diagnosis, ...]:
    pod = asked.pod
    failures = [found.failure for found in asked.subject.failures]
    if failures:
        return diagnose_all(failures, pod=pod, node=node, handler=handler)
    if pod is None or not pod.is_whole or node is None:
        return ()
    silent = diagnose_silent(pod=pod, node=node, handler=handler)
    return () if silent is None else (silent,)


def _rendered(output: str, found: Sequence[Explained]) -> str:
    if output == "json":
        documents = [_document(item) for item in found]
        shown: Json = documents[0] if len(documents) == 1 else list(documents)
        return json_text(shown)
    render = as_markdown if output == "markdown" else as_text
    # Among many Pods, those that are well are worth a line, not a paragraph each.
    told = [item for item in found if len(found) == 1 or not item.silent]
    parts = [
        _title(item.asked, output) + render(item.diagnoses[0]) + _others(item.diagnoses[1:])
        for item in told
    ]
    well = [
        name_of(item.asked.pod) if item.asked.pod else "a text"
        for item in found
        if item not in told
    ]
    if well:
        parts.append(f"No failure of CDI devices: {', '.join(well)}\n")
    return "\n".join(parts)


def _document(item: Explained) -> dict[str, Json]:
    main, subject, pod = item.diagnoses[0], item.asked.subject, item.asked.pod
    where = next((one for one in subject.failures if one.failure == main.failure), None)
    # An Event or a text tells of a moment, a status of what is.
    has_status = pod is not None and pod.is_whole
    return {
        **as_document(main, item.diagnoses[1:]),
        "pod": {"namespace": pod.namespace, "name": pod.name, "node": pod.node} if pod else None,
        "container": (where.container or None) if where else None,
        "reason": (where.reason or None) if where else None,
        "still_failing": where.still_failing if where and has_status else None,
    }


def _title(asked: Asked, output: str) -> str:
    pod = asked.pod
    if pod is None or not pod.name:
        return ""
    node = f" on node {pod.node}" if pod.node else ""
    title = f"Pod {name_of(pod)}{node}"
    return f"### {title}\n\n" if output == "markdown" else f"{title}\n"


def _others(diagnoses: Sequence[Diagnosis]) -> str:
    lines = [f"Also seen: {item.cause}: {item.summary}" for item in diagnoses]
    return "".join(f"{line}\n" for line in lines)

"""``gpucdi explain``: why a Pod failed, from whatever was pasted.

Owns: the command, its input and its three outputs. Must not know: how a text is parsed or a cause
is found. The JSON is documented in ``docs/explain.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

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
from gpucdi.failures import Report, Subject, read_report
from gpucdi.failures.names import device_of, kind_of
from gpucdi.host import HostTree
from gpucdi.node import Assessment, PassContext, assess, node_status, observe, proc_inventory
from gpucdi.programs import CapturedPrograms
from gpucdi_cli.node_look import open_tree
from gpucdi_cli.problems import EXIT_FINE, CliError

INPUT_LIMIT_BYTES = 32 * 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's options."""
    parser.add_argument(
        "file",
        nargs="?",
        default="-",
        metavar="FILE",
        help="an error text, a Pod (YAML or JSON), or `kubectl describe pod` output; - is stdin",
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
        "-o", "--output", choices=("text", "markdown", "json"), default="text", help="default: text"
    )


def run_explain(arguments: argparse.Namespace) -> int:
    """Explain what was pasted; exit 0 when it could be read, whatever the verdict."""
    content = _read(arguments.file)
    report = read_report(content)
    node = _node(arguments.root, report) if arguments.root else None
    found = [
        _diagnose(subject, content, node, _handler(arguments.handler, subject, report.handlers))
        for subject in report.subjects
    ]
    sys.stdout.write(_rendered(arguments.output, report.subjects, found))
    return EXIT_FINE


def _read(file: str) -> str:
    try:
        if file == "-":
            raw = sys.stdin.buffer.read(INPUT_LIMIT_BYTES + 1)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(INPUT_LIMIT_BYTES + 1)
    except OSError as error:
        raise CliError(f"{file} cannot be read: {error.strerror}") from error
    if len(raw) > INPUT_LIMIT_BYTES:
        limit = INPUT_LIMIT_BYTES // (1024 * 1024)
        raise CliError(f"more than {limit} MiB were given", "give the part that holds the failure")
    if not raw.strip():
        raise CliError(
            "there is nothing to explain",
            "pipe a text into it: kubectl get pod NAME -o yaml | gpucdi explain",
        )
    return raw.decode("utf-8", "replace")


def _node(root: str, report: Report) -> NodeStatus:
    now = datetime.now(tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open_tree(root) as host:
        return node_status(_assessed(host, report), PassContext(now=now))


def _assessed(host: HostTree, report: Report) -> Assessment:
    # What failed is asked of the node as well, so that kinds no handler refers to are judged too.
    requests: dict[str, list[str]] = {}
    for subject in report.subjects:
        for found in subject.failures:
            for name in found.failure.names:
                requests.setdefault(kind_of(name), []).append(device_of(name))
    intent = Intent(
        requests=tuple(NameRequest(kind, tuple(names)) for kind, names in requests.items())
    )
    return assess(observe(host, CapturedPrograms.of(host), proc_inventory(host), intent), host)


def _handler(given: str | None, subject: Subject, handlers: Mapping[str, str]) -> str | None:
    if given is not None:
        return given
    runtime_class = subject.pod.runtime_class if subject.pod else None
    return handlers.get(runtime_class) if runtime_class else None


def _diagnose(
    subject: Subject, content: str, node: NodeStatus | None, handler: str | None
) -> tuple[Diagnosis, ...]:
    failures = [found.failure for found in subject.failures]
    if failures:
        return diagnose_all(failures, pod=subject.pod, node=node, handler=handler)
    if subject.pod is not None and node is not None:
        silent = diagnose_silent(pod=subject.pod, node=node, handler=handler)
        if silent is not None:
            return (silent,)
    return (diagnose_nothing(content if subject.pod is None else ""),)


def _rendered(
    output: str, subjects: Sequence[Subject], found: Sequence[tuple[Diagnosis, ...]]
) -> str:
    if output == "json":
        documents = [_document(*pair) for pair in zip(subjects, found, strict=True)]
        shown: Json = documents[0] if len(documents) == 1 else list(documents)
        return json.dumps(shown, indent=2, ensure_ascii=False) + "\n"
    render = as_markdown if output == "markdown" else as_text
    parts = [
        _title(subject, output) + render(diagnoses[0]) + _others(diagnoses[1:])
        for subject, diagnoses in zip(subjects, found, strict=True)
    ]
    return "\n".join(parts)


def _document(subject: Subject, diagnoses: tuple[Diagnosis, ...]) -> dict[str, Json]:
    main = diagnoses[0]
    where = next((item for item in subject.failures if item.failure == main.failure), None)
    pod = subject.pod
    return {
        **as_document(main, diagnoses[1:]),
        "pod": {"namespace": pod.namespace, "name": pod.name, "node": pod.node} if pod else None,
        "container": (where.container or None) if where else None,
        "reason": (where.reason or None) if where else None,
        "still_failing": where.still_failing if where and pod else None,
    }


def _title(subject: Subject, output: str) -> str:
    pod = subject.pod
    if pod is None or not pod.name:
        return ""
    node = f" on node {pod.node}" if pod.node else ""
    name = f"{pod.namespace}/{pod.name}" if pod.namespace else pod.name
    return f"### Pod {name}{node}\n\n" if output == "markdown" else f"Pod {name}{node}\n"


def _others(diagnoses: Sequence[Diagnosis]) -> str:
    lines = [f"Also seen: {item.cause}: {item.summary}" for item in diagnoses]
    return "".join(f"{line}\n" for line in lines)

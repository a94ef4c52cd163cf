"""The Pod that the demo is about, read from a captured tree.

Owns: ``pod.yaml`` and ``runtimeclass.yaml`` at the top of the tree. Must not know: the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

from gpucdi.api import fields
from gpucdi.failures import pod_failures, pod_view
from gpucdi_cli.problems import CliError


@dataclass(frozen=True, slots=True)
class FailingPod:
    """What failed, where, for which names (fully qualified), and who asked for them."""

    title: str
    container: str
    reason: str
    text: str
    names: tuple[str, ...]
    runtime_class: str
    handler: str
    handler_note: str
    chosen_by: str


def read_failing_pod(tree: Path) -> FailingPod:
    """Read the first failure over unresolved devices; raise :class:`CliError` when there is none."""
    pod = _load(tree / "pod.yaml")
    view = pod_view(pod)
    failure = next((item for item in pod_failures(pod) if item.failure.names), None)
    if failure is None:
        raise CliError(
            f"{tree / 'pod.yaml'} does not fail over CDI devices",
            "give a Pod whose status has the text; gpucdi explain says what it reads in one",
        )
    handler, note = _handler(tree, view.runtime_class or "")
    return FailingPod(
        title=f"{view.namespace}/{view.name} on {view.node}",
        container=failure.container,
        reason=failure.reason,
        text=failure.failure.text,
        names=failure.failure.names,
        runtime_class=view.runtime_class or "none",
        handler=handler,
        handler_note=note,
        chosen_by=view.requesters[0].name.value if view.requesters else "somebody",
    )


def _handler(tree: Path, runtime_class: str) -> tuple[str, str]:
    if not runtime_class:
        return "", "none named: the engine's default handler"
    path = tree / "runtimeclass.yaml"
    if path.is_file():
        found = _load(path)
        if fields.text(fields.mapping(found, "metadata"), "name") == runtime_class:
            handler = fields.text(found, "handler")
            return handler, f"handler {handler}"
    return runtime_class, "the RuntimeClass is not captured; its handler is taken to have its name"


def _load(path: Path) -> dict[str, object]:
    try:
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise CliError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise CliError(f"{path} is no Kubernetes object")
    return {str(key): value for key, value in found.items()}

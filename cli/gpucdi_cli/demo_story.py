"""The demo's chapters: each prints one part of what is known.

Owns: the words. Must not know: how anything is found out, copied or run.
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from gpucdi.cdi import Registry
from gpucdi.toolkit import HandlerRuntime
from gpucdi_cli.chain import Line, Link, Mark, device_list, handler_chain
from gpucdi_cli.console import rule
from gpucdi_cli.demo_agent import AgentRun, Choice
from gpucdi_cli.demo_pod import FailingPod
from gpucdi_cli.drawing import draw_chain, draw_findings, state_line
from gpucdi_cli.node_look import NodeLook


@dataclass(frozen=True, slots=True)
class Scene:
    """What the whole story is about: the node as captured, the Pod, and the runtime it goes through.

    ``registry`` is what that runtime resolves before anything is repaired.
    """

    node: NodeLook
    pod: FailingPod
    runtime: HandlerRuntime
    registry: Registry

    @property
    def kind(self) -> str:
        """The kind that the Pod's names are of."""
        return self.pod.names[0].partition("=")[0]

    @property
    def short_names(self) -> tuple[str, ...]:
        """The Pod's names without their kind."""
        return tuple(name.partition("=")[2] for name in self.pod.names)

    @property
    def missing(self) -> frozenset[str]:
        """The names of the kind that should resolve and do not."""
        kind = self.node.assessment.kind(self.kind)
        return frozenset(item.name for item in kind.missing) if kind else frozenset()


def chapter(console: Console, number: int, title: str) -> None:
    """Begin a chapter."""
    console.print()
    rule(console, f"{number}. {title}")


def tell_symptom(console: Console, scene: Scene) -> None:
    """Print the Pod's own words, and that the GPU is there."""
    chapter(console, 1, "What the person on call sees")
    pod, gpus = scene.pod, scene.node.status.gpus
    console.print(f"Pod {pod.title}, container {pod.container}: {pod.reason}")
    console.print(Text(f"  {pod.text}", style="red"))
    console.print(f"although the driver ({gpus.driver}) lists the GPU:")
    for gpu in gpus.devices:
        asked = "  <- the one asked for" if gpu.uuid in scene.short_names else ""
        console.print(f"  {gpu.uuid}  {gpu.model}  {gpu.pci}{asked}")


def tell_chain(console: Console, scene: Scene) -> None:
    """Draw the way from the Pod to the spec files."""
    chapter(console, 2, "What happens between the Pod and the spec files")
    pod = scene.pod
    chosen = f"{pod.chosen_by} chose {device_list(list(scene.short_names))}"
    links = (
        Link("Pod", (Line(pod.title, chosen),)),
        Link("RuntimeClass", (Line(pod.runtime_class, pod.handler_note),)),
        *handler_chain(scene.node.observation, scene.runtime, scene.short_names),
    )
    draw_chain(console, links)


def tell_cause(console: Console, scene: Scene) -> None:
    """Name the cause, the near miss and the file that misleads."""
    chapter(console, 3, "Cause")
    kind = scene.node.assessment.kind(scene.kind)
    if kind is None or kind.cause is None:
        console.print("none: every name that this Pod asks for resolves")
        return
    present = device_list(sorted(scene.registry.names_of(scene.kind)))
    missing, expected = len(kind.missing), len(kind.expected)
    _fact(
        console,
        kind.cause.value,
        f"{scene.kind} defines {present}; {missing} of the {expected} names it should have are missing",
        style="bold red",
    )
    near = kind.near_miss
    if near is not None:
        specs = [file for file in scene.registry.files if file.spec and file.spec.kind == near.kind]
        where = ", ".join(file.path for file in specs)
        _fact(console, "Near miss", f"{near.count} of them exist as {near.kind}, in {where}")
    for other in scene.runtime.conflicting_configs:
        _fact(
            console,
            "Trap",
            f"{other.file} says mode {other.mode.value}, default-kind {other.default_kind.value};"
            " this handler does not read it",
        )


def _fact(console: Console, title: str, text: str, *, style: str = "bold") -> None:
    console.print(Text.assemble((f"{title}: ", style), text))


def tell_repair(console: Console, choice: Choice, run: AgentRun) -> None:
    """Print who generates, what was run and what came of it."""
    chapter(console, 5, "Repair, on a copy of the node")
    style = "bold" if choice.is_real else "bold yellow"
    _fact(console, "Generator", choice.title, style=style)
    console.print(Text(f"  because {choice.why}", style="dim"))
    _fact(console, "Command", run.command)
    for line in (*run.changes, *run.refusals):
        console.print(line)
    if not run.changes:
        console.print("the agent changed nothing")
        draw_findings(console, run.status.findings)
    console.print(Text.assemble("the agent says of the copy: ", state_line(run.status)))


def tell_outcome(console: Console, scene: Scene, after: Registry) -> bool:
    """Print what resolves now; return whether everything is as it should be."""
    chapter(console, 6, "After the repair, as the same runtime sees the copy")
    lines = [*_requested(scene, after), _all(scene, after), _kept(scene, after)]
    for line in lines:
        good = line.mark is Mark.GOOD
        sign, style = ("✔", "green") if good else ("✘", "bold red")
        console.print(Text(f"{sign} {line.text}", style=style))
        if line.note:
            console.print(Text(f"  {line.note}", style="dim"))
    return all(line.mark is Mark.GOOD for line in lines)


def _requested(scene: Scene, after: Registry) -> list[Line]:
    lines: list[Line] = []
    for name in scene.pod.names:
        answer = after.resolve([name])
        if answer.edits is None:
            lines.append(Line(f"{name} does not resolve", answer.error or "", Mark.BAD))
            continue
        nodes = ", ".join(node.path for node in answer.edits.device_nodes)
        note = f"from {after.devices[name].file.path}: {nodes}"
        lines.append(Line(f"{name} resolves now", note, Mark.GOOD))
    return lines


def _all(scene: Scene, after: Registry) -> Line:
    name = f"{scene.kind}=all"
    edits = after.resolve([name]).edits
    if edits is None or edits != scene.registry.resolve([name]).edits:
        return Line(f"{name} is not what it was", "", Mark.BAD)
    count = len(edits.device_nodes)
    note = f"from {after.devices[name].file.path}: the same {count} device nodes as before"
    return Line(f"{name} still resolves", note, Mark.GOOD)


def _kept(scene: Scene, after: Registry) -> Line:
    before = scene.registry.devices
    lost = sorted(set(before) - set(after.devices))
    if lost:
        return Line(f"{len(lost)} names no longer resolve", ", ".join(lost), Mark.BAD)
    return Line(f"all {len(before)} names that resolved before still do", "", Mark.GOOD)

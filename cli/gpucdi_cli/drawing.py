"""Draws a node for people: the chain, the kinds, the findings.

Owns: layout and colour. Must not know: where the facts come from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.text import Text

from gpucdi.api import HandlerStatus, KindStatus, NodeStatus
from gpucdi.findings import Finding, Severity, Who
from gpucdi_cli.chain import Line, Link, Mark
from gpucdi_cli.console import STATE_STYLES, plain_table, print_table

_TITLE_WIDTH = 13
_SIGNS = {
    Mark.NONE: (" ", ""),
    Mark.GOOD: ("✔", "green"),
    Mark.BAD: ("✘", "bold red"),
    Mark.ASIDE: ("·", "dim"),
}
_SEVERITY_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "dim"}
_WHO = {
    Who.GPUCDI: "gpucdi repairs it",
    Who.COMPONENT: "restart its owner",
    Who.ADMIN: "for the admin",
    Who.USER: "for the owner of the Pod",
}


def draw_chain(console: Console, links: Sequence[Link]) -> None:
    """Draw the links from top to bottom, an arrow between each two."""
    for position, link in enumerate(links):
        if position:
            console.print(Text("   ▼", style="dim"))
        for number, line in enumerate(link.lines):
            title = link.title if number == 0 else ""
            console.print(_chain_line(title, line))
            if line.note:
                console.print(Text("   │".ljust(_TITLE_WIDTH + 3) + f"  {line.note}", style="dim"))


def _chain_line(title: str, line: Line) -> Text:
    sign, style = _SIGNS[line.mark]
    left = f"   {title}" if title else "   │"
    return Text.assemble(
        (left.ljust(_TITLE_WIDTH + 3), "bold cyan" if title else "dim"),
        (f"{sign} " if sign.strip() else "", style),
        (line.text, style or "bold"),
    )


def draw_handlers(console: Console, handlers: Iterable[HandlerStatus]) -> None:
    """Print one row a handler: in which mode it runs, and what an unqualified name becomes."""
    table = plain_table("handler", "mode", "default kind", "toolkit", "reads", "config in force")
    for handler in handlers:
        through_files = handler.mode == "cdi"
        table.add_row(
            handler.name + (" (default)" if handler.is_default else ""),
            handler.mode or ("-" if handler.is_nvidia is False else "?"),
            handler.default_kind if through_files else "-",
            handler.toolkit or ("-" if handler.is_nvidia is False else "?"),
            ",".join(handler.spec_dirs) if through_files else "-",
            handler.config or "-",
        )
    print_table(console, table)


def draw_kinds(console: Console, kinds: Sequence[KindStatus]) -> None:
    """Print one row a kind: what should resolve, what does, why the rest does not."""
    table = plain_table("kind", "names", "missing", "cause", "near miss", "asked for by")
    for kind in kinds:
        near = f"{kind.near_miss.kind} ({kind.near_miss.count})" if kind.near_miss else "-"
        count = kind.missing.count
        table.add_row(
            kind.kind,
            f"{kind.resolvable}/{kind.expected}",
            Text(str(count), style="bold red" if count else ""),
            kind.cause.value if kind.cause else "-",
            near,
            ", ".join(kind.referenced_by) or "-",
        )
    print_table(console, table)
    for kind in kinds:
        for name in kind.missing.names:
            console.print(Text(f"  missing: {kind.kind}={name}", style="red"))


def draw_files(console: Console, kinds: Iterable[KindStatus]) -> None:
    """Print one row a spec file of any kind."""
    table = plain_table("file", "kind", "devices", "written by", "problem")
    for kind in kinds:
        for file in kind.files:
            owner, problem = file.owner or "?", file.problem or "-"
            table.add_row(file.path, kind.kind, str(file.devices), owner, problem)
    print_table(console, table)


def draw_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print each finding: what, where, what to do and who can."""
    for finding in findings:
        style = _SEVERITY_STYLES[finding.severity]
        console.print(
            Text.assemble(
                (f"{finding.severity.value:<8}", style),
                (finding.cause.value, "bold"),
                ": ",
                finding.message,
            )
        )
        place = " ".join(part for part in (finding.file, finding.key) if part)
        if place:
            console.print(Text(f"        in {place}", style="dim"))
        console.print(Text(f"        {_WHO[finding.who]}: {finding.advice}", style="dim"))


def state_line(status: NodeStatus) -> Text:
    """Return the verdict on the node in one line."""
    cause = f" ({status.cause.value})" if status.cause else ""
    state = status.state.value
    gpus = status.gpus
    counted = f"{gpus.count} GPU{'' if gpus.count == 1 else 's'} by {gpus.source}"
    driver = f", driver {gpus.driver}" if gpus.driver else ""
    return Text.assemble((state, STATE_STYLES.get(state, "")), cause, f"; {counted}{driver}")

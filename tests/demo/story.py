"""The incident on the stage: what each component says of it, before and after a repair.

Owns: the order of events, and the words between what others wrote. Must not know: how the programs
are started or ended. Everything that is shown is read from the API server, from what the programs
serve, or from the copy of the node; the one thing that is played says so.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.text import Text
from tests.demo import alerts, kubectl, kubelet
from tests.demo.alerts import RULES, Judged
from tests.demo.kubelet import Incident
from tests.demo.stage import CHECKOUT, Stage, StageError, start_agent, start_operator

from gpucdi.api import NodeState, RepairMode, fields
from gpucdi.api.names import EVENT_RESTORED, EVENT_UNRESOLVABLE, NODE_CONDITION, own_file_name
from gpucdi_cli.cluster import FleetNode
from gpucdi_cli.console import plain_table, print_table
from gpucdi_cli.demo_agent import Choice
from gpucdi_cli.demo_story import chapter
from gpucdi_cli.drawing import draw_findings
from gpucdi_kube import KubeObject, paths

POLICY = "tests/demo/policy.yaml"
# The alert over the series that the operator changes last, after it has written its Event.
LAST_ALERT = "GpuCdiPodsFailing"
DEFINITION = "gpucdistatuses.gpucdi.io"


@dataclass(frozen=True, slots=True)
class Moment:
    """What the cluster shows at one time."""

    definition: KubeObject
    status: KubeObject
    node: KubeObject
    pod: KubeObject
    events: tuple[KubeObject, ...]
    alerts: Judged
    own_files: tuple[str, ...]

    @property
    def gpucdi(self) -> FleetNode:
        """The node's GpuCdiStatus, read."""
        return FleetNode.of_object(self.status)


@dataclass(slots=True)
class Story:
    """Tells the incident of one captured tree; ``copy`` is the node that the agent works on."""

    console: Console
    stage: Stage
    incident: Incident
    copy: Path
    choice: Choice
    kind: str
    started: float = field(default_factory=time.monotonic)

    async def tell(self) -> bool:
        """Tell it to its end; return whether everything is healed."""
        await self._begin()
        before = await self._look(alerting=True)
        chapter(self.console, 1, "Before: a Pod fails, and nobody has asked gpucdi for a repair")
        self._show(before, ())
        chapter(self.console, 2, "A policy lets gpucdi repair")
        if not await self._repair():
            return False
        after = await self._look(alerting=False)
        chapter(self.console, 3, "After")
        self._show(after, before.events)
        chapter(self.console, 4, "Side by side")
        self._compare(before, after)
        return after.gpucdi.status.state is NodeState.RESOLVED

    async def _begin(self) -> None:
        """Bring the cluster to where the incident begins, and wait until it is explained."""
        api, incident = self.stage.api, self.incident
        await kubelet.install(api)
        await kubelet.register(api, incident)
        await start_agent(self.stage, incident.node_name, self.copy, self.choice)
        operator = await start_operator(self.stage)
        await self.stage.until("the agent's verdict", lambda: self._in_state(NodeState.DRIFTED))
        await self.stage.until("the node's condition", lambda: self._condition("True"))

        async def ready() -> bool | None:
            return await operator.is_ready() or None

        await self.stage.until("the operator", ready)
        await kubelet.fail_pod(api, incident)
        await self.stage.until("the explanation", lambda: self._event(EVENT_UNRESOLVABLE))

    async def _repair(self) -> bool:
        """Allow the repair and watch it; False when the agent could not."""
        kubectl.show_command(self.console, f"kubectl apply --server-side -f {POLICY}")
        policy = kubelet.load(CHECKOUT / POLICY)
        name = fields.text(fields.mapping(policy, "metadata"), "name")
        path = f"{paths.POLICIES}/{name}"
        made = await self.stage.api.apply(path, policy, field_manager="kubectl", force=True)
        mode = fields.text(fields.mapping(fields.mapping(made, "spec"), "repair"), "mode")
        self.console.print(f"  GpuCdiPolicy {name}: spec.repair.mode {mode}, for every node")
        self.started = time.monotonic()
        decided = await self.stage.until("the operator's decision", self._allowed)
        self._happened("operator", f"spec.repair.mode of {decided.name} is Auto now")
        obeyed = await self.stage.until("the agent", self._obeyed)
        for record in obeyed.status.repairs:
            counts = f"{record.added} added, {record.removed} removed"
            self._happened("agent", f"{record.result}: {record.file}, {counts}")
        if obeyed.status.state is not NodeState.RESOLVED:
            self.console.print(f"The node is {obeyed.status.state.value}:")
            draw_findings(self.console, obeyed.status.findings)
            return False
        await self._start_again()
        found = await self.stage.until("the condition", lambda: self._condition("False"))
        reason = fields.text(found, "reason")
        self._happened("operator", f"condition {NODE_CONDITION} is False ({reason})")
        await self.stage.until("the good news", lambda: self._event(EVENT_RESTORED))
        self._happened("operator", f"Event {EVENT_RESTORED} (it reads a Pod once in 10 s at most)")
        return True

    async def _start_again(self) -> None:
        """Play kubelet's next try."""
        missing = await asyncio.to_thread(kubelet.unresolved, self.copy)
        if missing:
            raise StageError(f"the runtime would not find {', '.join(missing)} on the copy")
        await kubelet.run_pod(self.stage.api, self.incident)
        self._happened("kubelet", "played: every name of the Pod resolves on the copy, so it runs")

    def _happened(self, who: str, what: str) -> None:
        seconds = time.monotonic() - self.started
        self.console.print(
            Text.assemble((f"  {seconds:5.1f} s  ", "dim"), (who.ljust(10), "bold cyan"), what)
        )

    # What is there ------------------------------------------------------------------------

    async def _look(self, *, alerting: bool) -> Moment:
        """Look at everything, once the programs' metrics say what they have done already."""
        incident = self.incident
        judged = await self.stage.until("the metrics", lambda: self._judged(alerting=alerting))
        return Moment(
            definition=await self._get(f"{paths.CRDS}/{DEFINITION}"),
            status=await self._get(paths.gpu_cdi_status(incident.node_name)),
            node=await self._get(paths.node(incident.node_name)),
            pod=await self._get(incident.path),
            events=tuple(await self._events()),
            alerts=judged,
            own_files=await asyncio.to_thread(self._own_files),
        )

    async def _judged(self, *, alerting: bool) -> Judged | None:
        """Return the alerts, ``None`` while the last series to follow lags behind."""
        agent, operator = self.stage.programs
        # Labelled as Prometheus would by manifests/monitoring/servicemonitor.yaml.
        series = [
            *alerts.scraped(await agent.scrape(), job="gpucdi-agent", node=self.incident.node_name),
            *alerts.scraped(await operator.scrape(), job="gpucdi-operator"),
        ]
        judged = alerts.judge(series)
        told = any(alert.name == LAST_ALERT for alert in judged.active)
        return judged if told is alerting else None

    def _own_files(self) -> tuple[str, ...]:
        name = own_file_name(self.kind)
        found = (path.relative_to(self.copy) for path in self.copy.glob(f"*/cdi/{name}"))
        return tuple(sorted(f"/{path}" for path in found))

    async def _get(self, path: str) -> KubeObject:
        found = await self.stage.api.get(path)
        if found is None:
            raise StageError(f"{path} is gone")
        return found

    async def _events(self) -> list[KubeObject]:
        path = f"/api/v1/namespaces/{self.incident.namespace}/events"
        about = f"involvedObject.name={self.incident.name}"
        return [item async for item in self.stage.api.list(path, field_selector=about)]

    async def _event(self, reason: str) -> KubeObject | None:
        found = [item for item in await self._events() if fields.text(item, "reason") == reason]
        return found[0] if found else None

    async def _condition(self, status: str) -> Mapping[str, object] | None:
        node = await self._get(paths.node(self.incident.node_name))
        found = _condition(node)
        return found if fields.text(found, "status") == status else None

    async def _gpucdi(self) -> FleetNode | None:
        found = await self.stage.api.get(paths.gpu_cdi_status(self.incident.node_name))
        return None if found is None else FleetNode.of_object(found)

    async def _in_state(self, state: NodeState) -> FleetNode | None:
        node = await self._gpucdi()
        return node if node is not None and node.status.state is state else None

    async def _allowed(self) -> FleetNode | None:
        node = await self._gpucdi()
        return node if node is not None and node.intent.mode is RepairMode.AUTO else None

    async def _obeyed(self) -> FleetNode | None:
        """Return the node once its agent has made a pass in the mode that was asked for."""
        node = await self._gpucdi()
        return node if node is not None and node.status.mode == RepairMode.AUTO.value else None

    # What is shown ------------------------------------------------------------------------

    def _show(self, moment: Moment, known: Sequence[KubeObject]) -> None:
        """Show a moment as people ask for it; Events that are ``known`` are not shown again."""
        console, node = self.console, self.incident.node_name
        kubectl.show_command(console, "kubectl get gpucdistatus")
        kubectl.show_table(console, moment.definition, [moment.status])
        kubectl.show_command(console, f"kubectl describe node {node}", "Conditions")
        kubectl.show_conditions(console, moment.node)
        note = "Events since then" if known else "Events"
        kubectl.show_command(console, f"kubectl describe pod {self.incident.name}", note)
        kubectl.show_events(console, [event for event in moment.events if event not in known])
        self._show_alerts(moment.alerts)

    def _show_alerts(self, judged: Judged) -> None:
        console, count = self.console, f"{judged.judged} of {judged.rules}"
        console.print(
            Text.assemble(
                ("Alerts", "bold"),
                f" by {RULES.relative_to(CHECKOUT)} over both programs' /metrics",
                (f"   # judged: {count} rules", "dim"),
            )
        )
        for alert in judged.active:
            console.print(Text.assemble("  ", (alert.name, "bold red"), f": {alert.summary}"))
            who = ", ".join(f"{name} {text}" for name, text in alert.labels.items())
            console.print(
                f"    {alert.severity}, after {alert.lasting}:"
                f" {alert.term} is {alert.value:g} ({who})"
            )
        if not judged.active:
            console.print("  none")

    def _compare(self, before: Moment, after: Moment) -> None:
        table = plain_table("", "before", "after")
        for title, left, right in zip(
            (
                "GpuCdiStatus",
                "names missing",
                "Node condition",
                "Pod",
                "last Event on it",
                "alerts",
                "own files on the node",
            ),
            _facts(before),
            _facts(after),
            strict=True,
        ):
            table.add_row(Text(title, style="bold"), left, right)
        print_table(self.console, table)


def _facts(moment: Moment) -> Sequence[str]:
    status = moment.gpucdi.status
    condition = _condition(moment.node)
    cause = f" ({status.cause.value})" if status.cause else ""
    return (
        f"{status.state.value}{cause}",
        str(status.missing),
        f"{fields.text(condition, 'type')} {fields.text(condition, 'status')}",
        kubelet.pod_word(moment.pod),
        fields.text(kubectl.in_order(moment.events)[-1], "reason"),
        ", ".join(alert.name for alert in moment.alerts.active) or "none",
        ", ".join(moment.own_files) or "none",
    )


def _condition(node: Mapping[str, object]) -> Mapping[str, object]:
    conditions = fields.objects(fields.mapping(node, "status"), "conditions")
    return next((item for item in conditions if item.get("type") == NODE_CONDITION), {})

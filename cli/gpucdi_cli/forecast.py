"""The answer of ``gpucdi predict`` for one container: its JSON and its paragraph.

Owns: the stable field names (``docs/predict.md``) and the layout. Must not know: how anything was
found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from gpucdi.api.fields import Json
from gpucdi.cdi import Unresolved
from gpucdi.engines import Engine
from gpucdi.toolkit import HandlerRuntime, Outcome, PodOutcome, Verdict, reader_of
from gpucdi_cli.console import rule
from gpucdi_cli.pod_request import NamedContainer

SANDBOX = "the Pod's sandbox"
_STYLES = {
    Verdict.DEVICES: "green",
    Verdict.OTHER_MECHANISM: "green",
    Verdict.WITHOUT_GPU: "yellow",
    Verdict.UNKNOWN: "yellow",
    Verdict.FAILS: "bold red",
}


@dataclass(frozen=True, slots=True)
class Forecast:
    """One container with its outcome; ``runtime`` is ``None`` when the engine has no such handler."""

    container: NamedContainer
    outcome: PodOutcome
    engine: Engine
    runtime: HandlerRuntime | None

    @property
    def is_good(self) -> bool:
        """True when the container gets what it asks for, or asks for nothing."""
        if self.outcome.verdict is Verdict.WITHOUT_GPU:
            return not self.container.origin and not self.container.unseen
        return self.outcome.verdict in {Verdict.DEVICES, Verdict.OTHER_MECHANISM}

    @property
    def steps(self) -> tuple[Outcome, ...]:
        """The engine's own part and the runtime's, as far as each is reached."""
        found = (self.outcome.native, self.outcome.runtime)
        return tuple(step for step in found if step is not None)

    @property
    def why(self) -> Mapping[str, Unresolved]:
        """Why each name that does not resolve does not."""
        return {name: why for step in self.steps for name, why in step.why.items()}

    @property
    def stage(self) -> str | None:
        """Who refuses, ``None`` unless the start fails."""
        if self.outcome.verdict is not Verdict.FAILS:
            return None
        last = self.steps[-1].step if self.steps else None
        return last.value if last is not None else SANDBOX

    @property
    def text(self) -> str | None:
        """What the refusing program itself says, ``None`` where it is not known word by word."""
        failed = [step for step in self.steps if step.verdict is Verdict.FAILS]
        return failed[0].text if failed else None

    @property
    def reason(self) -> str | None:
        """Why it starts without GPU, why the answer is unknown, or how it fails without a text."""
        if any(step.crashes for step in self.steps):
            return "the runtime crashes"
        return self.outcome.reason

    def _joined(self, field: str) -> list[Json]:
        found = (item for step in self.steps for item in getattr(step, field))
        return list(dict.fromkeys(found))

    def as_json(self) -> dict[str, Json]:
        """Return the documented fields; what is unknown or does not apply is ``null`` or empty."""
        native, runtime, shown = self.outcome.native, self.outcome.runtime, self.outcome.text
        return {
            "container": self.container.name,
            "engine": self.engine.name.value,
            "engineVersion": self.engine.version.value,
            **_behind(self.outcome.handler, self.runtime),
            "mode": runtime.mode.value if runtime is not None and runtime.mode else None,
            "names": self._joined("names"),
            "nativeNames": [] if native is None else list(native.names),
            "unresolved": self._joined("unresolved"),
            "outcome": self.outcome.verdict.value,
            "stage": self.stage,
            "text": self.text,
            "podReason": shown.reason.value if shown is not None and shown.reason else None,
            "podMessage": None if shown is None else shown.message,
            "reason": self.reason,
            "deviceNodes": self._joined("nodes"),
            "gpus": self._joined("gpus"),
            "origin": self.container.origin or None,
            "unseen": self.container.unseen or None,
        }

    def show(self, console: Console) -> None:
        """Print the paragraph."""
        rule(console, f"container {self.container.name}")
        outcome = self.outcome
        mode = outcome.runtime.mode if outcome.runtime is not None else None
        tail = f" (mode {mode.value})" if mode is not None else ""
        console.print(Text.assemble((outcome.verdict.value, _STYLES[outcome.verdict]), tail))
        lost = {name for step in self.steps for name in step.unresolved}
        for name in self._joined("names"):
            mark, style = ("✘", "red") if name in lost else ("✔", "green")
            console.print(Text(f"  {mark} {name}", style=style))
            if name in self.why:
                console.print(Text(f"    {self.why[str(name)].detail}", style="dim"))
        for title, text in self._lines():
            if text:
                console.print(f"  {title}: {text}")

    def _lines(self) -> Iterator[tuple[str, str]]:
        shown = self.outcome.text
        message = shown.message if shown is not None else None
        reason = shown.reason.value if shown is not None and shown.reason else ""
        unseen = self.container.unseen
        yield "asked for by", self.container.origin
        yield "device nodes", ", ".join(map(str, self._joined("nodes")))
        yield "GPUs", ", ".join(map(str, self._joined("gpus")))
        yield "refused by", self.stage or ""
        yield "text", "" if message is not None else self.text or ""
        yield "the Pod shows", ": ".join(part for part in (reason, message) if part)
        yield "because", self.reason or ""
        yield "not seen", unseen and f"{unseen}; add it with --env, --cdi-device or --annotation"


def _behind(handler: str | None, runtime: HandlerRuntime | None) -> dict[str, Json]:
    config = runtime.config if runtime is not None else None
    usable = config if config is not None and config.usable else None
    reader = reader_of(runtime) if runtime is not None else None
    toolkit = runtime.toolkit if runtime is not None else None
    return {
        "handler": handler,
        "binary": runtime.program if runtime is not None else None,
        "config": config.file if config is not None else None,
        "toolkitVersion": toolkit.version.value if toolkit is not None else None,
        "defaultKind": usable.default_kind.value if usable is not None else None,
        "specDirs": list(usable.spec_dirs.value) if usable is not None else [],
        "library": str(reader.library) if reader is not None else None,
    }

"""The shared reports as people and programs hand them on: each way of pasting changes no verdict.

A way stands for a place that texts come from: a chat, a ticket, a table, a log within a log. Ways
that add words of their own (a reason, a log's level) may add the stage, and nothing else.
"""

from __future__ import annotations

import html
import json
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from gpucdi.diagnosis import diagnose_all
from gpucdi.failures import extract

CASES = [
    yaml.safe_load(path.read_text(encoding="utf-8"))
    for path in sorted((Path(__file__).parent / "cases").glob("*.yaml"))
]
MESSAGES = {str(case["id"]): str(case["message"]) for case in CASES if "message" in case}
QUOTES = {'"': "\u201c\u201d", "'": "\u2018\u2019"}


def folded(text: str, width: int) -> str:
    """Break lines at blanks, as mail and YAML do."""
    lines = (
        textwrap.wrap(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.splitlines()
    )
    return "\n".join("\n".join(line) for line in lines)


def at_edge(text: str, width: int) -> str:
    """Break lines in the middle of words, as a terminal does."""
    flat = " ".join(text.split())
    return "\n".join(flat[start : start + width] for start in range(0, len(flat), width))


def before_lines(mark: str) -> Callable[[str], str]:
    return lambda text: "\n".join(mark + line for line in text.splitlines())


def smart(text: str) -> str:
    """Give each quote the shape that word processors and phones give it."""
    seen = {'"': 0, "'": 0}
    signs = []
    for sign in text:
        signs.append(QUOTES[sign][seen[sign] % 2] if sign in QUOTES else sign)
        if sign in seen:
            seen[sign] += 1
    return "".join(signs)


def boxed(text: str) -> str:
    return "\n".join(f"│ {line:<80} │" for line in text.splitlines())


def escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "_[]`*#" else sign for sign in text)


WAYS: dict[str, Callable[[str], str]] = {
    "a quote in Markdown or Slack": before_lines("> "),
    "a quote of a quote": before_lines("> > "),
    "a folded mail": lambda text: folded(text, 80),
    "a wide folded mail": lambda text: folded(text, 120),
    "a folded quote": lambda text: before_lines("> ")(folded(text, 72)),
    "a comment in a script": before_lines("# "),
    "an addition in a diff": before_lines("+ "),
    "a list": before_lines("* "),
    "a code block": lambda text: f"```\n{text}\n```",
    "code in a sentence": lambda text: f"since Tuesday I get `{text}` on one node",
    "bold": lambda text: f"**{text.strip()}**",
    "Markdown with its signs escaped": escaped,
    "a table in Markdown": lambda text: f"| pod | error |\n|---|---|\n| a | {text.strip()} |",
    "a box": boxed,
    "lines joined by bars": lambda text: folded(text, 80).replace("\n", " | "),
    "a dashboard's line": lambda text: f"Pod a | CrashLoopBackOff | {text.strip()} | restarts: 4",
    "a ticket": lambda text: f"{{noformat}}{text}{{noformat}}",
    "a page": lambda text: f"<pre>{html.escape(text)}</pre>",
    "a page with line breaks": lambda text: folded(text, 80).replace("\n", "<br>\n"),
    "a page's source escaped again": lambda text: html.escape(html.escape(text)),
    "old entities": lambda text: html.escape(text).replace("&#x27;", "&#39;"),
    "JSON": lambda text: json.dumps({"level": "error", "msg": text, "time": "2026-01-01"}),
    "JSON in JSON in JSON": lambda text: json.dumps(json.dumps(json.dumps({"msg": text}))),
    "JSON that escapes much": lambda text: (
        json.dumps({"msg": text}).replace("/", "\\/").replace("=", "\\u003d")
    ),
    "YAML in single quotes": lambda text: yaml.safe_dump({"a": text}, default_style="'"),
    "YAML in double quotes": lambda text: yaml.safe_dump({"a": text}, default_style='"'),
    "a literal block of YAML": lambda text: "message: |\n" + textwrap.indent(text, "  "),
    "a field of CSV": lambda text: '9,a,"' + text.replace('"', '""') + '",4',
    "logrus": lambda text: f'time="2026-11-09T00:34:53Z" level=error msg={json.dumps(text)} name=a',
    "the journal of containerd": lambda text: (
        'Nov 09 00:34:53 gpu-1 containerd[1234]: time="2026-11-09T00:34:53.1+01:00" level=error '
        f'msg="StartContainer for \\"76fe75\\" failed" error={json.dumps(text)}'
    ),
    "a file of container logs": lambda text: f"2026-11-09T00:34:53.123456789Z stderr F {text}",
    "zap": lambda text: json.dumps({"level": "error", "ts": 1762648493.1, "error": text}),
    "zap for people": lambda text: (
        f"2026-11-09T00:34:53.1Z\tERROR\ta/b.go:33\tfailed\t{json.dumps({'error': text})}"
    ),
    "colours": lambda text: f"\x1b[31mERRO\x1b[0m[0000] {text}\x1b[0m",
    "colours as `cat -v` prints them": lambda text: f"^[[31m{text.strip()}^[[0m",
    "colours in JSON": lambda text: json.dumps({"msg": f"\x1b[31m{text}\x1b[0m"}),
    "a link of a terminal": lambda text: f"\x1b]8;;https://a.example\x07{text}\x1b]8;;\x07",
    "smart quotes": smart,
    "blanks that do not break": lambda text: text.replace(" ", "\u00a0"),
    "blanks of no width": lambda text: text.replace("/", "/\u200b").replace("=", "\u200b="),
    "Windows line ends": lambda text: text.replace("\n", "\r\n"),
    "Python": lambda text: f"RuntimeError: {text!r}",
    "a shell's trace": lambda text: "+ echo '" + text.replace("'", "'\\''") + "'",
    "an exclamation": lambda text: f"{text.rstrip()}!",
}
CHARGED: dict[str, Callable[[str], str]] = {
    "klog of kubelet": lambda text: (
        'E1109 00:34:53.123456    1234 pod_workers.go:1301] "Error syncing pod, skipping" err='
        + json.dumps(
            f'failed to "StartContainer" for "main" with RunContainerError: {json.dumps(text)}'
        )
        + ' pod="default/x" podUID="7d1e"'
    ),
    "kubectl describe": lambda text: (
        "    Last State:     Terminated\n      Reason:       StartError\n"
        f"      Message:      {text}\n      Exit Code:    128\n"
    ),
    "a Pod's status": lambda text: yaml.safe_dump(
        {"lastState": {"terminated": {"message": text, "reason": "StartError"}}}, width=70
    ),
}


def told(text: str) -> list[tuple[object, ...]]:
    return [
        (
            found.cause,
            found.failure.symptom,
            found.failure.is_cdi,
            found.failure.names,
            found.failure.path,
            found.failure.hook,
            found.failure.subject,
        )
        for found in diagnose_all(extract(text))
    ]


def framed(text: str) -> list[tuple[object, ...]]:
    return [(failure.stage, failure.engine) for failure in extract(text)]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_a_way_of_pasting_changes_nothing(way: Callable[[str], str]) -> None:
    for name, message in MESSAGES.items():
        assert told(way(message)) == told(message), name
        assert framed(way(message)) == framed(message), name


@pytest.mark.parametrize("way", CHARGED.values(), ids=CHARGED.keys())
def test_words_around_a_message_may_only_add_the_stage(way: Callable[[str], str]) -> None:
    for name, message in MESSAGES.items():
        assert told(way(message)) == told(message), name


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_a_terminals_edge_tears_nothing_apart(width: int) -> None:
    for name, message in MESSAGES.items():
        flat = " ".join(message.split())
        # One broken line alone may as well be a line that ends there.
        if len(flat) > 2 * width:
            assert told(at_edge(message, width)) == told(flat), name
            assert told(at_edge(message, width).replace("\n", "\r\n")) == told(flat), name

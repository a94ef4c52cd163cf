"""The block of the README that shows `make demo`: what is in it, and renewing it.

``python -m tests.demo.page`` from the top of the checkout writes what the demo prints today. Left out
are the cast, one chapter and the times; ages are replaced by one of the same width.
"""

from __future__ import annotations

import re
import subprocess
import sys

from tests.cli.pages import plain_environment
from tests.demo.stage import CHECKOUT

PAGE = CHECKOUT / "README.md"
# What the page tells in its own words, and what the last chapter sums up.
_LEFT_OUT = ("3",)
_BLOCK = re.compile(
    r"(?<=<!-- demo -->\n)```text\n\$ make demo\n.*?```(?=\n<!-- /demo -->)", re.DOTALL
)
_CHAPTER = re.compile(r"^(?=\d\. .* ─+$)", re.MULTILINE)
_ENDING = re.compile(r"^\d+\.\d s\. ", re.MULTILINE)


def excerpt(told: str) -> str:
    """Return the part of the demo's output that the page shows; a chapter left out is a dot line."""
    chapters = [_ENDING.split(part)[0].rstrip() for part in _CHAPTER.split(told)[1:]]
    return settled("\n\n".join("…" if part[0] in _LEFT_OUT else part for part in chapters))


def settled(text: str) -> str:
    """Leave out times since the policy, and replace ages without moving what stands behind them."""
    text = re.sub(r"^ +\d+\.\d s  ", "  ", text, flags=re.MULTILINE)
    return re.sub(r"\b\d{1,3}s\b( *)", lambda found: "3s".ljust(len(found[0])), text)


def shown() -> str:
    """Return what the page shows."""
    found = _BLOCK.search(PAGE.read_text(encoding="utf-8"))
    if found is None:
        raise ValueError(f"{PAGE} has no block of the demo")
    return found[0].removeprefix("```text\n$ make demo\n").removesuffix("\n```")


def renew() -> None:
    """Run the demo and write its excerpt into the page."""
    ran = subprocess.run(
        [sys.executable, "-m", "tests.demo"],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=plain_environment(),
        check=True,
    )
    block = f"```text\n$ make demo\n{excerpt(ran.stdout)}\n```"
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(_BLOCK.sub(lambda _: block, page), encoding="utf-8")


if __name__ == "__main__":
    renew()

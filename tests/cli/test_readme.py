"""What the pages show is what the commands print, and what they link to is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.cli.pages import printed, settled, shown
from tests.cli.running import CHECKOUT, Run

PAGES = (
    "README.md",
    "CHANGELOG.md",
    "examples/README.md",
    "docs/architecture.md",
    "docs/predict.md",
    *(str(path.relative_to(CHECKOUT)) for path in (CHECKOUT / "docs/decisions").glob("*.md")),
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")
SHOWN = dict(shown())


def test_the_readme_shows_the_commands_that_matter() -> None:
    names = {command.split()[1] for command in SHOWN}
    assert {"demo", "inspect", "predict", "diff", "explain"} <= names


@pytest.mark.parametrize("command", SHOWN)
def test_the_readme_shows_what_the_command_prints(command: str) -> None:
    ran = printed(command)
    assert ran.code in {0, 1}, ran.err
    assert settled(ran.out) == settled(SHOWN[command]), "renew it: python -m tests.cli.pages"


def test_the_readme_begins_with_the_literal_error() -> None:
    page = (CHECKOUT / "README.md").read_text()
    pod = yaml.safe_load((CHECKOUT / "examples/c00/pod.yaml").read_text())
    message = pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"]
    assert message in page.split("## ")[0]


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_file_leads_to_one(page: str) -> None:
    here = (CHECKOUT / page).parent
    links = [link for link in _LINK.findall((CHECKOUT / page).read_text()) if "://" not in link]
    missing = [link for link in links if not (here / link).exists()]
    assert missing == []


def test_the_page_on_predict_names_every_field(run: Run, c00: Path) -> None:
    page = (CHECKOUT / "docs/predict.md").read_text()
    ran = run("predict", "-f", str(c00 / "pod.yaml"), "--root", str(c00), "-o", "json")
    fields = set(json.loads(ran.out)["containers"][0])
    table = page[page.index("| field |") :]
    first_cells = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    assert set(re.findall(r"`(\w+)`", " ".join(first_cells))) == fields

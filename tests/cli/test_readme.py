"""What the pages show is what the commands print, and what they link to is there."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from tests.cli.pages import printed, settled, shown
from tests.cli.running import CHECKOUT, Run

from gpucdi.capture import Capture

PAGES = (
    "README.md",
    "CHANGELOG.md",
    "examples/README.md",
    *(str(path.relative_to(CHECKOUT)) for path in sorted((CHECKOUT / "docs").rglob("*.md"))),
)
_LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")
_PLACE = re.compile(r"\[[^\]]*\]\(([^)#]*)#([^)]*)\)")
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
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


def anchors(page: str) -> set[str]:
    """Return what GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", _FENCED.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in headings}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_to_a_heading_leads_to_one(page: str) -> None:
    here = CHECKOUT / page
    links = [link for link in _PLACE.findall(here.read_text()) if "://" not in link[0]]
    targets = {path: (here.parent / path if path else here).read_text() for path, _ in links}
    assert [link for link in links if link[1] not in anchors(targets[link[0]])] == []


def fields_of(heading: str) -> set[str]:
    """Return the names in the first column of the last table below a heading of docs/predict.md."""
    page = (CHECKOUT / "docs/predict.md").read_text()
    section = re.search(rf"^#+ {heading}$(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    table = section[1][section[1].rindex("|---|") :]
    first_cells = re.findall(r"^\| (`[^|]*)\|", table, re.MULTILINE)
    return set(re.findall(r"`(\w+)`", " ".join(first_cells)))


def test_the_page_on_predict_names_every_field(run: Run, c00: Path) -> None:
    ran = run("predict", "-f", str(c00 / "pod.yaml"), "--root", str(c00), "-o", "json")
    assert fields_of("gpucdi predict") == set(json.loads(ran.out)["containers"][0])


def test_the_page_names_every_field_of_the_handler_table(run: Run, c00: Path) -> None:
    ran = run("inspect", "--root", str(c00), "-o", "json")
    assert fields_of("The handler table") == set(json.loads(ran.out)["handlerTable"][0])


def test_the_page_names_every_fact_of_a_capture() -> None:
    assert fields_of("Captured trees") == set(Capture().facts())

"""The page of study notes: every heading has a command or an import, and every import works."""

import importlib
import os
import re
from pathlib import Path

import pytest

from tests.test_readme import ROOT, commands

PAGE = "docs/notes.md"
MISSING = "not there yet"
ROW = re.compile(r"^\| (?P<heading>#+ .*?) \| (?P<cell>.*) \|$", re.MULTILINE)
MIN_HEADINGS = 300


def sections() -> list[list[tuple[str, str]]]:
    """Return the rows (heading, cell) of each table of headings."""
    text = (ROOT / PAGE).read_text(encoding="utf-8")
    found = [
        [(row["heading"], row["cell"]) for row in ROW.finditer(part)]
        for part in text.split("\n## ")
    ]
    return [rows for rows in found if rows]


ROWS = [row for rows in sections() for row in rows]
IMPORTS = sorted({code for _, cell in ROWS for code in re.findall(r"`(from [^`]+)`", cell)})


def test_every_heading_has_a_command_an_import_or_is_marked() -> None:
    assert len(ROWS) > MIN_HEADINGS and len(sections()) == 5
    for heading, cell in ROWS:
        named = re.findall(r"`((?:saccade|from saccade)[ .][^`]+)`", cell)
        assert len(named) == (MISSING not in cell), (heading, cell)


def test_missing_subjects_are_few_and_named() -> None:
    subjects = {cell.partition(":")[0] for _, cell in ROWS if MISSING in cell}
    assert subjects <= {
        "ELMo",
        "BERT",
        "learning to rank and recommendation",
        "contrastive learning",
        "reinforcement learning",
    }


def test_every_command_of_the_tables_is_among_those_that_run() -> None:
    listed = {command for command, _ in commands(PAGE)}
    named = {code for _, cell in ROWS for code in re.findall(r"`(saccade [^`]+)`", cell)}
    assert len(named) > 40
    assert named <= listed
    assert {command for command in listed if command.startswith("saccade")} == named


@pytest.mark.parametrize("statement", IMPORTS)
def test_import_works(statement: str) -> None:
    match = re.fullmatch(r"from ([\w.]+) import ([\w, ]+)", statement)
    assert match is not None
    module = importlib.import_module(match[1])
    for name in match[2].split(", "):
        if not hasattr(module, name):
            importlib.import_module(f"{match[1]}.{name}")


def headings_of(path: Path) -> list[str]:
    """Return the headings of Markdown outside code blocks."""
    found, is_code = [], False
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("```"):
            is_code = not is_code
        match = re.match(r"(#+) +(.*)", line)
        if match is not None and not is_code:
            text = " ".join(match[2].replace("|", "/").replace("**", "").split())
            found.append(f"{match[1]} {text}")
    return found


def test_page_has_every_heading_of_the_notes() -> None:
    folder = Path(os.environ.get("SACCADE_DATA", "/missing")).parent / "notes"
    paths = sorted(folder.glob("0*.txt"))
    if not paths:
        pytest.skip("there is no folder notes next to SACCADE_DATA")
    for path, rows in zip(paths, sections(), strict=True):
        assert [heading for heading, _ in rows] == headings_of(path)

"""Every command and every Python block of the README and the docs runs, and prints what it says."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def blocks(language: str, page: str = "README.md") -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str = "README.md") -> list[tuple[str, list[str]]]:
    """Each `$ command` with the lines of output shown beneath it."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console", page)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


# those that show commands; the others have nothing that could be run
PAGES = [
    name for path in sorted((ROOT / "docs").glob("*.md")) if commands(name := f"docs/{path.name}")
]


# those with Python; its blocks run one after the other, as a reader would type them
TAUGHT = [
    name
    for path in sorted((ROOT / "docs").glob("*.md"))
    if blocks("python", name := f"docs/{path.name}")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A place of their own, in which the commands run one after the other."""
    place = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", place / "examples")
    shutil.copy(ROOT / "README.md", place)
    return place


def test_the_readme_has_commands_and_python() -> None:
    assert len(commands()) >= 8
    assert len(blocks("python")) >= 2


@pytest.mark.parametrize(("command", "shown"), commands(), ids=[c for c, _ in commands()])
def test_a_command_runs_and_prints_what_is_shown(
    command: str, shown: list[str], folder: Path
) -> None:
    programs = Path(sys.executable).parent
    done = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        # other tests run beside it: see conftest.py
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "GOMP_SPINCOUNT": os.environ["GOMP_SPINCOUNT"],
        },
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    if shown:
        assert done.stdout.splitlines() == shown


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_run_and_print_what_is_shown(page: str, tmp_path: Path) -> None:
    found = commands(page)
    assert found
    for command, shown in found:
        test_a_command_runs_and_prints_what_is_shown(command, shown, tmp_path)


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.splitlines()[0])
def test_a_python_block_runs(block: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", TAUGHT)
def test_the_python_of_a_page_runs_from_top_to_bottom(page: str, tmp_path: Path) -> None:
    test_a_python_block_runs("\n".join(blocks("python", page)), tmp_path)

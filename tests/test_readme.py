"""The README and the docs: every command and Python block runs and prints the output given."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from saccade.cli.main import run
from tests.hanging import HANG_SECONDS
from tools.migration_page import PAGE, page

ROOT = Path(__file__).parent.parent
SHELL_OPERATORS = frozenset("();<>|&")


def blocks(language: str, page: str = "README.md") -> list[str]:
    """Return the fenced code blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def commands(page: str = "README.md") -> list[tuple[str, list[str]]]:
    """Return each `$ command` of a page with the output lines shown beneath it."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console", page)).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def in_process_arguments(command: str) -> list[str] | None:
    """Return the arguments of a plain `saccade …` command, or None if it needs its own process.

    Commands that kill, pipe or redirect need a shell. `saccade check` compiles the model, which
    torch cannot do while the shapes of every function are checked (see tests/sparing.py).
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    program, *arguments = lexer
    if program != "saccade" or arguments[0] == "check":
        return None
    return None if any(SHELL_OPERATORS.issuperset(part) for part in arguments) else arguments


def run_command(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> tuple[int, str, str]:
    """Run one command of a page in `folder` and return exit code, stdout and stderr."""
    arguments = in_process_arguments(command)
    if arguments is not None:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("HOME", str(folder))
        monkeypatch.delenv("SACCADE_DATA", raising=False)
        capsys.readouterr()
        code = run(arguments)
        printed = capsys.readouterr()
        return code, printed.out, printed.err
    completed = run_in_shell(command, folder)
    while needs_more_time(command, folder):
        command = re.sub(r"KILL (\d+)", lambda match: f"KILL {2 * int(match[1])}", command)
        completed = run_in_shell(command, folder)
    return completed.returncode, completed.stdout, completed.stderr


def needs_more_time(command: str, folder: Path) -> bool:
    """Return whether a training was killed before run.toml was written (a busy machine)."""
    killed = re.match(r"timeout --signal=KILL (\d+) saccade train .*--out (\S+)", command)
    return (
        killed is not None
        and int(killed[1]) < 100
        and not (folder / killed[2] / "run.toml").exists()
    )


def run_in_shell(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run a shell command in `folder` with this environment's programs."""
    programs = Path(sys.executable).parent
    return subprocess.run(
        command,
        shell=True,
        cwd=folder,
        # other tests run in parallel: see conftest.py
        env={
            "PATH": f"{programs}:/usr/bin:/bin",
            "HOME": str(folder),
            "GOMP_SPINCOUNT": os.environ["GOMP_SPINCOUNT"],
            **({"PYTHONPATH": path} if (path := os.environ.get("PYTHONPATH")) else {}),
        },
        capture_output=True,
        encoding="utf-8",
        timeout=HANG_SECONDS,
    )


def run_python(block: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Execute a Python block as a script in `folder`; pytest turns its warnings into errors."""
    monkeypatch.chdir(folder)
    exec(compile(block, "<block>", "exec"), {"__name__": "__main__"})  # noqa: S102


# the pages that show commands
COMMAND_PAGES = [
    name for path in sorted((ROOT / "docs").glob("*.md")) if commands(name := f"docs/{path.name}")
]


# the pages with Python, whose blocks run one after the other
PYTHON_PAGES = [
    name
    for path in sorted((ROOT / "docs").glob("*.md"))
    if blocks("python", name := f"docs/{path.name}")
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the commands of the README run one after the other."""
    path = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", path / "examples")
    shutil.copy(ROOT / "README.md", path)
    return path


def test_readme_has_commands_and_python() -> None:
    assert len(commands()) >= 8
    assert len(blocks("python")) >= 2


@pytest.mark.parametrize(("command", "expected"), commands(), ids=[c for c, _ in commands()])
def test_readme_command_runs_and_prints_expected_output(
    command: str,
    expected: list[str],
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, output, errors = run_command(command, folder, monkeypatch, capsys)
    assert code == 0, errors
    if expected:
        assert output.splitlines() == expected


@pytest.mark.long
@pytest.mark.parametrize("page", COMMAND_PAGES)
def test_docs_commands_run_and_print_expected_output(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = commands(page)
    assert found
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command, expected in found:
        code, output, errors = run_command(command, tmp_path, monkeypatch, capsys)
        assert code == 0, f"{command}\n{errors}"
        if expected:
            assert output.splitlines() == expected, command


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: block.splitlines()[0])
def test_readme_python_block_runs(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_python(block, folder, monkeypatch)


@pytest.mark.parametrize("page", PYTHON_PAGES)
def test_docs_python_runs_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_python("\n".join(blocks("python", page)), tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("saccade predict runs/a abc", ["predict", "runs/a", "abc"]),
        ('saccade predict runs/a "**See > "', ["predict", "runs/a", "**See > "]),
        ("saccade predict runs/a abc > out.txt", None),
        ("timeout 8 saccade train copy || true", None),
        ("saccade check runs/a", None),
        ("python examples/roman_numerals.py roman.tsv", None),
    ],
)
def test_in_process_arguments_leave_shell_commands_to_the_shell(
    command: str, expected: list[str] | None
) -> None:
    assert in_process_arguments(command) == expected


def test_docs_links_lead_to_files_of_the_repository() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    broken = [
        f"{path.relative_to(ROOT)}: {target}"
        for path in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8"))
        if not (path.parent / target).exists()
    ]
    assert broken == []


def test_migration_page_is_what_the_generator_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python tools/migration_page.py"

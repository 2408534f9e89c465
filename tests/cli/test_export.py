"""`saccade export`, and `saccade predict --engine`."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from saccade.interop.ctranslate2.engine import is_verified_export, write_parity
from saccade.io.tensors import read_tensors, write_tensors
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions, train_recipe
from tests.hanging import HANG_SECONDS

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def two_runs(
    smallest: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """One that can be exported and one that cannot; not exported."""
    root = tmp_path_factory.mktemp("two")
    for model in ("bahdanau", "transformer"):
        train_recipe(smallest(model, {"train.steps": 2}), root / model, TrainOptions())
    return {folder.name: folder for folder in root.iterdir()}


@pytest.fixture(scope="module")
def exported(two_runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported") / "run"
    shutil.copytree(two_runs["transformer"], folder)
    load_run(folder).export("ctranslate2")
    return folder


def test_export_prints_folder_and_next_command(
    saccade: Command, two_runs: dict[str, Path], tmp_path: Path
) -> None:
    shutil.copytree(two_runs["transformer"], tmp_path / "run")
    result = saccade("export", tmp_path / "run", "--to", "ctranslate2")
    assert result.code == 0
    assert result.out.strip() == str(tmp_path / "run" / "exports" / "ctranslate2")
    assert f"saccade predict {tmp_path / 'run'} … --engine ctranslate2" in result.err
    whole = (Path(result.out.strip()) / "model.bin").stat().st_size
    result = saccade(
        *("export", tmp_path / "run", "--to", "ctranslate2", "--out", tmp_path / "small"),
        *("--set", "quantization=int8"),
    )
    assert result.code == 0 and result.out.strip() == str(tmp_path / "small")
    assert (tmp_path / "small" / "model.bin").stat().st_size < whole


def test_engine_predictions_equal_torch(saccade: Command, exported: Path) -> None:
    texts = ["abc", "fe", "dddd"]
    assert (
        saccade("predict", exported, *texts, "--engine", "ctranslate2").out
        == saccade("predict", exported, *texts).out
        == saccade("predict", exported, *texts, "--engine", "torch").out
    )
    debug = saccade("--debug", "predict", exported, "abc", "--engine", "ctranslate2")
    assert (debug.code, debug.err) == (0, "engine: ctranslate2\n")
    result = saccade("predict", exported, "abc", "--engine", "ctranslate2", "--json")
    mine = json.loads(saccade("predict", exported, "abc", "--json").out)
    theirs = json.loads(result.out)
    assert theirs.keys() == mine.keys()
    assert theirs["text"] == mine["text"] and theirs["finished"] == mine["finished"]
    assert theirs["score"] == pytest.approx(mine["score"], abs=1e-3)
    result = saccade("predict", exported, "abc", "--engine=ctranslate2", "--beam=3", "--n-best=2")
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"]]


def test_engine_predicts_files_without_torch(
    saccade: Command, exported: Path, tmp_path: Path
) -> None:
    lines = ["abc", "", "fedcb", "a" * 1200, "ee"]  # one is longer than the model takes
    (tmp_path / "in.txt").write_text("".join(f"{x}\n" for x in lines), encoding="utf-8")
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('LOADED', *sys.modules, file=sys.stderr))\n"
        "from saccade.cli.main import main\n"
        "main()\n"
    )
    asked = ["predict", str(exported), "--file", str(tmp_path / "in.txt")]
    done = subprocess.run(
        [sys.executable, "-c", code, *asked, "--engine", "ctranslate2"],
        capture_output=True,
        encoding="utf-8",
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    result, _, loaded = done.stderr.partition("LOADED")
    assert "ctranslate2" in loaded.split() and "torch" not in loaded.split()
    assert "line 4 is longer than this model takes" in result
    assert done.stdout == saccade(*asked).out
    assert len(done.stdout.splitlines()) == 5 and done.stdout.splitlines()[1] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["abc", "--engine", "ctranslate2", "--sample"],
            "got sample, which the engine ctranslate2 does not support",
        ),
        (
            ["abc", "--engine=ctranslate2", "--search", "coverage=0.2"],
            "got coverage, which the engine",
        ),
        (
            ["abc", "--engine", "marian"],
            "There is no engine 'marian'. There are: ctranslate2, fused, torch.",
        ),
    ],
    ids=["sample", "coverage", "engine"],
)
def test_engine_refuses_unsupported_options(
    arguments: list[str], message: str, saccade: Command, exported: Path
) -> None:
    result = saccade("predict", exported, *arguments)
    assert result.code == 2 and message in result.err and result.out == ""


def test_engine_without_export_prints_the_command(
    saccade: Command, two_runs: dict[str, Path]
) -> None:
    folder = two_runs["transformer"]
    result = saccade("predict", folder, "abc", "--engine", "ctranslate2")
    assert result.code == 2
    assert f"Make one with: saccade export {folder} --to ctranslate2" in result.err


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("bahdanau", ["--to", "ctranslate2"], "got the model bahdanau; the CTranslate2 export"),
        ("transformer", ["--to", "onnx"], "There is no export format 'onnx'."),
        ("transformer", ["--to=ctranslate2", "--set", "quantization=int4"], "'float32' or 'int8'"),
        ("transformer", ["--to=ctranslate2", "--set", "quantisation=int8"], "no setting"),
    ],
    ids=["bahdanau", "onnx", "int4", "misspelt"],
)
def test_export_refuses_unsupported_runs(
    model: str,
    arguments: list[str],
    message: str,
    saccade: Command,
    two_runs: dict[str, Path],
) -> None:
    result = saccade("export", two_runs[model], *arguments)
    assert result.code == 2 and message in result.err
    assert not (two_runs[model] / "exports").exists()


def engine_of(saccade: Command, run: Path, *more: str) -> str:
    result = saccade("predict", run, "abc", *more, "--debug")
    assert result.code == 0, result.err
    return str(result.err.strip().splitlines()[0].removeprefix("engine: "))


def test_verified_export_is_the_default_of_greedy_decoding(
    saccade: Command, two_runs: dict[str, Path], tmp_path: Path
) -> None:
    run = Path(shutil.copytree(two_runs["transformer"], tmp_path / "run"))
    assert engine_of(saccade, run) == "fused"
    own = saccade("predict", run, "abc", "fed").out
    load_run(run).export("ctranslate2")
    assert engine_of(saccade, run) == "fused", "it was not compared"
    result = saccade("export", run, "--to", "ctranslate2")
    inputs = len(load_run(run).split("dev").pairs)
    assert f"equal those of the run for {inputs} of {inputs} dev inputs" in result.err
    assert "saccade predict uses it for greedy decoding" in result.err
    assert engine_of(saccade, run) == "ctranslate2"
    assert saccade("predict", run, "abc", "fed").out == own
    for other in (["--beam", "2"], ["--sample"], ["--json"], ["--engine", "fused"]):
        assert engine_of(saccade, run, *other) == "fused", other
    weights, metadata = read_tensors(run / "model.safetensors")
    write_tensors(run / "model.safetensors", {n: w * 2 for n, w in weights.items()}, metadata)
    assert engine_of(saccade, run) == "fused", "the export is of other weights"


@pytest.mark.parametrize("why", ["different", "none", "int8", "damaged"])
def test_other_exports_are_not_the_default(
    why: str, saccade: Command, exported: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    write_parity(run, 8, 8)
    assert is_verified_export(run)
    if why == "int8":
        load_run(run).export("ctranslate2", quantization="int8")
        write_parity(run, 8, 8)
    elif why == "damaged":
        path = run / "exports/ctranslate2/parity.json"
        path.write_text(path.read_text().replace("8", "9"))
    else:
        write_parity(run, *{"different": (8, 7), "none": (0, 0)}[why])
    assert not is_verified_export(run) and engine_of(saccade, run) == "fused"


def test_default_prediction_through_an_export_does_not_load_torch(
    exported: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    write_parity(run, 8, 8)
    program = (
        "import sys; from saccade.cli.main import run\n"
        "assert run(['predict', sys.argv[1], 'abc']) == 0\n"
        "assert 'ctranslate2' in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(run)],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
    )
    assert done.returncode == 0 and done.stdout == load_run(run).predict("abc").text + "\n", (
        done.stderr
    )


def test_export_of_another_machine_is_not_the_default(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """CTranslate2 reads its files itself, whatever they contain."""
    run = Path(shutil.copytree(exported, tmp_path / "run"))
    write_parity(run, 8, 8)
    assert is_verified_export(run)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other machine"))
    assert not is_verified_export(run)

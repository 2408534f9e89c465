"""The run folder: saving, loading, prediction, evaluation, overwriting, resuming."""

import json
import pickle
import shutil
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
import torch

import saccade
from saccade.config import flatten
from saccade.errors import ConfigError, DataError, RunError
from saccade.io.atomic import read_checksummed_json, read_checksummed_text, write_checksummed_text
from saccade.io.lock import lock_folder
from saccade.io.run_folder import RUN_FORMAT
from saccade.io.tensors import read_tensors
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.translation.data import PairSplit
from saccade.tasks.translation.evaluate import TranslationEvaluator
from saccade.types.results import Evaluation

MODELS = ("bahdanau", "seq2seq", "transformer")
TEXTS = ["abc", "fed", "a", "", "abcdef", "zz"]
Recipes = Callable[..., Any]


@pytest.fixture
def folder(trained_runs: dict[str, Path], tmp_path: Path) -> Path:
    """Return a copy of a trained run that a test may damage."""
    return Path(shutil.copytree(trained_runs["bahdanau"], tmp_path / "runs" / "mine"))


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def rewrite_settings(folder: Path, **values: Any) -> None:
    """Change run.toml and its checksum, as a version of saccade would."""
    old = tomllib.loads(read_checksummed_text(folder / "run.toml"))
    write_checksummed_text(folder / "run.toml", tomli_w.dumps({**old, **values}))


# --- saving and loading ------------------------------------------------------------------------


@pytest.mark.parametrize("model", MODELS)
def test_load_run_predicts_identical_bits(model: str, smallest: Recipes, tmp_path: Path) -> None:
    run = train_recipe(smallest(model), tmp_path / "run", TrainOptions()).run
    again = load_run(tmp_path / "run")
    assert again.predict(TEXTS) == run.predict(TEXTS)
    assert again.predict(TEXTS, beam=3, n_best=2) == run.predict(TEXTS, beam=3, n_best=2)
    assert again.evaluate() == run.evaluate()
    assert again.recipe == run.recipe
    assert not again.model.training


def test_run_holds_the_best_weights_and_their_step(trained_runs: dict[str, Path]) -> None:
    for folder in trained_runs.values():
        weights, facts = read_tensors(folder / "model.safetensors")
        evaluated = [line for line in load_run(folder).metrics() if "best" in line]
        best = [line for line in evaluated if line["best"]][-1]
        assert (facts["step"], facts["ended"]) == (best["step"], "steps")
        selection_score = best["dev_chrf"] - 1e-3 * best["dev_loss"]
        assert facts["goodness"] == pytest.approx(selection_score)


def test_train_validates_the_current_weights(
    smallest: Recipes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a fused decoder copies the weights, which the optimizer then changes in place
    evaluate = TranslationEvaluator.evaluate
    compared = []

    def compare(self: TranslationEvaluator, split: PairSplit, **options: Any) -> Evaluation:
        found = evaluate(self, split, **options)
        new = TranslationEvaluator(self.recipe, self.model, self.predictor.tokenizers)
        compared.append((found, evaluate(new, split, **options)))
        return found

    monkeypatch.setattr(TranslationEvaluator, "evaluate", compare)
    changes = {"train.learning_rate": 0.03, "train.warmup": 2, "train.steps": 20}
    train_recipe(smallest("transformer", changes), tmp_path / "run", TrainOptions())
    assert len(compared) == 4
    assert len({found["chrf"] for found, _ in compared}) > 1
    for found, expected in compared:
        assert found == expected


def test_run_folder_has_plain_files_only(trained_runs: dict[str, Path]) -> None:
    for model, folder in trained_runs.items():
        names = {path for path in contents(folder) if not path.startswith("checkpoint")}
        pictures = {"report/curves.png"} | (
            {"report/attention.png"} if model != "seq2seq" else set()
        )
        plain = {"run.toml", "tokenizer.json", "model.safetensors", "metrics.jsonl"}
        assert names - {"scores.json"} == plain | pictures  # written by an evaluation
        assert [path.name for path in (folder / "checkpoint").iterdir()] == [
            "000000013.safetensors"
        ]


def test_run_toml_has_every_setting_resolved(trained_runs: dict[str, Path]) -> None:
    run = load_run(trained_runs["transformer"])
    given = flatten(run.recipe, exclude_unset=True)
    every = {path: value for path, value in flatten(run.recipe).items() if value is not None}
    assert every.items() <= given.items()
    versions = {"saccade", "torch", "python", "threads"}
    assert run.metadata.keys() == versions | {"data", "parameters", "paths", "machine"}
    assert run.parameters == sum(p.numel() for p in run.model.parameters()) > 0


def test_run_folder_can_be_moved(folder: Path, trained_runs: dict[str, Path]) -> None:
    moved = folder.rename(folder.with_name("elsewhere"))
    assert load_run(moved).predict(TEXTS) == load_run(trained_runs["bahdanau"]).predict(TEXTS)


# --- loading executes no code ------------------------------------------------------------------

WATCHED: list[str] | None = None
RUNS_CODE = ("exec", "compile", "pickle.find_class", "os.system", "os.exec", "subprocess.Popen")


def _hook(event: str, arguments: tuple[object, ...]) -> None:
    if WATCHED is not None and event in RUNS_CODE:
        WATCHED.append(event)


@contextmanager
def audited() -> Iterator[list[str]]:
    """Record the audit events of executed code; a hook cannot be removed, but it can be idle."""
    global WATCHED
    if _hook not in HOOKS:
        sys.addaudithook(_hook)
        HOOKS.append(_hook)
    WATCHED = []
    try:
        yield WATCHED
    finally:
        WATCHED = None


HOOKS: list[Any] = []


class Boom:
    def __reduce__(self) -> Any:
        return exec, ("raise SystemExit('a pickle was run')",)


def test_load_run_executes_no_code_of_the_folder(folder: Path) -> None:
    for name in ("model.pt", "tokenizer.pkl", "checkpoint/000000099.pt"):
        (folder / name).write_bytes(pickle.dumps(Boom()))
    (folder / "conftest.py").write_text("raise SystemExit('a file was run')")
    load_run(folder)  # the first call imports modules
    with audited() as events:
        load_run(folder)
    assert events == []
    with audited() as events:
        eval("1 + 1")
    assert events, "the audit hook does not work"


def test_load_run_refuses_a_pickle_instead_of_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps(Boom()))
    with pytest.raises(RunError, match="model.safetensors is damaged"):
        load_run(folder)


# --- damaged folders ----------------------------------------------------------------------------

FILES = ("run.toml", "tokenizer.json", "model.safetensors")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["half", "flipped", "empty"])
def test_load_run_names_a_damaged_file(name: str, damage: str, folder: Path) -> None:
    path = folder / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    keep = {"half": len(content) // 2, "flipped": len(content), "empty": 0}[damage]
    path.write_bytes(content[:keep])
    with pytest.raises(RunError, match=rf"{name} is damaged: .* train again"):
        load_run(folder)


def test_load_run_names_a_missing_file(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    with pytest.raises(RunError, match=r"tokenizer.json is missing. Is .*mine a finished run\?"):
        load_run(folder)


def test_load_run_of_another_folder_lists_nearby_runs(folder: Path) -> None:
    with pytest.raises(RunError, match=r"mien is not a run.*Runs in .*: .*runs/mine\."):
        load_run(folder.with_name("mien"))


def test_load_run_of_a_newer_version_is_refused(folder: Path) -> None:
    made = {**load_run(folder).metadata, "saccade": "7.1"}
    rewrite_settings(folder, format=RUN_FORMAT + 1, made=made)
    expected = (
        rf"format {RUN_FORMAT + 1}, written by saccade 7\.1; .*{saccade.__version__}.*Install a"
    )
    for read in (load_run, lambda f: resume(f, {}, TrainOptions())):
        with pytest.raises(RunError, match=expected):
            read(folder)


def test_load_run_refuses_other_weights(folder: Path, trained_runs: dict[str, Path]) -> None:
    shutil.copy(trained_runs["transformer"] / "model.safetensors", folder)
    with pytest.raises(RunError, match="does not fit the settings of its run"):
        load_run(folder)


# --- evaluation and attention -------------------------------------------------------------------


def test_evaluate_file_scores_its_pairs(folder: Path, tmp_path: Path) -> None:
    run = load_run(folder)
    file = tmp_path / "test.tsv"
    texts = ["abc", "fed", "ccc"]
    answers = run.predict(texts)
    file.write_text(
        f"abc\t{answers[0].text}\nfed\tnothing like it\nccc\t{answers[2].text}\n", encoding="utf-8"
    )
    scores = run.evaluate(file)
    assert scores["exact"] == pytest.approx(2 / 3)
    assert scores["examples"] == 3
    assert scores.conventions.keys() == scores.keys() - {"examples"}
    assert run.evaluate(str(file)) == scores


@pytest.mark.parametrize("split", ["train", "dev", "test"])
def test_evaluate_scores_each_split(split: str, folder: Path) -> None:
    run = load_run(folder)
    assert run.evaluate(split=split)["examples"] == len(run.split(split).pairs)


def test_evaluate_unknown_split_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="no split 'tset'. There are: dev, test, train"):
        load_run(folder).evaluate(split="tset")


def test_look_returns_titled_attention_maps(trained_runs: dict[str, Path], tmp_path: Path) -> None:
    run = load_run(trained_runs["transformer"])
    seen = run.look("abc", answer="cba")
    assert (seen.source, seen.answer) == ("abc", "cba")
    assert set(seen.maps) == {("cross", 1, 1), ("cross", 1, 2)}
    for (kind, layer, head), map_ in seen.maps.items():
        assert map_.title == f"{kind} attention, layer {layer}, head {head}"
        assert map_.weights.shape == (4, 4)
        assert np.isfinite(map_.weights).all()
    assert seen.title == "transformer: abc → cba"
    assert seen.figure().title == seen.title
    assert set(run.look("abc", kind="encoder", head=2).maps) == {("encoder", 1, 2)}
    assert "cross attention, layer 1, head 1" in seen.terminal(80, colour=False)
    seen.save(tmp_path / "map.png")
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ConfigError, match="map.doc"):
        seen.save(tmp_path / "map.doc")


def test_look_uses_the_predicted_answer(folder: Path) -> None:
    run = load_run(folder)
    assert run.look("abc").answer == run.predict("abc").text


def test_look_refuses_absent_attention(trained_runs: dict[str, Path]) -> None:
    nothing = (
        "got seq2seq, which has no attention; there is nothing .* train a model with attention"
    )
    with pytest.raises(ConfigError, match=nothing):
        load_run(trained_runs["seq2seq"]).look("abc")
    with pytest.raises(ConfigError, match="got max_new_tokens=3 for transformer; expected a lang"):
        load_run(trained_runs["transformer"]).look("abc", max_new_tokens=3)
    there = r"no cross attention with layer 9. There are: cross \(layers 1–1, heads"
    with pytest.raises(ConfigError, match=there):
        load_run(trained_runs["transformer"]).look("abc", layer=9)
    with pytest.raises(ConfigError, match="no sideways attention"):
        load_run(trained_runs["transformer"]).look("abc", kind="sideways")


def test_predict_refuses_n_best_above_the_beam(folder: Path) -> None:
    with pytest.raises(ConfigError, match="got n_best 3 with a beam of 2.*a beam of 3 or more"):
        load_run(folder).predict("abc", beam=2, n_best=3)


# --- folders that are not empty -----------------------------------------------------------------


def test_train_does_not_overwrite_a_run(folder: Path, smallest: Recipes) -> None:
    before = contents(folder)
    with pytest.raises(RunError, match=r"already holds a run.*--resume .*--overwrite.*--out"):
        train_recipe(smallest(), folder, TrainOptions())
    assert contents(folder) == before


def test_train_overwrite_replaces_the_whole_run(folder: Path, smallest: Recipes) -> None:
    (folder / ".model.safetensors.4321.part").write_bytes(b"half a file")  # killed while writing
    (folder / "checks.json").write_text("{}")
    run = train_recipe(smallest("seq2seq"), folder, TrainOptions(overwrite=True)).run
    assert load_run(folder).recipe.model.name == "seq2seq" == run.recipe.model.name
    assert not (folder / "report" / "attention.png").exists()
    assert not {"checks.json", ".model.safetensors.4321.part"} & contents(folder).keys()


def test_train_locks_its_folder(folder: Path, smallest: Recipes) -> None:
    before = contents(folder)
    with lock_folder(folder):
        with pytest.raises(RunError, match="is being trained by another process.*--resume.*--out"):
            resume(folder, {}, TrainOptions())
        with pytest.raises(RunError, match="is being trained by another process"):
            train_recipe(smallest(), folder, TrainOptions(overwrite=True))
    assert contents(folder) == before
    assert resume(folder, {}, TrainOptions()).stop_reason == "steps"


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.tex", "report/figures.odt", "model.safetensors"])
def test_train_refuses_a_folder_with_other_files(
    name: str, overwrite: bool, smallest: Recipes, tmp_path: Path
) -> None:
    (tmp_path / "mine" / name).parent.mkdir(parents=True)
    (tmp_path / "mine" / name).write_text("three years of work")
    with pytest.raises(RunError, match=rf"holds other files \({name.split('/')[0]}\)"):
        train_recipe(smallest(), tmp_path / "mine", TrainOptions(overwrite=overwrite))
    assert contents(tmp_path / "mine") == {name: b"three years of work"}


def test_train_overwrite_refuses_a_run_with_other_files(folder: Path, smallest: Recipes) -> None:
    (folder / "notes.txt").write_text("mine")
    before = contents(folder)
    with pytest.raises(RunError, match=r"holds other files \(notes.txt\)"):
        train_recipe(smallest(), folder, TrainOptions(overwrite=True))
    assert contents(folder) == before


def test_train_refuses_a_file_as_folder(smallest: Recipes, tmp_path: Path) -> None:
    (tmp_path / "run").write_text("mine")
    with pytest.raises(RunError, match="run, which is a file; expected a folder"):
        train_recipe(smallest(), tmp_path / "run", TrainOptions(overwrite=True))


@pytest.mark.parametrize(
    "changes",
    [{"train.device": "gpu9"}, {"model.width": 9, "model.heads": 2}, {"data.path": "gone,gone"}],
    ids=["device", "width", "data"],
)
def test_train_error_leaves_the_existing_run(
    changes: dict[str, Any], folder: Path, smallest: Recipes
) -> None:
    before = contents(folder)
    with pytest.raises((ConfigError, DataError)):
        train_recipe(smallest("transformer", changes), folder, TrainOptions(overwrite=True))
    assert contents(folder) == before


# --- resume and init_from -----------------------------------------------------------------------


def test_resume_refuses_changed_settings(folder: Path) -> None:
    before = contents(folder)
    changes = {"train.steps": "20", "model.width": "16", "train.warmup": 9, "train.seed": 1}
    with pytest.raises(ConfigError) as caught:
        resume(folder, changes, TrainOptions())
    assert "(model.width: 8 → 16; train.warmup: 6 → 9)" in str(caught.value)
    assert "seed" not in str(caught.value)
    with pytest.raises(ConfigError, match="model.name: 'bahdanau' → 'transformer'"):
        resume(folder, {"model.name": "transformer"}, TrainOptions())
    with pytest.raises(ConfigError, match="no setting 'train.stpes'. Did you mean 'train.steps'"):
        resume(folder, {"train.stpes": 3}, TrainOptions())
    assert contents(folder) == before


def test_resume_refuses_changed_data(smallest: Recipes, words_file: Path, tmp_path: Path) -> None:
    data = Path(shutil.copy(words_file, tmp_path / "words.tsv"))
    train_recipe(smallest("bahdanau", {"data.path": str(data)}), tmp_path / "run", TrainOptions())
    run = load_run(tmp_path / "run")
    run.evaluate()
    before = contents(tmp_path / "run")
    lines = data.read_text().splitlines()
    line = int(run.split("train").pairs.lines[0])
    lines[line - 1] = lines[line - 1].split("\t")[0] + "\tabba"
    data.write_text("\n".join(lines) + "\n")
    with pytest.raises(DataError, match="got other training data.*words.tsv.*the run was started"):
        resume(tmp_path / "run", {}, TrainOptions())
    data.unlink()
    with pytest.raises(
        DataError, match="is gone: got data.path=.*there is no .*words.tsv; .*--data FILE"
    ):
        resume(tmp_path / "run", {}, TrainOptions())
    assert contents(tmp_path / "run") == before


def test_init_from_takes_weights_and_tokenizers(
    folder: Path, smallest: Recipes, tmp_path: Path
) -> None:
    new = tmp_path / "more.tsv"
    new.write_text("".join(f"{a}{b}x\tx{b}{a}\n" for a in "abcdef" for b in "abcdef"))
    changes = {"data.path": str(new), "train.steps": 1, "train.learning_rate": 1e-12}
    run = train_recipe(
        smallest("bahdanau", changes), tmp_path / "new", TrainOptions(init_from=folder)
    ).run
    old = load_run(folder)
    assert read_checksummed_json(tmp_path / "new/tokenizer.json") == read_checksummed_json(
        folder / "tokenizer.json"
    )
    for name, weight in run.model.state_dict().items():
        torch.testing.assert_close(weight, old.model.state_dict()[name], atol=1e-6, rtol=1e-4)
    assert run.predict("abc").text == old.predict("abc").text


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_init_from_takes_the_model_by_default(
    model: str, trained_runs: dict[str, Path], words_file: Path, tmp_path: Path
) -> None:
    run = saccade.train(
        str(words_file),
        set={"train.steps": 1, "train.threads": 1},
        out=tmp_path / "new",
        init_from=trained_runs[model],
        progress=False,
    )
    assert run.recipe.model == load_run(trained_runs[model]).recipe.model


def test_init_from_refuses_another_shape(folder: Path, smallest: Recipes, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="got other settings of the model.*width: 8 → 16"):
        train_recipe(
            smallest("bahdanau", {"model.width": 16}),
            tmp_path / "x",
            TrainOptions(init_from=folder),
        )
    with pytest.raises(ConfigError, match="name: 'bahdanau' → 'transformer'"):
        train_recipe(smallest("transformer"), tmp_path / "x", TrainOptions(init_from=folder))
    assert not (tmp_path / "x").exists()


# --- saccade.train ------------------------------------------------------------------------------


def test_top_level_functions_train_load_and_predict(
    words_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    small = {
        "model.width": 8,
        "train.steps": 3,
        "data.max_new_tokens": 8,
        "train.threads": 1,
    }
    run = saccade.train("translate", data=str(words_file), model="seq2seq", set=small)
    assert run.folder == Path("runs/translate")
    assert run.recipe.model.name == "seq2seq"
    assert saccade.load("runs/translate").predict(["abc"]) == run.predict(["abc"])
    assert isinstance(run.predict("abc").text, str)
    assert capsys.readouterr().out == ""
    with pytest.raises(ConfigError, match="Did you mean 'model.width'"):
        saccade.train(str(words_file), set={"model.widht": 8}, progress=False)


def test_train_works_in_another_thread(smallest: Recipes, tmp_path: Path) -> None:
    stop_reason: list[str] = []

    def work() -> None:
        stop_reason.append(train_recipe(smallest(), tmp_path / "run", TrainOptions()).stop_reason)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert stop_reason == ["steps"]


def test_metrics_are_lines_of_json(trained_runs: dict[str, Path]) -> None:
    folder = trained_runs["bahdanau"]
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == Run.metrics(load_run(folder))
    assert [line["step"] for line in map(json.loads, lines)] == [4, 5, 8, 10, 12, 13]

import errno
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import tomli_w

from saccade.cli.main import COMMANDS
from saccade.inspection.checks import CheckResult, skipped
from saccade.io.atomic import (
    read_checksummed_json,
    read_checksummed_text,
    write_checksummed_text,
)
from saccade.io.run_folder import RUN_FORMAT
from saccade.io.tensors import read_tensors
from saccade.runs.run import load_run
from tests.hanging import HANG_SECONDS

SMALL = [
    f"--set={setting}"
    for setting in (
        "data.max_new_tokens=8",
        "model.width=8",
        "train.steps=4",
        "train.report_every=2",
        "train.evaluate_every=4",
        "train.batch_tokens=128",
        "train.threads=1",
    )
]


Command = Callable[..., Any]


def process(arguments: Sequence[object], **more: Any) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    code = "from saccade.cli.main import main; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **more,
    )


def complaint(result: Any) -> str:
    """The one message of a call that was refused; nothing else may have been answered."""
    assert result.code == 2, result
    assert result.out == ""
    assert "Traceback" not in result.err
    assert result.err.count("saccade: ") == 1
    return result.err[result.err.index("saccade: ") :]


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def mine(trained_runs: dict[str, Path], tmp_path: Path) -> Path:
    """A run of one's own, to be spoilt."""
    return Path(shutil.copytree(trained_runs["bahdanau"], tmp_path / "mine"))


# --- help and list ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", COMMANDS)
def test_command_help_has_an_example(verb: str, saccade: Command) -> None:
    result = saccade(verb, "--help")
    assert result.code == 0
    examples = [line.strip() for line in result.out.splitlines()]
    assert any(re.match(rf"(cat .* \| )?saccade {verb}\b", line) for line in examples)
    assert "\\b" not in result.out and "\b" not in result.out


def test_help_lists_every_command(saccade: Command) -> None:
    result = saccade("--help")
    assert result.code == 0
    assert all(re.search(rf"^  {verb} ", result.out, re.M) for verb in COMMANDS)
    assert saccade("-h").out == result.out


def test_version_option(saccade: Command) -> None:
    assert re.fullmatch(r"saccade \d+\.\d+\.\d+\n", saccade("--version").out)


# --- bad input to train -------------------------------------------------------------------------


def refused(saccade: Command, tmp_path: Path, *arguments: object) -> str:
    """The message of a training that was refused, with nothing written and nothing lost."""
    before = contents(tmp_path)
    message = complaint(saccade("train", *SMALL, *arguments, "--out", "new"))
    assert contents(tmp_path) == before
    return message


def test_train_refuses_a_missing_file(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\n")
    message = refused(saccade, tmp_path, "translate", "--data", "pears.tsv")
    assert "There is no file pears.tsv. Did you mean 'pairs.tsv'?" in message
    message = refused(saccade, tmp_path, "pears.tsv")
    assert "There is no file pears.tsv. Did you mean 'pairs.tsv'?" in message


def test_train_refuses_an_empty_file(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("")
    message = refused(saccade, tmp_path, "pairs.tsv")
    assert "pairs.tsv: got an empty file; expected rows" in message


def test_train_refuses_bytes_that_are_not_of_the_given_encoding(
    saccade: Command, tmp_path: Path
) -> None:
    (tmp_path / "pairs.tsv").write_bytes("one\tun\ntwo\tdeux\nmarch\tétait\n".encode("latin-1"))
    message = refused(saccade, tmp_path, "pairs.tsv", "--set=data.encoding=utf-8")
    assert "pairs.tsv, line 3: byte 22" in message and "0xe9" in message


def test_train_refuses_wrong_column_counts(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("a\tb\nc\td\te\nno tab\n")
    message = refused(saccade, tmp_path, "pairs.tsv")
    assert "line 2: got 3" in message and "line 3: got 1" in message
    message = refused(saccade, tmp_path, "translate", "--data", "pairs.tsv")
    assert "line 2: got 3 columns" in message and "line 3: got 1 column" in message


def test_train_refuses_unequal_parallel_files(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "a.en").write_text("a\nb\nc\n")
    (tmp_path / "a.de").write_text("a\nb\n")
    message = refused(saccade, tmp_path, "translate", "--data", "a.en,a.de")
    assert "got 3 lines in a.en and 2 in a.de" in message


def test_train_refuses_too_long_pairs(saccade: Command, tmp_path: Path) -> None:
    lines = [f"w{n}\tv{n}\n" for n in range(30)]
    lines[16] = f"w\t{'v' * 40}\n"
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    message = refused(saccade, tmp_path, "pairs.tsv", "--set", "data.max_length=20")
    assert "pairs.tsv: got 1 pair with a side of more than 20 tokens (line 17" in message
    assert "--set data.max_length=40" in message and "data.on_too_long=skip" in message


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("model.widht=8", "no setting 'model.widht'. Did you mean 'model.width'?"),
        ("widht=8", "no setting 'widht'"),
        ("train.steps=many", "train.steps is 'many'"),
        ("train.steps=0", "train.steps is 0"),
        ("train.schedule=steep", "train.schedule is 'steep'"),
        ("model.name=transfomer", "no model 'transfomer'. Did you mean 'transformer'?"),
        (
            "data.synthetic=datse",
            "no built-in set of sentence pairs 'datse'. Did you mean 'dates'?",
        ),
        ("train.device=gpu9", "train.device is 'gpu9', which this machine cannot use"),
        ("model.dropout=1.5", "dropout is 1.5"),
        ("model.width", "got --set model.width; expected NAME=VALUE"),
        ("=8", "got --set =8; expected NAME=VALUE"),
    ],
)
def test_train_refuses_invalid_settings(
    assignment: str, words: str, saccade: Command, tmp_path: Path
) -> None:
    small = () if "data.synthetic" in assignment else ("--set", "data.size=50")
    assert words in refused(saccade, tmp_path, "reverse", *small, "--set", assignment)


def test_train_reports_all_invalid_settings_together(saccade: Command, tmp_path: Path) -> None:
    wrong = ("--set", "model.widht=8", "--set", "train.stpes=3", "--set", "train.seed=x")
    message = refused(saccade, tmp_path, "reverse", *wrong)
    assert all(word in message for word in ("model.widht", "train.stpes", "train.seed is 'x'"))


def test_train_refuses_width_not_divisible_by_heads(
    saccade: Command, words_file: Path, tmp_path: Path
) -> None:
    heads = ("--model", "transformer", "--set", "model.heads=3")
    message = refused(saccade, tmp_path, words_file, *heads)
    assert re.search(r"8 .*3 heads.*try 6 or 9", message)


def test_train_suggests_similar_names(saccade: Command, tmp_path: Path) -> None:
    assert "no recipe 'datse' and no file of that name. Did you mean 'dates'?" in refused(
        saccade, tmp_path, "datse"
    )
    assert "no model 'transfomer'. Did you mean 'transformer'?" in refused(
        saccade, tmp_path, "dates", "--model", "transfomer"
    )
    assert "translate needs data: --data pairs.tsv" in refused(saccade, tmp_path, "translate")
    assert "train needs a task, a recipe" in complaint(saccade("train"))
    verb = saccade("trian", "dates")
    assert (verb.code, verb.out) == (2, "")
    assert "trian" in verb.err
    option = saccade("train", "dates", "--width", "8")
    assert option.code == 2 and "--width" in option.err


def test_train_refuses_invalid_recipe_files(saccade: Command, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[model]\nname = \n")
    assert "mine.toml is not TOML" in refused(saccade, tmp_path, "mine.toml")
    (tmp_path / "mine.toml").write_text('[data]\nsynthetic = "reverse"\n[train]\nstpes = 3\n')
    message = refused(saccade, tmp_path, "mine.toml")
    assert "mine.toml: train has no setting 'stpes'. Did you mean 'steps'?" in message
    assert "There is no file gone.toml" in refused(saccade, tmp_path, "gone.toml")


def test_train_refuses_an_existing_run(saccade: Command, mine: Path, words_file: Path) -> None:
    before = contents(mine)
    message = complaint(saccade("train", words_file, "--out", mine, *SMALL))
    assert "mine already holds a run" in message
    assert contents(mine) == before


def test_internal_error_is_reported_and_debug_shows_traceback(
    saccade: Command, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object, **more: object) -> None:
        raise ZeroDivisionError("by zero")

    monkeypatch.setattr("saccade.runs.run.Run.predict", broken)
    result = saccade("predict", mine, "abc")
    assert (result.code, result.out) == (1, "")
    assert result.err.startswith("saccade: Internal error (ZeroDivisionError: by zero)")
    assert "Traceback" in saccade("predict", mine, "abc", "--debug").err
    assert "Traceback" in saccade("--debug", "predict", mine, "abc").err


# --- training -----------------------------------------------------------------------------------


def test_train_prints_choices_and_next_commands(
    saccade: Command, words_file: Path, tmp_path: Path
) -> None:
    result = saccade("train", words_file, *SMALL)
    assert (result.code, result.out) == (0, "")
    assert re.search(r"data.tokenizer.kind +character +answers are single words", result.err)
    assert "pairs are held out for dev" in result.err
    assert "saccade predict runs/words " in result.err
    assert load_run(tmp_path / "runs/words").recipe.train.steps == 4


def test_train_json_is_one_value(saccade: Command, words_file: Path) -> None:
    result = saccade("train", words_file, *SMALL, "--json", "--model", "seq2seq")
    value = json.loads(result.out)
    assert (value["run"], value["stop_reason"]) == ("runs/words", "steps")
    assert value["parameters"] > 0
    assert 0 <= value["test"]["exact"] <= 1
    assert value["test"]["conventions"]["chrf"].startswith("nrefs:1")


def test_train_prints_markup_like_text_verbatim(saccade: Command, tmp_path: Path) -> None:
    pairs = "".join(f"[/b] :smile: {n}\t[red] {n}\n" for n in range(30))
    (tmp_path / "odd[i].tsv").write_text(f"{pairs}\n\n")
    result = saccade("train", "odd[i].tsv", *SMALL)
    assert result.code == 0, result.err
    assert "odd[i].tsv: 2 empty lines were left out" in result.err
    assert re.search(r"saccade predict 'runs/odd\[i\]' '\[/b\] :smile: \d+'", result.err)


def test_train_reads_all_pair_formats(saccade: Command, words_file: Path, tmp_path: Path) -> None:
    pairs = [line.split("\t") for line in words_file.read_text().splitlines()]
    (tmp_path / "a.x").write_text("\n".join(source for source, _ in pairs))
    (tmp_path / "a.y").write_text("\n".join(target for _, target in pairs))
    with gzip.open(tmp_path / "pairs.tsv.gz", "wt") as file:
        file.write(words_file.read_text())
    rows = [json.dumps({"source": source, "target": target}) for source, target in pairs]
    (tmp_path / "pairs.jsonl").write_text("\n".join(rows))
    prints = set()
    for data in ("a.x,a.y", "pairs.tsv.gz", "pairs.jsonl", words_file):
        result = saccade(
            "train", "translate", "--data", data, "--model", "seq2seq", *SMALL, "--overwrite"
        )
        assert result.code == 0, result.err
        prints.add(load_run(tmp_path / "runs/translate").metadata["data"])
    assert len(prints) == 1


def test_copied_recipe_can_be_edited_and_trained(saccade: Command, tmp_path: Path) -> None:
    assert saccade("copy", "reverse", "mine.toml").code == 0
    text = (tmp_path / "mine.toml").read_text()
    assert text.startswith("# reverse: Reverse short sequences of letters.")
    (tmp_path / "mine.toml").write_text(text.replace("[model]", "size = 60\n\n[model]"))
    assert saccade("train", "mine.toml", *SMALL).code == 0
    assert load_run(tmp_path / "runs/mine").recipe.data.size == 60
    assert "mine.toml already exists" in complaint(saccade("copy", "dates", "mine.toml"))
    assert "expected a name ending in .toml" in complaint(saccade("copy", "dates", "mine.txt"))
    assert "no recipe 'datse'. Did you mean" in complaint(saccade("copy", "datse", "new.toml"))
    assert not (tmp_path / "mine.txt").exists()


def test_resume_refuses_other_settings(saccade: Command, mine: Path, words_file: Path) -> None:
    before = contents(mine)
    message = complaint(saccade("train", "--resume", mine, "--set", "train.seed=99"))
    assert "got other settings (train.seed: 1 → 99) than" in message and "--init-from" in message
    message = complaint(saccade("train", "--resume", mine, "--model", "transformer"))
    assert "model.name: 'bahdanau' → 'transformer'" in message
    message = complaint(saccade("train", "--resume", mine, "--data", "copy"))
    assert "data.synthetic: None → 'copy'" in message
    message = complaint(saccade("train", "dates", "--resume", mine))
    assert "data.synthetic: None → 'dates'" in message
    assert "is not a run" in complaint(saccade("train", "--resume", "nowhere"))
    assert contents(mine) == before
    assert saccade("train", words_file, "--resume", mine).code == 0


def test_init_from_uses_the_weights_of_a_run(
    saccade: Command, trained_runs: dict[str, Path], words_file: Path, tmp_path: Path
) -> None:
    parent = trained_runs["transformer"]
    result = saccade("train", words_file, "--init-from", parent, *SMALL[2:], "--out", "new")
    assert result.code == 0, result.err
    assert load_run(tmp_path / "new").recipe.model == load_run(parent).recipe.model
    wrong = ("--model", "seq2seq", "--init-from", parent, "--out", "other")
    assert "got other settings of the model" in complaint(saccade("train", words_file, *wrong))
    assert not (tmp_path / "other").exists()


def test_train_survives_a_full_disk(
    saccade: Command, words_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = os.fsync, []

    def fsync(handle: int) -> None:
        calls.append(os.readlink(f"/proc/self/fd/{handle}"))
        if "000000003" in calls[-1]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    every = (*SMALL, "--set", "train.checkpoint_seconds=0", "--out", "run")
    with monkeypatch.context() as patch:
        patch.setattr("saccade.io.atomic.os.fsync", fsync)
        message = complaint(saccade("train", words_file, *every))
    assert "000000003.safetensors could not be written: No space left on device" in message
    left = sorted(path.name for path in (tmp_path / "run/checkpoint").iterdir())
    assert left == ["000000001.safetensors", "000000002.safetensors"]
    assert saccade("train", "--resume", "run").code == 0
    assert saccade("train", words_file, *every[:-1], "whole").code == 0
    resumed, _ = read_tensors(tmp_path / "run/model.safetensors")
    whole, _ = read_tensors(tmp_path / "whole/model.safetensors")
    assert all(whole[name].equal(resumed[name]) for name in whole)


# --- runs that cannot be read -------------------------------------------------------------------

READING = {"predict": ["abc"], "evaluate": [], "look": ["abc"]}


@pytest.mark.parametrize("name", READING)
def test_commands_refuse_damaged_runs(name: str, saccade: Command, mine: Path) -> None:
    rest = READING[name]
    good = {path: (mine / path).read_bytes() for path in ("run.toml", "model.safetensors")}
    (mine / "model.safetensors").write_bytes(good["model.safetensors"][:-20])
    assert "model.safetensors is damaged" in complaint(saccade(name, mine, *rest))
    changed = bytearray(good["model.safetensors"])
    changed[-3] ^= 4
    (mine / "model.safetensors").write_bytes(changed)
    assert "does not match its checksum" in complaint(saccade(name, mine, *rest))
    values = {"format": RUN_FORMAT + 1, "made": {"saccade": "9.0"}}
    write_checksummed_text(mine / "run.toml", tomli_w.dumps(values))
    assert "written by saccade 9.0" in complaint(saccade(name, mine, *rest))
    (mine / "run.toml").write_text("format = 1\n")
    assert "run.toml is damaged" in complaint(saccade(name, mine, *rest))
    (mine / "run.toml").unlink()
    assert "mine is not a run" in complaint(saccade(name, mine, *rest))


# --- predict ------------------------------------------------------------------------------------


def test_predict_prints_one_line_per_text(saccade: Command, mine: Path) -> None:
    texts = ["abc", "", "fed"]
    answers = load_run(mine).predict(texts)
    result = saccade("predict", mine, *texts)
    assert (result.code, result.err) == (0, "")
    assert result.out.split("\n") == [*(answer.text for answer in answers), ""]


UNUSUAL_LINES = "﻿abc\r\n\r\na\tb\r\n🦊é\n\nשלום abc\n \n\x0bab c\nlast without an end"


def test_predict_file_prints_one_line_per_line(
    saccade: Command, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = UNUSUAL_LINES.encode()
    (tmp_path / "in.txt").write_bytes(content)
    (tmp_path / "in.gz").write_bytes(gzip.compress(content))
    result = saccade("predict", mine, "--file", "in.txt")
    texts = ["abc", "", "a", "🦊é", "", "שלום abc", " ", "\x0bab c", "last without an end"]
    answers = [answer.text for answer in load_run(mine).predict(texts)]
    assert result.code == 0
    assert result.out == "".join(f"{answer}\n" for answer in answers)
    assert result.out.split("\n")[1] == result.out.split("\n")[4] == ""
    assert saccade("predict", mine, "--file", "in.gz").out == result.out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert saccade("predict", mine, "--file", "-").out == result.out
    values = [
        json.loads(line)
        for line in saccade("predict", mine, "--file", "in.txt", "--json").out.splitlines()
    ]
    assert [value["source"] for value in values] == texts
    assert [value["text"] for value in values] == answers


def test_predict_n_best_prints_number_rank_and_score(saccade: Command, mine: Path) -> None:
    result = saccade("predict", mine, "abc", "fed", "--beam", 4, "--n-best", 2)
    rows = [line.split("\t") for line in result.out.splitlines()]
    assert [row[:2] for row in rows] == [["1", "1"], ["1", "2"], ["2", "1"], ["2", "2"]]
    assert float(rows[0][2]) >= float(rows[1][2])
    value = json.loads(saccade("predict", mine, "abc", "--beam=4", "--n-best=2", "--json").out)
    assert [value["text"], value["alternatives"][0]["text"]] == [rows[0][3], rows[1][3]]
    assert value["score"] == pytest.approx(float(rows[0][2]), abs=1e-4)
    assert "use a beam of 3" in complaint(saccade("predict", mine, "abc", "--n-best", 3))


def test_predict_needs_texts_or_a_file(
    saccade: Command, mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    assert "predict needs either texts or --file" in complaint(saccade("predict", mine))
    assert "predict needs either" in complaint(saccade("predict", mine, "abc", "--file", "x"))
    assert "There is no file gone.txt" in complaint(saccade("predict", mine, "--file", "gone.txt"))
    (tmp_path / "empty.txt").write_bytes(b"")
    assert saccade("predict", mine, "--file", "empty.txt") == (0, "", "")


@pytest.mark.parametrize(
    ("model", "engine", "used"),
    [
        ("transformer", None, "fused"),
        ("transformer", "fused", "fused"),
        ("transformer", "torch", "torch"),
        ("bahdanau", "fused", "torch"),  # no fused decoder for it
    ],
)
def test_predict_engine_is_printed_with_debug(
    model: str, engine: str | None, used: str, saccade: Command, trained_runs: dict[str, Path]
) -> None:
    chosen = () if engine is None else ("--engine", engine)
    plain = saccade("predict", trained_runs[model], "abc", *chosen)
    assert (plain.code, plain.err) == (0, "")
    debug = saccade("predict", trained_runs[model], "abc", *chosen, "--debug")
    assert (debug.code, debug.out, debug.err) == (0, plain.out, f"engine: {used}\n")
    assert saccade("--debug", "predict", trained_runs[model], "abc", *chosen) == debug


def test_predict_refuses_unknown_engines(saccade: Command, mine: Path) -> None:
    message = complaint(saccade("predict", mine, "abc", "--engine", "fusde"))
    assert "no engine 'fusde'. Did you mean 'fused'?" in message
    assert "There are: ctranslate2, fused, torch." in message


# --- check ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "engine"), [("transformer", "fused"), ("bahdanau", "torch")])
def test_check_names_the_compared_engine(
    model: str,
    engine: str,
    saccade: Command,
    trained_runs: dict[str, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def skip(*arguments: object) -> CheckResult:
        return skipped("compiled equals eager", "compiling takes long")

    monkeypatch.setattr("saccade.inspection.invariants.compile_parity", skip)
    run = shutil.copytree(trained_runs[model], tmp_path / "run")
    result = saccade("check", run, "--inputs", 2)
    assert result.code == 0, result
    notes = {
        value["invariant"]: value["note"]
        for value in read_checksummed_json(run / "checks.json")["findings"]
    }
    for invariant in ("cache consistency", "beam scores equal rescoring"):
        assert f"{invariant}: compared the engine {engine!r}\n" in result.out
        assert notes[invariant] == f"compared the engine {engine!r}"
    assert notes["causality"] == ""


# --- evaluate and look --------------------------------------------------------------------------


def test_evaluate_prints_metrics_with_conventions(
    saccade: Command, mine: Path, words_file: Path
) -> None:
    result = saccade("evaluate", mine, "--json")
    value = json.loads(result.out)
    figures = {"exact", "chrf", "chrf_lower", "loss", "perplexity"}
    assert value["omitted"]["bleu"] == "no reference has 4 tokens (sacreBLEU's 13a)"
    assert figures <= value.keys()
    assert figures == value["conventions"].keys()
    table = saccade("evaluate", mine, "--all").out
    assert all(re.search(rf"^{name} ", table, re.M) for name in figures)
    assert re.search(r"^bleu +– .*left out: no reference", table, re.M)
    short = saccade("evaluate", mine)
    assert [line.split()[0] for line in short.out.splitlines()] == ["metric", "exact", "examples"]
    assert f"{len(figures) - 1} more metrics with --all" in short.err
    given = json.loads(saccade("evaluate", mine, "--data", words_file, "--json").out)
    assert given["examples"] == 160
    train = json.loads(saccade("evaluate", mine, "--split", "train", "--json").out)
    assert train["examples"] > value["examples"]


def test_evaluate_refuses_missing_files_and_splits(saccade: Command, mine: Path) -> None:
    assert "There is no file gone.tsv" in complaint(saccade("evaluate", mine, "--data", "gone.tsv"))
    assert "There is no split 'tset'" in complaint(saccade("evaluate", mine, "--split", "tset"))


def test_look_prints_and_plots_attention(
    saccade: Command, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    transformer = trained_runs["transformer"]
    result = saccade("look", transformer, "abc", "--answer", "cba")
    assert result.code == 0
    assert result.out.startswith("abc\n→ cba\n")
    assert "cross attention, layer 1, head 1" in result.out
    assert "Showing 1 of 2 maps" in result.err
    one = saccade("look", transformer, "abc", "--layer", 1, "--head", 2, "--save", "map.png")
    assert "layer 1, head 2" in one.out
    assert (tmp_path / "map.png").read_bytes().startswith(b"\x89PNG")
    value = json.loads(saccade("look", transformer, "abc", "--json", "--kind", "encoder").out)
    assert [m["head"] for m in value["maps"]] == [1, 2]
    assert len(value["maps"][0]["weights"]) == len(value["maps"][0]["rows"]) == 4


def test_look_refuses_missing_layers_and_models(
    saccade: Command, trained_runs: dict[str, Path], tmp_path: Path
) -> None:
    transformer = trained_runs["transformer"]
    message = complaint(saccade("look", transformer, "abc", "--layer", 9))
    assert "no cross attention with layer 9" in message
    assert "cross (layers 1–1, heads 1–2)" in message
    invalid = saccade("look", transformer, "abc", "--layer", 0)
    assert invalid.code == 2 and "--layer" in invalid.err
    assert "got seq2seq, which has no attention" in complaint(
        saccade("look", trained_runs["seq2seq"], "abc")
    )
    assert "map.txt" in complaint(saccade("look", transformer, "abc", "--save", "map.txt"))
    assert not (tmp_path / "map.txt").exists()


# --- as a process -------------------------------------------------------------------------------


def test_process_exit_codes(tmp_path: Path) -> None:
    fine = process(["list", "--json"], cwd=tmp_path)
    wrong = process(["train", "nothing-of-that-name"], cwd=tmp_path)
    out, err = fine.communicate(timeout=HANG_SECONDS)
    assert (fine.returncode, err) == (0, "")
    assert json.loads(out)
    out, err = wrong.communicate(timeout=HANG_SECONDS)
    assert (wrong.returncode, out) == (2, "")
    assert err.startswith("saccade: There is no recipe 'nothing-of-that-name'")


def test_predict_ignores_a_closed_pipe(mine: Path) -> None:
    with process(["predict", mine, "--file", "-"]) as started:
        assert started.stdin and started.stdout and started.stderr
        started.stdout.close()
        started.stdin.write("abc\n" * 3000)
        started.stdin.close()
        assert started.wait(timeout=HANG_SECONDS) == 0
        assert started.stderr.read() == ""


def test_ctrl_c_saves_and_resume_is_bit_exact(
    saccade: Command, words_file: Path, tmp_path: Path
) -> None:
    long = [*SMALL, "--set=train.steps=80", "--set=train.evaluate_every=40"]
    started = process(["train", words_file, *long, "--out", "broken"], cwd=tmp_path)
    metrics = tmp_path / "broken" / "metrics.jsonl"
    patience = time.monotonic() + HANG_SECONDS
    while not (metrics.exists() and metrics.stat().st_size):
        assert started.poll() is None and time.monotonic() < patience
        time.sleep(0.005)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=HANG_SECONDS)
    assert (started.returncode, out) == (130, "")
    assert "Traceback" not in err
    assert "Resume with: saccade train --resume broken" in err
    assert not (tmp_path / "broken" / "report").exists(), "it was over before it was stopped"
    result = saccade("train", "--resume", "broken", "--json")
    assert (result.code, json.loads(result.out)["stop_reason"]) == (0, "steps")
    whole = saccade("train", words_file, *long, "--out", "whole", "--json")
    assert json.loads(result.out)["test"] == json.loads(whole.out)["test"]
    for name in ("model.safetensors", "checkpoint/000000080.safetensors"):
        (left, facts), (right, expected) = (
            read_tensors(tmp_path / folder / name) for folder in ("broken", "whole")
        )
        for values in (facts, expected):
            values.get("state", {}).pop("seconds", None)
        assert facts == expected
        assert left.keys() == right.keys()
        assert all(left[key].equal(right[key]) for key in left)
    assert read_checksummed_text(tmp_path / "broken/run.toml") == read_checksummed_text(
        tmp_path / "whole/run.toml"
    )

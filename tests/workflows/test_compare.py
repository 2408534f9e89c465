import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from saccade.cli.main import run as command
from saccade.errors import ConfigError, DataError, RunError
from saccade.plots.comparison import align_curves, save_comparison
from saccade.runs.run import load_run
from saccade.runs.train import TrainOptions
from saccade.tasks.registry import TASKS
from saccade.training.loop import StepEvent
from saccade.workflows import compare_models
from saccade.workflows.compare.measure import (
    ComparisonMetric,
    ModelResults,
    RunResult,
    seconds_to_converge,
    validation_curve,
)
from saccade.workflows.compare.significance import (
    pairwise_differences,
    permutation_p,
    rank_models,
    seeds_needed,
    separation_probability,
)

EXACT, LOSS = ComparisonMetric("exact", True, 100.0), ComparisonMetric("loss", False)
SMALL = {
    "data.max_new_tokens": 8,
    "model.width": 8,
    "train.batch_tokens": 128,
    "train.report_every": 2,
    "train.evaluate_every": 3,
    "train.threads": 1,
}


# --- significance -------------------------------------------------------------------------------


def one(test, per_example=None, seed=1):
    no_curve = np.empty((0, 2))
    return RunResult(seed, "steps", 10, 5.0, test, test, 1.0, 1.0, no_curve, per_example)


def row(name, *eachs):
    """A model whose seeds have these scores for each input."""
    return ModelResults(
        name, tuple(one(float(np.mean(per_example)), per_example) for per_example in eachs)
    )


def right(share, count=1000, start=0):
    """A share of the inputs right, 100 or 0 each, starting at one."""
    per_example = np.zeros(count)
    per_example[np.arange(start, start + int(share * count)) % count] = 100.0
    return per_example


def test_pairwise_differences_clear_difference():
    rows = [row("good", right(0.9), right(0.92)), row("bad", right(0.5), right(0.55))]
    (result,) = pairwise_differences(rows, EXACT)
    assert result.is_significant and (result.better, result.worse) == ("good", "bad")
    assert result.summary.startswith(
        "good is better than bad by 38.5 points of exact (95 % interval"
    )
    assert result.seeds_overlap is False and result.interval[0] > 0
    (turned,) = pairwise_differences(rows[::-1], EXACT)
    assert turned.is_significant and (turned.better, turned.difference) == ("good", -38.5)


def test_pairwise_differences_equal_scores_are_undecided():
    rows = [row("one", right(0.9), right(0.9)), row("other", right(0.9), right(0.9))]
    (result,) = pairwise_differences(rows, EXACT)
    assert not result.is_significant and result.difference == 0
    assert "one and other: undecided" in result.summary and "contains 0" in result.summary


def test_pairwise_differences_overlapping_seeds_are_undecided():
    many = 20_000
    rows = [
        row("a", right(0.9, many), right(0.95, many)),
        row("b", right(0.85, many), right(0.91, many)),
    ]
    (result,) = pairwise_differences(rows, EXACT)
    assert result.interval[0] > 0 and result.seeds_overlap and not result.is_significant
    assert "a and b: undecided" in result.summary and " overlap" in result.summary
    assert result.seeds_needed > 2 and f"{result.seeds_needed} seeds needed" in result.summary


def test_pairwise_differences_small_test_set_is_undecided():
    # 21 and 20 of 25 right, on different inputs
    a = row("a", right(0.84, 25), right(0.84, 25), right(0.88, 25))
    rows = [a, row("b", *[right(0.8, 25, 10)] * 3)]
    (result,) = pairwise_differences(rows, EXACT)
    assert result.seeds_overlap is False and result.interval[0] < 0 < result.interval[1]
    assert not result.is_significant and "do not overlap" in result.summary
    assert result.seeds_needed is None and "test examples needed" in result.summary


def test_pairwise_differences_one_seed():
    (result,) = pairwise_differences([row("a", right(0.9)), row("b", right(0.5))], EXACT)
    assert (
        result.is_significant
        and result.seeds_overlap is None
        and "these two trainings" in result.summary
    )


def losses(name, *tests):
    return ModelResults(name, tuple(one(test) for test in tests))


def test_pairwise_differences_constant_seeds():
    alike = [losses("a", 1.0, 1.0, 1.0, 1.0), losses("b", 2.0, 2.0, 2.0, 2.0)]
    (result,) = pairwise_differences(alike, LOSS)
    assert (
        not result.is_significant
        and result.seeds_overlap is None
        and "the seeds change nothing" in result.summary
    )
    (result,) = pairwise_differences([alike[0], losses("b", 2.0, 2.0, 2.0, 2.1)], LOSS)
    assert (
        result.is_significant
    )  # one that is the same every time, and one that is above it every time


def test_pairwise_differences_by_loss_needs_seeds():
    low, high = (1.0, 1.1, 1.2, 1.3), (2.0, 2.1, 2.2, 2.3)
    (result,) = pairwise_differences([losses("low", *low), losses("high", *high)], LOSS)
    assert result.is_significant and result.better == "low" and result.interval is None
    assert result.summary.startswith("low is better than high by 1 of loss")
    for seeds, probability in ((3, "10 %"), (2, "33.3 %")):  # 2 / 20 and 2 / 6
        (result,) = pairwise_differences(
            [losses("low", *low[:seeds]), losses("high", *high[:seeds])], LOSS
        )
        assert not result.is_significant
        assert f"{probability} probable by seed variation alone; 4 seeds needed" in result.summary
        assert result.seeds_needed == 4
    (result,) = pairwise_differences([losses("low", *low), losses("high", 1.3, *high[1:])], LOSS)
    assert not result.is_significant and result.seeds_overlap
    (result,) = pairwise_differences([losses("low", 1.0), losses("high", 2.0)], LOSS)
    assert not result.is_significant and "one seed" in result.summary
    assert result.seeds_needed == 4 and result.summary.endswith("; 4 seeds needed).")
    order = rank_models([losses("high", 2.0), losses("low", 1.0)], LOSS)
    assert [r.model for r in order] == ["low", "high"]


@pytest.mark.parametrize(("a", "b"), [(3, 3), (5, 4), (2, 6), (12, 12)])
def test_permutation_p_is_that_of_scipy(a, b):
    draw = np.random.default_rng([a, b])
    first, second = draw.normal(0, 1, a), draw.normal(1, 1, b)
    expected = scipy.stats.permutation_test(
        (first, second), lambda x, y: abs(np.mean(x) - np.mean(y)), alternative="greater", rng=draw
    )
    exact = a + b < 20
    assert permutation_p(first, second) == pytest.approx(
        expected.pvalue, rel=1e-9 if exact else 0.2
    )


def test_permutation_p_of_separated_scores_is_the_formula():
    for seeds in (2, 3, 5):
        first = [1.0 + 0.1 * seed for seed in range(seeds)]
        found = permutation_p(first, [score + 5 for score in first])
        assert found == pytest.approx(separation_probability(seeds, seeds))


def test_many_seeds_decide_in_spite_of_one_overlap():
    low = [1.0, 1.1, 1.2, 1.0, 1.1, 1.2, 1.65, 1.1]
    high = [score + 0.6 for score in low]
    (result,) = pairwise_differences([losses("low", *low), losses("high", *high)], LOSS)
    assert result.seeds_overlap and result.is_significant and result.better == "low"


def test_seeds_needed_decide_about_half_of_the_time():
    draw = np.random.default_rng(5)
    difference, spread = 1.0, 1.0
    pattern = np.array([-1.0, 1.0]) * spread / np.sqrt(2)  # two seeds with this deviation
    needed = seeds_needed([*pattern], [*(pattern + difference)], 0.05)
    assert needed == 8  # 2 · 1.96²
    decided = sum(
        permutation_p(draw.normal(0, spread, needed), draw.normal(difference, spread, needed))
        < 0.05
        for _ in range(200)
    )
    assert 70 < decided < 140


def test_separation_probability_by_simulation():
    draw = np.random.default_rng(3)
    separated = 0
    for _ in range(4000):
        a, b = draw.random(3), draw.random(3)
        separated += a.min() > b.max() or b.min() > a.max()
    assert separated / 4000 == pytest.approx(separation_probability(3, 3), abs=0.02)


def test_pairwise_differences_bonferroni():
    rows = [row(name, right(share)) for name, share in (("a", 0.9), ("b", 0.7), ("c", 0.5))]
    two, three = pairwise_differences(rows[:2], EXACT)[0], pairwise_differences(rows, EXACT)[0]
    assert len(pairwise_differences(rows, EXACT)) == 3
    assert three.interval[0] < two.interval[0] < two.interval[1] < three.interval[1]
    assert "98.3 % interval" in three.summary


def test_pairwise_differences_false_positive_rate():
    draw = np.random.default_rng(0)
    is_significant = 0
    for _ in range(20):
        eachs = [[100.0 * (draw.random(200) < 0.8) for _ in range(3)] for _ in range(2)]
        is_significant += pairwise_differences([row("a", *eachs[0]), row("b", *eachs[1])], EXACT)[
            0
        ].is_significant
    assert is_significant <= 2


# --- the log ----------------------------------------------------------------------------------


def test_validation_curve_interpolates_seconds():
    lines = [
        {"step": 10, "loss": 1.0, "seconds": 4.0, "rate": 3.0},
        {"step": 15, "dev_exact": 0.5, "best": True},
        {"step": 20, "loss": 1.0, "seconds": 10.0, "rate": 5.0},
        {"step": 20, "dev_exact": 0.9, "best": True},
        {"step": 22, "dev_exact": 1.0, "best": True},
        {"step": 30, "dev_exact": 0.8, "best": False, "seconds": 40.0},
    ]
    found = validation_curve(lines, EXACT)
    expected = [[7.0, 50.0], [10.0, 90.0], [16.0, 100.0], [40.0, 80.0]]  # 16: up to the timed one
    np.testing.assert_allclose(found, expected)
    assert validation_curve(lines[:5], EXACT)[2, 0] == pytest.approx(
        11.0
    )  # at the pace up to the last
    assert seconds_to_converge(found, EXACT) == 10.0
    falling = np.array([[1.0, 9.0], [2.0, 1.1], [3.0, 1.0]])
    assert seconds_to_converge(falling, LOSS) == 2.0
    assert (
        validation_curve([], EXACT).shape == (0, 2)
        and seconds_to_converge(validation_curve([], EXACT), EXACT) is None
    )


def test_align_curves():
    short, long = np.array([[1.0, 0.0], [3.0, 4.0]]), np.array([[2.0, 1.0], [6.0, 5.0]])
    seconds, scores = align_curves([short, long])
    assert seconds[0] == 2.0 and seconds[-1] == 6.0
    assert scores[0, 0] == 2.0 and scores[1, 0] == 1.0
    assert scores[0, -1] == 4.0  # it ended before, and stays
    assert align_curves([np.array([[1.0, 2.0]])])[1].tolist() == [[2.0]]
    with pytest.raises(ValueError, match="no evaluations to draw; train for more"):
        save_comparison({"a": [np.empty((0, 2))]}, "exact", Path("x.png"))


# --- trained for real -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def compared(words_file, tmp_path_factory):
    out = tmp_path_factory.mktemp("compared")
    call = {"models": ["seq2seq", "bahdanau"], "steps": 6, "seeds": 2, "set": SMALL, "out": out}
    return compare_models(str(words_file), **call), call


def test_compare_trains_every_model_with_every_seed(compared):
    found, call = compared
    assert {row.model for row in found.rows} == {"seq2seq", "bahdanau"}
    assert found.plot == call["out"] / "comparison.png" and found.plot.stat().st_size > 1000
    folders = [call["out"] / f"{model}-{seed}" for model in call["models"] for seed in (1, 2)]
    runs = [load_run(folder) for folder in folders]
    assert len({(folder / "tokenizer.json").read_bytes() for folder in folders}) == 1
    assert len({run.metadata["data"] for run in runs}) == 1
    assert [run.recipe.train.seed for run in runs] == [1, 2, 1, 2]
    assert {run.recipe.train.steps for run in runs} == {6}
    for model in found.rows:
        for one, seed in zip(model.runs, (1, 2), strict=True):
            run = load_run(call["out"] / f"{model.model}-{seed}")
            assert (one.seed, one.stop_reason, one.parameters) == (seed, "steps", run.parameters)
            assert (
                one.test == 100 * run.evaluate()["exact"] == pytest.approx(one.per_example.mean())
            )
            assert one.dev == 100 * max(line.get("dev_exact", 0.0) for line in run.metrics())
            assert one.tokens_per_second > 0 and one.milliseconds > 0 and one.seconds > 0
            assert one.curve.shape == (2, 2)
    assert [d.is_significant for d in found.differences] == [False]  # six steps teach nothing
    assert "Same tokenizer for all, fitted once" in found.notes[0]
    assert json.loads(json.dumps(found.to_dict()))["rows"][0]["seeds"][1]["seed"] == 2


def test_short_trainings_have_curves(words_file, tmp_path):
    settings = {name: value for name, value in SMALL.items() if name != "train.evaluate_every"}
    settings["train.patience"] = 3
    call = {"models": ["seq2seq"], "steps": 20, "seeds": 1, "set": settings, "out": tmp_path}
    found = compare_models(str(words_file), **call)
    train = load_run(tmp_path / "seq2seq-1").recipe.train
    assert train.evaluate_every == 2 and train.patience > 3
    assert len(found.rows[0].runs[0].curve) == 10


def test_comparison_is_shown_in_notebooks(compared):
    found, _ = compared
    shown = found._repr_html_()
    assert "<td>bahdanau</td>" in shown and "undecided" in shown and "image/png;base64," in shown


def test_compare_reuses_finished_runs(compared, words_file):
    found, call = compared
    trained = []
    options = TrainOptions(on_event=lambda event: trained.append(event))
    again = compare_models(str(words_file), **call, options=options)
    assert not trained
    assert [r.mean("test") for r in again.rows] == [r.mean("test") for r in found.rows]
    more = compare_models(
        str(words_file), **{**call, "seeds": 3, "models": ["seq2seq"]}, options=options
    )
    assert sum(isinstance(event, StepEvent) for event in trained) == 6
    assert len(more.rows[0].runs) == 3 and more.differences == []


def test_compare_resumes(words_file, tmp_path, outcome_of):
    call = {"models": ["seq2seq"], "steps": 6, "seeds": 1, "set": SMALL}

    def interrupt(event):
        if isinstance(event, StepEvent) and event.step == 4:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="The same command resumes"):
        compare_models(
            str(words_file), **call, out=tmp_path / "a", options=TrainOptions(on_event=interrupt)
        )
    steps = []
    options = TrainOptions(on_event=lambda event: steps.append(event.step))
    compare_models(str(words_file), **call, out=tmp_path / "a", options=options)
    assert min(steps) == 5
    compare_models(str(words_file), **call, out=tmp_path / "b")
    assert outcome_of(tmp_path / "a" / "seq2seq-1") == outcome_of(tmp_path / "b" / "seq2seq-1")


def test_compare_time_budget_overrides_steps(words_file, tmp_path):
    quick = {**SMALL, "train.patience": 10**6, "train.evaluate_every": 1000}
    call = {"data": str(words_file), "seeds": 1, "set": quick, "out": tmp_path}
    found = compare_models("copy", models=["seq2seq"], minutes=0.01, **call)
    assert found.rows[0].runs[0].stop_reason == "minutes"
    kept = load_run(tmp_path / "seq2seq-1").recipe.train
    assert kept.minutes == 0.01 and kept.steps is None  # copy has 400
    found = compare_models("copy", models=["bahdanau"], minutes=5.0, steps=3, **call)
    assert found.rows[0].runs[0].stop_reason == "steps"


def test_compare_refuses_runs_of_another_comparison(compared, words_file, trained_runs, tmp_path):
    _, call = compared
    with pytest.raises(RunError, match=r"train.steps: 6 → 9.*another folder \(--out\)"):
        compare_models(str(words_file), **{**call, "steps": 9})
    wider = {**SMALL, "model.depth": 1}
    with pytest.raises(RunError, match="model.depth: 'unset' → 1"):
        compare_models(str(words_file), **{**call, "set": wider})
    (tmp_path / "bahdanau-1").symlink_to(trained_runs["bahdanau"])
    with pytest.raises(RunError, match="not part of a comparison"):
        compare_models(str(words_file), **{**call, "out": tmp_path})


def test_compare_refuses_changed_data(words_file, tmp_path):
    own = tmp_path / "words.tsv"
    own.write_text(words_file.read_text("utf-8"), encoding="utf-8")
    call = {"steps": 2, "seeds": 1, "set": SMALL, "out": tmp_path / "out"}
    compare_models(str(own), models=["seq2seq"], **call)
    lines = own.read_text("utf-8").splitlines()
    own.write_text("\n".join(lines[:-20]) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="bahdanau-1 and .*seq2seq-1 do not have the same training"):
        compare_models(str(own), models=["seq2seq", "bahdanau"], **call)
    assert not (tmp_path / "out" / "bahdanau-1").exists()


def test_compare_by_loss(tmp_path):
    found = compare_models(
        "forecast", steps=4, seeds=2, set={"train.threads": 1}, out=tmp_path, models=["recurrent"]
    )
    assert found.metric.name == "loss" and found.rows[0].runs[0].per_example is None
    assert found.rows[0].mean("dev") > 0 and "Same preprocessing" in found.notes[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"models": ["seq2sec"]}, "Did you mean 'seq2seq'"),
        ({"models": ["seq2seq", "seq2seq"]}, "expected one or more, each once"),
        ({"models": []}, "got the models none"),
        ({"seeds": 0}, "got 0 seeds"),
        ({"set": {"train.seed": 4}}, "compare sets train.seed itself"),
        ({"set": {"model.widht": 4}}, "there is no setting 'model.widht'"),
        ({"set": {"model.heads": 4}}, "there is no setting 'model.heads'"),
        ({"steps": 0}, "train.steps"),
        ({"minutes": 0.0}, "train.minutes"),
        ({"save": "picture.txt"}, "try picture.png"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_compare_refuses_invalid_options(wrong, message, words_file, tmp_path):
    call = {"models": ["transformer", "seq2seq"], "steps": 3, "out": tmp_path / "new", **wrong}
    with pytest.raises(ConfigError, match=message):
        compare_models(str(words_file), **call)
    assert not (tmp_path / "new").exists()


def test_compare_defaults_to_all_models(words_file, tmp_path):
    logged = []

    def result(message):
        logged.append(message)
        raise KeyboardInterrupt  # before the first training

    with pytest.raises(KeyboardInterrupt):
        compare_models(str(words_file), steps=3, out=tmp_path, options=TrainOptions(log=result))
    asked = json.loads((tmp_path / "comparison.json").read_text("utf-8"))["asked"]
    assert set(asked) == set(TASKS["translate"].models) and "bahdanau" in logged[0]


def test_compare_command_prints_table_or_json(compared, words_file, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    _, call = compared
    settings = [f"--set={path}={value}" for path, value in SMALL.items()]
    arguments = ["compare", str(words_file), "--models", "seq2seq,bahdanau", "--steps", "6"]
    arguments += ["--seeds", "2", "--out", str(call["out"]), *settings]
    assert command(arguments) == 0
    output = capsys.readouterr().out
    assert "tokens/s" in output and "undecided" in output and "fitted once" in output
    assert command([*arguments, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 2
    assert command([*arguments, "--max-length", "128"]) == 2
    assert "--max-length is an option of compare layers only" in capsys.readouterr().err

"""The translation task: loss, batches, predictions, scores, attention maps, training."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from saccade.config import override_settings
from saccade.data.special_tokens import BOS, EOS
from saccade.errors import ConfigError, DataError
from saccade.estimators.baselines import copy_source
from saccade.metrics.translation import bleu_statistics, max_bleu_tokens
from saccade.recipes.resolve import resolve_recipe
from saccade.recipes.translation import reverse_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.translation.data import PreparedPairs, prepare_pairs
from saccade.tasks.translation.evaluate import score_translations
from saccade.tasks.translation.objective import TranslationObjective
from saccade.tasks.translation.predict import attention_kind

MODELS = ("bahdanau", "seq2seq", "transformer")
Recipes = Callable[..., Any]


def prepare(recipe: Any, **context: Any) -> PreparedPairs:
    return prepare_pairs(recipe, PrepareContext(**context))


def untrained_run(recipe: Any) -> Run:
    """Return a run with initial weights and its data, without a folder."""
    data = prepare(recipe)
    run = Run(Path("unsaved"), data.recipe, {}, data.preprocessor)
    run.attach_data(data)
    return run


def make_objective(run: Run) -> TranslationObjective:
    return TranslationObjective(run.recipe, run.model, run.preprocessor, run.data().splits)


@pytest.fixture(scope="module")
def untrained(smallest: Recipes) -> dict[str, Run]:
    """An untrained run of each model."""
    return {model: untrained_run(smallest(model)) for model in MODELS}


# --- loss -----------------------------------------------------------------------------------------


def stepwise_loss(run: Run, source: str, target: str, smoothing: float) -> tuple[float, int]:
    """Loss and correct tokens of one pair, computed step by step without padding."""
    ids = [*run.preprocessor.source.encode(source), EOS]
    expected = [*run.preprocessor.target.encode(target), EOS]
    state = run.model.init_state(run.model.encode(torch.tensor([ids]), None))
    total, correct, previous = 0.0, 0, BOS
    for token in expected:
        logits, state = run.model.step(torch.tensor([[previous]]), state)
        log_p = logits[0, 0].double().log_softmax(0)
        total -= (1 - smoothing) * float(log_p[token]) + smoothing * float(log_p.mean())
        correct += int(log_p.argmax() == token)
        previous = token
    return total, correct


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("model", MODELS)
def test_translation_loss_equals_the_sum_over_single_pairs(
    model: str, smoothing: float, smallest: Recipes
) -> None:
    run = untrained_run(smallest(model, {"train.label_smoothing": smoothing, "model.dropout": 0.0}))
    objective = make_objective(run)
    run.model.eval()
    with torch.no_grad():
        for batch in [*objective.batches("dev"), next(objective.batches("train"))]:
            dev_lines = set(run.split("dev").pairs.lines.tolist())
            pairs = run.split("dev" if set(batch.lines) <= dev_lines else "train").pairs
            rows = np.flatnonzero(np.isin(pairs.lines, batch.lines))
            slow = [stepwise_loss(run, *pairs[int(row)], smoothing) for row in rows]
            loss = objective.loss(batch)
            assert loss.correct is not None
            assert float(loss.total) == pytest.approx(sum(total for total, _ in slow), rel=1e-5)
            assert int(loss.correct) == sum(correct for _, correct in slow)


@pytest.mark.parametrize("model", MODELS)
def test_translation_loss_never_projects_padding(
    model: str, untrained: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, projected = make_objective(untrained[model]), []
    pre_logits: Any = objective.model.pre_logits

    def counting(hidden: Tensor) -> Tensor:
        projected.append(hidden.shape[:-1].numel())
        return pre_logits(hidden)

    monkeypatch.setattr(objective.model, "pre_logits", counting)
    padded = 0
    for batch in objective.batches("dev"):
        objective.loss(batch)
        assert projected.pop() == batch.tokens
        padded += batch.target_in.numel() - batch.tokens
    assert padded > 0, "no batch had padding"


@pytest.mark.parametrize("model", MODELS)
def test_mean_loss_is_the_mean_over_all_tokens_of_the_split(
    model: str, untrained: dict[str, Run]
) -> None:
    run = untrained[model]
    dev = run.split("dev")
    run.model.eval()
    with torch.no_grad():
        slow = [stepwise_loss(run, source, target, 0.0)[0] for source, target in dev.pairs]
    tokens = sum(len(target) + 1 for _, target in dev.pairs)
    metrics = run.evaluator.mean_loss(dev)  # type: ignore[attr-defined]
    assert metrics["loss"] == pytest.approx(sum(slow) / tokens, rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(np.exp(sum(slow) / tokens), rel=1e-4)


def test_initial_weights_depend_on_the_seed_alone(smallest: Recipes) -> None:
    def weights(seed: int) -> Tensor:
        torch.randn(3)  # the state of the global generator must not matter
        run = untrained_run(smallest("bahdanau", {"train.seed": seed}))
        return torch.cat([p.flatten() for p in run.model.parameters()])

    assert torch.equal(weights(1), weights(1))
    assert not torch.equal(weights(1), weights(2))


# --- batches --------------------------------------------------------------------------------------


def test_training_batches_from_a_later_start_are_the_same(untrained: dict[str, Run]) -> None:
    objective = make_objective(untrained["bahdanau"])
    stream = objective.batches("train")
    lines = [next(stream).lines for _ in range(25)]
    for start in (0, 1, 8, 9, 20):
        assert next(objective.batches("train", start)).lines == lines[start]


def test_dev_batches_have_each_held_out_pair_once(untrained: dict[str, Run]) -> None:
    run = untrained["bahdanau"]
    dev = [line for batch in make_objective(run).batches("dev") for line in batch.lines]
    assert sorted(dev) == sorted(run.split("dev").pairs.lines.tolist())
    assert not set(dev) & set(run.split("train").pairs.lines.tolist())


# --- predictions ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(trained_runs: dict[str, Path]) -> dict[str, Run]:
    return {model: load_run(folder) for model, folder in trained_runs.items()}


@settings(max_examples=10)
@given(texts=st.lists(st.text(alphabet="abcdef", max_size=6), max_size=8))
@pytest.mark.parametrize("model", MODELS)
def test_predictions_are_in_the_order_of_the_inputs(
    model: str, texts: list[str], trained: dict[str, Run]
) -> None:
    run = trained[model]
    together = run.predict(texts)
    assert len(together) == len(texts)
    for text, prediction in zip(texts, together, strict=True):
        single = run.predict([text])[0]
        # scores differ by rounding; the texts must not
        assert prediction.text == single.text
        assert prediction.score == pytest.approx(single.score, abs=1e-4)


def test_prediction_of_an_empty_source_is_empty(trained: dict[str, Run]) -> None:
    for run in trained.values():
        first, empty, last = run.predict(["abc", "", "fed"])
        assert (empty.text, empty.log_probability, empty.finished) == ("", 0.0, True)
        assert run.predict([""]) == [empty]
        assert run.predict([]) == []
        assert run.predict(["abc", "fed"]) == [first, last]


def test_predictions_do_not_depend_on_the_groups(
    trained: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, texts = trained["bahdanau"], ["abc", "f", "abcdef", "de", "", "cab", "ffff"]
    reports: list[tuple[str, int, int | None]] = []
    whole = run.predict(texts)
    monkeypatch.setattr("saccade.tasks.translation.predict.DECODE_BATCH_TOKENS", 8)
    parts = run.predict(texts, on_progress=lambda *report: reports.append(report))
    assert [prediction.text for prediction in parts] == [prediction.text for prediction in whole]
    assert reports[-1] == ("predicting", len(texts), len(texts))
    assert len(reports) > 3


def test_n_best_predictions_are_sorted_by_score(trained: dict[str, Run]) -> None:
    for run in trained.values():
        [prediction] = run.predict(["abc"], beam=4, n_best=3)
        scores = [prediction.score, *(other.score for other in prediction.alternatives)]
        assert len(scores) == 3
        assert scores == sorted(scores, reverse=True)


def test_predict_names_the_inputs_that_are_too_long(smallest: Recipes) -> None:
    run = untrained_run(smallest("bahdanau", {"data.max_length": 7}))
    message = r"got input 2 \(8 tokens\), 4 \(9 tokens\); expected at most 7 tokens"
    with pytest.raises(DataError, match=message):
        run.predict(["abc", "a" * 8, "", "b" * 9])
    with pytest.raises(DataError, match=r"input 1002 \(8 tokens\).*larger data\.max_length"):
        run.predict(["abc", "a" * 8], first=1001)


# --- pairs that are too long ----------------------------------------------------------------------


@pytest.fixture
def with_long_lines(words_file: Path, tmp_path: Path) -> Path:
    """The words, every fourth line extended beyond the length limit."""
    lines = words_file.read_text().splitlines()
    longer = [f"{line}{'a' * 30}" if n % 4 == 0 else line for n, line in enumerate(lines)]
    path = tmp_path / "long.tsv"
    path.write_text("\n".join(longer) + "\n")
    return path


def test_prepare_pairs_refuses_long_pairs_with_their_lines(with_long_lines: Path) -> None:
    recipe = resolve_recipe(str(with_long_lines), changes={"data.max_length": 20}).recipe
    message = rf"{with_long_lines.name}: got \d+ pairs with a side .* \(line 1, 5"
    with pytest.raises(DataError, match=message):
        prepare(recipe)


def test_prepare_pairs_skips_long_pairs_in_every_split(with_long_lines: Path) -> None:
    changes = {"data.max_length": 20, "data.on_too_long": "skip", "model.width": 8}
    run = untrained_run(resolve_recipe(str(with_long_lines), changes=changes).recipe)
    assert any("left out" in note for note in run.data().notes)
    for name in ("train", "dev", "test"):
        pairs, encoded = run.split(name)
        assert pairs.lines.tolist() == encoded.lines.tolist()
        assert all(line % 4 != 1 for line in pairs.lines.tolist())
    assert run.evaluate(split="dev")["examples"] == len(run.split("dev").pairs)


def test_prepare_pairs_refuses_data_without_a_short_pair(words_file: Path) -> None:
    changes = {"data.max_length": 1, "data.on_too_long": "skip", "data.tokenizer.kind": "character"}
    file = words_file.with_name("only-long.tsv")
    file.write_text("".join(f"ab{n}\tcd{n}\n" for n in range(40)))
    message = r"got \d+ pairs with more than 1 tokens .*try a larger data.max_length"
    with pytest.raises(DataError, match=message):
        prepare(resolve_recipe(str(file), changes=changes).recipe)


# --- preparing ------------------------------------------------------------------------------------


def test_prepare_pairs_chooses_a_model_only_if_none_is_given(tmp_path: Path) -> None:
    path = tmp_path / "sentences.tsv.gz"
    with gzip.open(path, "wt", encoding="utf-8") as file:
        for n in range(60):
            file.write(f"this is sentence {n} of the file\tdies ist Satz {n} der Datei\n")
    without_model = resolve_recipe(str(path))
    chosen = prepare(without_model.recipe, auto_model=without_model.auto_model)
    assert chosen.recipe.model_name == "transformer"
    assert chosen.recipe.data.tokenizer.kind == "bpe"
    with_model = resolve_recipe(str(path), model="seq2seq")
    given = prepare(with_model.recipe, auto_model=with_model.auto_model)
    assert given.recipe.model_name == "seq2seq"


def test_prepare_pairs_reports_progress(smallest: Recipes) -> None:
    reports: list[tuple[str, int, int | None]] = []
    prepare(smallest(), on_progress=lambda *report: reports.append(report))
    assert reports[-1] == ("encoding", 320, 320)


def test_width_not_divisible_by_heads_is_a_config_error(smallest: Recipes) -> None:
    with pytest.raises(ConfigError, match="10 .*4 heads.*try 8 or 12"):
        untrained_run(smallest("transformer", {"model.width": 10, "model.heads": 4}))


# --- scores and attention maps --------------------------------------------------------------------


def test_score_translations_compares_with_the_references() -> None:
    short = score_translations(["a b c d e", "x"], ["a b c d e", "y"], full=False)
    assert short["exact"] == 0.5
    assert short["examples"] == 2
    assert set(short.conventions) == {"exact", "bleu", "chrf", "d2l_bleu"}
    assert short.omitted == {}
    full = score_translations(["A b c d e"], ["a b c d E"])
    by_case = ["exact", "bleu", "bleu_lower", "chrf", "chrf_lower", "d2l_bleu", "examples"]
    assert list(full)[:7] == by_case
    assert all(name.startswith("rouge") for name in list(full)[7:])
    assert full["bleu"] < full["bleu_lower"] == pytest.approx(100)
    assert full["chrf"] < full["chrf_lower"] == pytest.approx(100)
    assert "case:lc" in full.conventions["bleu_lower"]
    assert "case:lc" in full.conventions["chrf_lower"]
    assert "case:mixed" in full.conventions["bleu"] and "case:mixed" in full.conventions["chrf"]
    perfect = score_translations(["a b c d e"], ["a b c d e"])
    assert (perfect["bleu"], perfect["chrf"]) == pytest.approx((100, 100))


def test_score_translations_leaves_out_metrics_without_meaning() -> None:
    words = score_translations(["cba", "x"], ["cba", "y"])
    assert list(words) == ["exact", "chrf", "chrf_lower", "examples"]
    assert words.omitted["bleu"] == "no reference has 4 tokens (sacreBLEU's 13a)"
    assert words.omitted["d2l_bleu"] == "no reference has two words between spaces"
    assert set(words.omitted) == {"bleu", "bleu_lower", "d2l_bleu", "rouge1", "rouge2", "rougeL"}
    assert not words.omitted.keys() & words.conventions.keys()
    assert words.to_dict()["omitted"] == words.omitted
    during_training = score_translations(["cba"], ["cba"], full=False)
    assert set(during_training.omitted) == {"bleu", "d2l_bleu"}
    # sacreBLEU's tokens count, not words between spaces: this date has five
    dates = score_translations(["2024-03-05"], ["2024-03-05"])
    assert dates["bleu"] == pytest.approx(100) and set(dates.omitted) == {
        "d2l_bleu",
        "rouge1",
        "rouge2",
        "rougeL",
    }
    chinese = score_translations(["今天天气"], ["今天天气"])
    assert chinese["bleu"] == pytest.approx(100)


@pytest.mark.parametrize(
    "references", [["a b c", "d"], ["2024-03-05"], ["今天"], ["今天天气好"], ["don't stop, now."]]
)
def test_max_bleu_tokens_is_the_reference_length_of_sacrebleu(references: list[str]) -> None:
    lengths = bleu_statistics(references, references)[:, 9]
    assert max_bleu_tokens(references)[0] == lengths.max()


def test_evaluate_with_a_limit_spreads_over_the_split(
    untrained: dict[str, Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = untrained["bahdanau"]
    evaluator: Any = run.evaluator
    predicted: list[str] = []
    original = evaluator.predictor.predict

    def predict(sources: list[str], *others: Any) -> Any:
        predicted.extend(sources)
        return original(sources, *others)

    monkeypatch.setattr(evaluator.predictor, "predict", predict)
    scores = run.evaluate(split="train", limit=5)
    assert scores["examples"] == 5
    assert "bleu_lower" not in scores  # too slow for the evaluations during training
    sources = list(run.split("train").pairs.sources())
    assert (predicted[0], predicted[-1]) == (sources[0], sources[-1])


def test_floors_are_the_scores_of_copied_sources(
    words_file: Path, untrained: dict[str, Run]
) -> None:
    run = untrained["bahdanau"]
    test = run.split("test")
    floors = run.evaluator.floors(run.split("train"), test)
    pairs = list(test.pairs)
    assert floors == {"copied source": copy_source(*map(list, zip(*pairs, strict=True))).metrics}
    palindromes = sum(source == target for source, target in pairs)
    assert floors["copied source"]["exact"] == palindromes / len(pairs)
    evaluation = run.evaluate()
    assert set(floors["copied source"]) == {"exact", "bleu", "chrf"}
    # BLEU of single words is left out, of the model and of the baseline
    kept = {name: floors["copied source"][name] for name in ("exact", "chrf")}
    assert evaluation.floors == {"copied source": kept} and kept.keys() <= set(evaluation)
    assert "bleu" in evaluation.omitted
    # the test split, not the training split, is scored
    assert run.evaluate(words_file).floors != floors
    assert run.evaluate(limit=3).floors == {}


def test_selection_score_prefers_chrf_to_loss(untrained: dict[str, Run]) -> None:
    selection_score = untrained["bahdanau"].evaluator.selection_score
    assert selection_score({"chrf": 50.0, "loss": 3.0}) > selection_score(
        {"chrf": 49.0, "loss": 0.1}
    )
    assert selection_score({"chrf": 50.0, "loss": 1.0}) > selection_score(
        {"chrf": 50.0, "loss": 2.0}
    )


def test_attention_kind_follows_from_the_module_name() -> None:
    assert attention_kind("attention") == ("cross", 1)
    assert attention_kind("encoder.0.self_attention") == ("encoder", 1)
    assert attention_kind("decoder.1.self_attention") == ("decoder", 2)
    assert attention_kind("decoder.2.source_attention") == ("cross", 3)


@pytest.mark.parametrize("model", ["bahdanau", "transformer"])
def test_attention_maps_have_rows_of_targets_and_columns_of_sources(
    model: str, trained: dict[str, Run]
) -> None:
    attention_maps = trained[model].inspector.attention_maps("abc", "cb")
    cross = attention_maps["cross", 1, 1]
    assert cross.weights.shape == (3, 4)  # c b eos; a b c eos
    assert (cross.rows[:2], cross.columns[:3]) == (["c", "b"], ["a", "b", "c"])
    for map_ in attention_maps.values():
        assert map_.weights.sum(axis=1) == pytest.approx(np.ones(len(map_.rows)), abs=1e-5)
    kinds = {kind for kind, _, _ in attention_maps}
    assert kinds == ({"cross"} if model == "bahdanau" else {"cross", "encoder", "decoder"})


# --- training -------------------------------------------------------------------------------------

STEPS = {"bahdanau": 320, "seq2seq": 900, "transformer": 500, "luong": 320, "conv_seq2seq": 320}


@pytest.mark.parametrize("model", STEPS)
def test_translator_learns_to_reverse_words(model: str, tmp_path: Path) -> None:
    steps = STEPS[model]
    changes = {"train.steps": steps, "train.evaluate_every": steps, "train.threads": 1}
    changes |= {"model.width": 64, "train.batch_tokens": 512}
    if model == "transformer":
        changes["model.depth"] = 1
    recipe = override_settings(reverse_recipe(model), changes)
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    scores = run.evaluate()
    assert scores["examples"] == 500
    print(f"{model}: exact on held-out words after {steps} steps: {scores['exact']}")
    assert scores["exact"] >= 0.99

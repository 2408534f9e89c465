"""Every text classifier through the run folder: training, reload, checks, attributions, resume."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from saccade.data.text.labelled import LabelledText
from saccade.errors import ConfigError
from saccade.estimators.text_classifiers.config import NGramClassifierConfig
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.explanation import Explanation
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.text_classification.config import (
    TEXT_CLASSIFIERS,
    ClassifierFitConfig,
    ClassifierTrainConfig,
    ClassifyRecipe,
)
from saccade.tasks.text_classification.scorer import Calibration

NETWORKS = ("bert", "bilstm", "cnn", "prompt", "set", "transformer")
STEADY = {"model.pooling": "mean", "train.steps": 120, "train.learning_rate": 0.005}
SMALL: dict[str, dict[str, Any]] = {
    "fasttext": {"model.width": 16, "model.epochs": 10, "model.word_ngrams": 2},
    "ngrams": {"model.word_ngrams": 2, "model.char_ngrams": 3, "model.penalty": 0.1},
    "bert": {"model.width": 16, "model.heads": 2, "model.depth": 1, **STEADY},
    "bilstm": {"model.width": 12, "model.hidden": 8},
    "cnn": {"model.width": 12, "model.filters": 6, "model.kernels": "1,2"},
    "prompt": {
        "model.width": 16,
        "model.heads": 2,
        "model.depth": 1,
        "model.template": "[P] {text} [P] [MASK].",
        "model.words": "pos=good,best;neg=bad,dull",
        **STEADY,
    },
    "set": {"model.width": 12},
    "transformer": {"model.width": 12, "model.heads": 2, "model.hidden": 16, "model.depth": 1},
}
LOOP = {
    "model.dropout": 0.1,
    "train.steps": 60,
    "train.evaluate_every": 30,
    "train.learning_rate": 0.01,
    "train.batch_tokens": 256,
    "train.checkpoint_seconds": 1000,
}
TEXT = "a GOOD film , the best cast 2024 ; unheardof ending"
LABELS = ("neg", "pos")


def reviews(count: int = 300) -> list[LabelledText]:
    """Sentences with words of one of two classes, some of them negated."""
    random = np.random.default_rng(3)
    words = {"pos": ("good", "fine", "best"), "neg": ("bad", "dull", "worst")}
    rows = []
    for number in range(count):
        label = LABELS[int(random.integers(2))]
        own = words[label][int(random.integers(3))]
        rows.append(LabelledText((label,), f"a {own} film , the {own} cast {number}"))
    return rows


@pytest.fixture(scope="session")
def reviews_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("reviews") / "reviews.tsv"
    lines = [f"{row.labels[0]}\t{row.text}\n" for row in reviews()]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def train(data: Path, folder: Path, model: str, changes: dict[str, Any] | None = None) -> Run:
    settings = {"train.threads": 1, "data.dev_share": 0.3, **SMALL[model]}
    settings = (LOOP if model in NETWORKS else {}) | settings | (changes or {})
    recipe = resolve_recipe("classify", data=str(data), model=model, changes=settings).recipe
    return train_recipe(recipe, folder, TrainOptions()).run


@pytest.fixture(scope="session")
def text_runs(
    reviews_file: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], Path]:
    """Return a function that trains a run of a model on first use; read-only for tests."""
    root = tmp_path_factory.mktemp("text-runs")

    def run(model: str) -> Path:
        if not (root / model).exists():
            train(reviews_file, root / model, model)
        return root / model

    return run


def test_table_of_small_settings_has_every_model() -> None:
    assert set(SMALL) == set(TEXT_CLASSIFIERS)


@pytest.mark.parametrize("model", SMALL)
def test_model_learns_and_predicts_the_same_after_reload(
    model: str, text_runs: Callable[[str], Path]
) -> None:
    run = load_run(text_runs(model))
    evaluation = run.evaluate()
    assert evaluation["accuracy"] == 1 and evaluation["ece"] < 0.2
    assert run.predict("a good film").text == "pos"
    assert run.predict(["so dull", ""])[0].text == "neg"
    prediction = run.predict("the best cast")
    assert prediction.probabilities is not None
    assert sum(prediction.probabilities.values()) == pytest.approx(1)
    assert prediction.score == prediction.probabilities["pos"]
    results = {result.invariant: result for result in run.check()}
    assert results["batch invariance"].passed and results["reload consistency"].passed
    assert ("padding invariance" in results) == (model in NETWORKS)
    assert all(result.passed for result in results.values() if result.num_inputs)
    files = {path.name for path in (run.folder / "report").iterdir()}
    assert {"confusion.png", "reliability.png", "mistakes.tsv"} <= files


@pytest.mark.parametrize("model", SMALL)
def test_probabilities_are_calibrated_on_dev(model: str, text_runs: Callable[[str], Path]) -> None:
    run = load_run(text_runs(model))
    scorer = run.evaluator.scorer  # type: ignore[attr-defined]
    assert scorer.calibration != Calibration()
    logits = scorer.logits([TEXT])
    expected = np.exp(logits / scorer.calibration.temperature)
    np.testing.assert_allclose(scorer.predict_proba([TEXT]), expected / expected.sum(), rtol=1e-6)


@pytest.mark.parametrize("model", SMALL)
def test_attributions_of_every_method_name_the_decisive_word(
    model: str, text_runs: Callable[[str], Path], tmp_path: Path
) -> None:
    run = load_run(text_runs(model))
    methods = run.inspector.attribution_methods
    assert "occlusion" in methods and len(methods) > 1
    for method in methods:
        found = run.explain(TEXT, method=method).attribution
        assert found.output == "pos" and found.against == "neg"
        assert [found.text[a:b] for a, b in found.spans] == list(found.parts)
        assert "".join(found.parts) == TEXT.replace(" ", "")
        assert found.scores[found.parts.index("unheardof")] == pytest.approx(0, abs=1e-6) or (
            model in ("bert", "ngrams", "prompt")  # its characters may be known
        )
        if found.is_complete:
            scale = 1 + float(np.abs(found.scores).sum())
            assert found.residual == pytest.approx(0, abs=0.02 * scale)
        if method in ("contributions", "occlusion"):
            assert found.parts[int(np.argmax(found.scores))] in ("GOOD", "best")
    seen = run.look(TEXT)
    assert isinstance(seen, Explanation) and seen.attribution.method == methods[0]
    seen.save(tmp_path / "words.png")
    assert (tmp_path / "words.png").stat().st_size > 1000
    assert json.loads(json.dumps(seen.to_dict()))["output"] == "pos"
    other = run.explain(TEXT, answer="neg").attribution
    assert other.output == "neg" and other.value == pytest.approx(-seen.attribution.value, rel=1e-5)


@pytest.mark.parametrize("model", ["fasttext", "ngrams"])
def test_contributions_of_linear_models_add_up_exactly(
    model: str, text_runs: Callable[[str], Path]
) -> None:
    run = load_run(text_runs(model))
    found = run.explain(TEXT, method="contributions").attribution
    assert found.residual == pytest.approx(0, abs=1e-4 * (1 + np.abs(found.scores).sum()))
    assert found.probability == pytest.approx(1 / (1 + np.exp(-found.value)), rel=1e-4)


def test_attribution_refuses_unknown_methods_labels_and_empty_texts(
    text_runs: Callable[[str], Path],
) -> None:
    run = load_run(text_runs("cnn"))
    with pytest.raises(ConfigError, match="There is no attribution method of this model 'contri"):
        run.explain(TEXT, method="contributions")
    with pytest.raises(ConfigError, match="There is no label 'pso'. Did you mean 'pos'"):
        run.explain(TEXT, answer="pso")
    with pytest.raises(ConfigError, match="without words"):
        run.explain("  ")


def test_long_texts_are_occluded_in_runs_of_words(text_runs: Callable[[str], Path]) -> None:
    run = load_run(text_runs("ngrams"))
    text = "a film " * 600 + "good"
    found = run.explain(text, method="occlusion").attribution
    assert len(found.scores) == 1201
    assert found.scores[0] == found.scores[1] == found.scores[2]  # one run


@pytest.mark.parametrize(
    ("model", "kinds"),
    [("bilstm", ["pooling"]), ("set", ["self", "pooling"]), ("transformer", ["self"])],
)
def test_attention_maps_have_a_row_for_each_query(
    model: str, kinds: list[str], text_runs: Callable[[str], Path]
) -> None:
    run = load_run(text_runs(model))
    maps = {kind: run.attention(TEXT, kind=kind).maps for kind in kinds}
    for found in [found for each in maps.values() for found in each.values()]:
        assert "unheardof" not in found.columns and "GOOD" in found.columns
        np.testing.assert_allclose(found.weights.sum(1), 1, rtol=1e-5)
    with pytest.raises(ConfigError, match="no attention"):
        load_run(text_runs("cnn")).attention(TEXT)


@pytest.mark.parametrize("model", NETWORKS)
def test_resumed_network_has_the_same_bits(
    model: str,
    reviews_file: Path,
    tmp_path: Path,
    outcome_of: Callable[[Path], dict[str, Any]],
) -> None:
    changes = {"train.steps": 12, "train.evaluate_every": 6, "train.checkpoint_seconds": 0}
    train(reviews_file, tmp_path / "whole", model, changes)
    folder = tmp_path / "part"
    settings = {"train.threads": 1, "data.dev_share": 0.3, **LOOP, **SMALL[model], **changes}
    recipe = resolve_recipe(
        "classify", data=str(reviews_file), model=model, changes=settings
    ).recipe

    class Interrupted(Exception):
        """Ends a training as a kill would."""

    def interrupt(event: Any) -> None:
        if event.step == 7:
            raise Interrupted

    with pytest.raises(Interrupted):
        train_recipe(recipe, folder, TrainOptions(on_event=interrupt))
    resume(folder, {}, TrainOptions())
    assert outcome_of(folder) == outcome_of(tmp_path / "whole")


@pytest.mark.parametrize("model", ["fasttext", "ngrams"])
def test_prediction_of_linear_models_does_not_import_torch(
    model: str, text_runs: Callable[[str], Path]
) -> None:
    code = (
        "import sys; from saccade.runs.run import load_run; "
        f"print(load_run({str(text_runs(model))!r}).predict('so good').text, "
        "[m for m in ('torch', 'matplotlib', 'numba') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = "pos ['numba']" if model == "fasttext" else "pos []"
    assert done.stdout.strip() == expected


@pytest.mark.parametrize("model", sorted(SMALL.keys() - {"prompt"}))  # words of other labels
def test_balanced_labels_favour_the_rare_one(model: str, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    lines = []
    for number in range(400):  # one word of two decides, and only often
        is_rare = number % 10 == 0
        word = "odd" if random.random() < (0.7 if is_rare else 0.25) else "even"
        lines.append(f"{'rare' if is_rare else 'usual'}\t{word} thing {int(random.integers(90))}\n")
    path = tmp_path / "rare.tsv"
    path.write_text("".join(lines))
    shares = {}
    for weights in ("none", "balanced"):
        run = train(path, tmp_path / weights, model, {"train.class_weights": weights})
        logits = run.evaluator.scorer.logits(["odd thing"])[0]  # type: ignore[attr-defined]
        usual, rare = (run.preprocessor.labels.index(name) for name in ("usual", "rare"))
        shares[weights] = logits[rare] - logits[usual]
    assert shares["balanced"] > shares["none"] + 0.5


@pytest.mark.parametrize(
    "model", sorted(SMALL.keys() - {"prompt"})
)  # whose words exclude each other
def test_several_labels_are_predicted_from_a_threshold(model: str, tmp_path: Path) -> None:
    random = np.random.default_rng(2)
    lines = []
    for number in range(500):
        some = [name for name in ("red", "green", "blue") if random.random() < 0.5] or ["red"]
        text = " ".join(f"it is {name}ish" for name in some)
        lines.append(f"{','.join(some)}\t{text} {number}\n")
    path = tmp_path / "colours.tsv"
    path.write_text("".join(lines))
    changes: dict[str, Any] = {"data.multi_label": True}
    if model in NETWORKS:
        changes |= {"train.steps": 150, "train.evaluate_every": 50}
    run = train(path, tmp_path / "run", model, changes)
    run = load_run(run.folder)
    assert set(run.predict("it is redish it is blueish").text.split(",")) == {"red", "blue"}
    assert run.evaluate()["micro_f1"] > 0.9
    text = "it is redish it is blueish"
    found = run.explain(text, answer="blue", method="occlusion").attribution
    assert found.against == "" and found.parts[int(found.scores.argmax())] == "blueish"


# --- settings -------------------------------------------------------------------------------------


def test_training_settings_follow_the_model() -> None:
    assert isinstance(ClassifyRecipe().train, ClassifierFitConfig)
    network = ClassifyRecipe.model_validate({"model": {"name": "cnn"}, "train": {"seed": 7}})
    assert isinstance(network.train, ClassifierTrainConfig) and network.train.seed == 7
    back = network.with_values(model={"name": "ngrams"})
    assert isinstance(back.train, ClassifierFitConfig) and back.train.seed == 7
    saved = ClassifyRecipe.model_validate(network.model_dump(mode="json"))
    assert saved == network and "steps" in type(saved.train).model_fields
    with pytest.raises(ConfigError, match="there is no setting 'train.steps'"):
        resolve_recipe("classify", data="languages", changes={"train.steps": 5})


def test_default_model_is_ngrams_and_old_recipes_stay_fasttext() -> None:
    resolved = resolve_recipe("classify", data="languages")
    assert resolved.auto_model and isinstance(resolved.recipe.model, NGramClassifierConfig)
    old = {"task": "classify", "model": {"name": "fasttext", "epochs": 5}, "train": {"seed": 1}}
    assert ClassifyRecipe.model_validate(old).model_name == "fasttext"

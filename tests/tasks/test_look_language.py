"""`look` for language models: maps longer than the context, gates, influence, counts."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from saccade.cli.main import run as saccade
from saccade.data.special_tokens import EOS
from saccade.estimators.ngram.backoff import BackoffModel
from saccade.inspection.attention_map import crop_map
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.heat_maps import HeatMaps
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.language_modeling.components import language_components
from saccade.tasks.language_modeling.data import prepare_text
from saccade.tasks.language_modeling.states import causal_influence

LINES = [
    f"{a} likes {b} and {c}"
    for a in "ann bob cat".split()
    for b in "dan eve".split()
    for c in "fox gnu".split()
]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "likes.txt"
    path.write_text("\n".join(LINES * 12) + "\n", encoding="utf-8")
    return path


def parts_of(model: str, text: Path, changes: dict[str, Any] | None = None) -> Any:
    """Return recipe, untrained model and inspector."""
    settings: dict[str, Any] = {"data.tokenizer.kind": "word"}
    if model != "ngram":
        settings |= {"model.width": 8, "data.segment_length": 8, "train.steps": 2}
    recipe = resolve_recipe(
        "language", data=str(text), model=model, changes=settings | (changes or {})
    ).recipe
    prepared = prepare_text(recipe, PrepareContext())
    components = language_components(prepared.recipe)
    torch.manual_seed(0)
    built = components.build_model(prepared.recipe, prepared.preprocessor)
    return prepared, built, components.inspector(prepared.recipe, built, prepared.preprocessor)


PROMPT, ANSWER = "ann likes dan", "and fox bob likes eve and gnu cat likes dan"


@pytest.mark.parametrize(
    ("model", "changes"),
    [
        ("gpt2", {"model.context_length": 8, "model.depth": 2, "model.heads": 2}),
        (
            "gpt2",
            {
                "model.context_length": 8,
                "model.depth": 2,
                "model.heads": 2,
                "model.positions": "rotary",
            },
        ),
        ("transformer_xl", {"model.depth": 2, "model.heads": 2, "data.segment_length": 4}),
    ],
)
def test_attention_map_of_a_text_longer_than_the_context(
    model: str, changes: dict[str, Any], text: Path
) -> None:
    _, built, inspector = parts_of(model, text, changes)
    maps = inspector.attention_maps(PROMPT, ANSWER)
    found = maps["self", 2, 1]
    T = len((PROMPT + " " + ANSWER).split())
    assert found.weights.shape == (T, T) and list(found.columns[1:4]) == PROMPT.split()
    assert found.lead == 4
    np.testing.assert_allclose(found.weights.sum(axis=1), 1, rtol=1e-5)
    assert not np.triu(found.weights, 1).any()
    assert not found.weights[-1, 0] > 0 or model == "transformer_xl"  # the prompt left the context
    assert found.weights[3, 0] > 0
    if changes.get("model.positions") == "rotary":
        assert (found.weights[-1] > 0).sum() == 8
    if "model.context_length" in changes and "model.positions" not in changes:
        # at token 9 the newest 4 tokens were encoded again: the map of that text by itself
        words = (PROMPT + " " + ANSWER).split()[3:]
        ids = inspector.tokenizer.encode(" ".join(words))[: T - 1]
        weights = inspector._attention_weights(ids[:5])[1][0]
        np.testing.assert_allclose(found.weights[8, 4:9], weights[-1], atol=1e-6)


def test_crop_keeps_the_prompt(text: Path) -> None:
    _, _, inspector = parts_of("gpt2", text, {"model.context_length": 8, "model.depth": 1})
    whole = inspector.attention_maps(PROMPT, ANSWER)["self", 1, 1]
    cropped = crop_map(whole, 5, 7)
    assert list(cropped.columns) == [*whole.columns[:3], "…+7", *whole.columns[-3:]]
    assert cropped.rest == 3 and "first 3 and last 3 of 13" in cropped.across
    np.testing.assert_allclose(cropped.weights.sum(axis=1), 1, rtol=1e-5)


def test_causal_influence_is_the_loss_of_log_probability_without_a_token() -> None:
    table = torch.rand(5, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1)

    def log_probability(context: list[int], token: int) -> float:
        return float(sum(table[one, token] / (2 + age) for age, one in enumerate(context[::-1])))

    def rows(ids: torch.Tensor) -> torch.Tensor:
        values = [
            [log_probability(row[:t], row[t]) for t in range(1, len(row))] for row in ids.tolist()
        ]
        return torch.tensor(values, dtype=torch.float64)

    ids = [0, 3, 1, 4, 2, 2]
    found = causal_influence(rows, ids, 3)
    assert found.shape == (3, 5)
    for t in range(3, 6):
        for at in range(1, 5):
            if at >= t:
                assert np.isnan(found[t - 3, at])
                continue
            without = [id for place, id in enumerate(ids[:t]) if place != at]
            expected = log_probability(ids[:t], ids[t]) - log_probability(without, ids[t])
            assert found[t - 3, at] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("model", ["nnlm", "conv_lm", "gru", "lstm", "gpt2"])
def test_influence_of_every_network_is_that_of_its_log_probabilities(
    model: str, text: Path
) -> None:
    _, built, inspector = parts_of(model, text)
    found = inspector.heat_maps(PROMPT, "and fox")["influence", 1]
    assert list(found.rows) == ["and", "fox"] and list(found.columns) == [*PROMPT.split(), "and"]
    ids = [EOS, *inspector.tokenizer.encode(f"{PROMPT} and fox")]

    @torch.no_grad()
    def last(some: list[int]) -> float:
        logits = built.eval()(torch.tensor([some[:-1]]))[0, -1]
        return float(logits.log_softmax(-1)[some[-1]])

    expected = last(ids) - last([*ids[:2], *ids[3:]])  # without "likes"
    assert found.values[1, 1] == pytest.approx(expected, abs=1e-5)
    assert np.isnan(found.values[0, 3])


def test_heat_maps_of_recurrent_models_have_a_map_for_each_gate(text: Path) -> None:
    _, built, inspector = parts_of("lstm", text, {"model.depth": 2})
    maps = inspector.heat_maps(PROMPT, "and fox")
    assert {key for key in maps if key[1] == 2} == {
        (name, 2) for name in ("input", "forget", "candidate", "output", "hidden", "cell")
    }
    assert maps["forget", 1].values.shape == (8, 5) and maps["forget", 1].scale == (0.0, 1.0)
    row = list(maps["mean", 1].rows).index("forget:2")
    np.testing.assert_allclose(maps["mean", 1].values[row], maps["forget", 2].values.mean(0))
    ids = torch.tensor([[EOS, *inspector.tokenizer.encode(f"{PROMPT} and")]])
    with torch.no_grad():
        hidden, _ = built.eval().forward_hidden(ids, built.init_cache(1))
    np.testing.assert_allclose(maps["hidden", 2].values.T, hidden[0], atol=1e-6)


def test_a_bidirectional_model_shows_both_sides_of_a_gap(text: Path) -> None:
    _, built, inspector = parts_of("bidirectional", text)
    maps = inspector.heat_maps("ann ___ dan and ___")
    found = maps["influence", 1]
    assert found.values.shape == (2, 5)
    assert np.isnan(found.values[0, 1]) and np.isnan(found.values[1, 4])
    filled = inspector.filler.fill("ann ___ dan and ___", 1)
    ids = [EOS, *inspector.tokenizer.encode(filled.prediction.text), EOS]
    assert filled.gaps == [2, 5]

    @torch.no_grad()
    def gap(some: list[int], position: int) -> float:
        logits = built.eval()(torch.tensor([some]))[0, position]
        return float(logits.log_softmax(-1)[ids[2]])

    expected = gap(ids, 2) - gap([*ids[:3], *ids[4:]], 2)  # without "dan", after the gap
    assert found.values[0, 2] == pytest.approx(expected, abs=1e-5)
    assert list(maps["backward_hidden", 1].columns)[0] == list(maps["mean", 1].columns)[-1]


@pytest.mark.parametrize("smoothing", ["none", "laplace", "back-off", "kneser-ney"])
def test_explained_counts_are_those_of_the_text(smoothing: str) -> None:
    ids = np.random.default_rng(0).integers(0, 4, 60)
    model = BackoffModel(3, 4, smoothing).fit(ids)
    text = ids.tolist()
    counts = Counter(tuple(text[at : at + n]) for n in (1, 2, 3) for at in range(61 - n))
    for context, token in (([1, 2], 3), ([0, 0], 0), ([3, 1, 2], 1), ([2], 2)):
        found = model.explain(context, token)
        recent = context[-2:]
        for one in found:
            history = tuple(recent[len(recent) - one.order + 1 :])
            if smoothing == "kneser-ney" and one.order < 3:  # distinct tokens before the n-gram
                kept = {
                    v: len({(u,) for u in range(4) if counts[(u, *history, v)]}) for v in range(4)
                }
                if not history:
                    kept[text[0]] += 1  # the start of the text
                elif tuple(text[: len(history)]) == history:
                    kept[text[len(history)]] += 1
            else:
                kept = {v: counts[(*history, v)] for v in range(4)}
            assert one.seen == kept[token]
            assert one.total == sum(kept.values())
            assert one.distinct == sum(value > 0 for value in kept.values())
            if smoothing == "none" and one.total:
                assert one.probability == pytest.approx(one.seen / one.total)
            if smoothing == "laplace":
                assert one.probability == pytest.approx((one.seen + 1) / (one.total + 4))
        probability = np.exp(model.log_probability(context, token)) if found[-1].probability else 0
        assert found[-1].probability == pytest.approx(probability)
    again = BackoffModel.from_arrays(model.to_arrays())
    assert again.explain([1, 2], 3) == model.explain([1, 2], 3)
    arrays = {n: a for n, a in model.to_arrays().items() if not n.startswith("counts")}
    with pytest.raises(ValueError, match="saved without counts; fit it again"):
        BackoffModel.from_arrays(arrays).explain([1], 2)  # a run of an earlier version


@pytest.fixture(scope="module")
def counted(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    recipe = resolve_recipe(
        "language", data=str(text), model="ngram", changes={"data.tokenizer.kind": "word"}
    ).recipe
    folder = tmp_path_factory.mktemp("runs") / "ngram"
    return load_run(train_recipe(recipe, folder, TrainOptions()).run.folder)


def test_look_at_counts(counted: Run, tmp_path: Path) -> None:
    found = counted.look("ann likes", answer="dan and")
    assert isinstance(found, HeatMaps) and list(found.maps) == [("counts", 1)]
    [map] = found.maps.values()
    assert list(map.rows) == ["dan", "and"]
    assert map.cells[0][2].startswith("2/4*") or "*" in "".join(map.cells[0])
    assert "1-gram" in found.terminal(100, colour=False)
    assert found.save(tmp_path / "counts.png") == []
    assert imread(tmp_path / "counts.png").std() > 0.01
    value = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert value["maps"][0]["kind"] == "counts"
    assert "PROMPT (the counts behind each generated token)" in counted.describe_views()


def test_search_prints_the_beam_as_a_tree(
    counted: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "search",
        str(counted.folder),
        "ann",
        "likes",
        "--beam",
        "2",
        "--max-new-tokens",
        "3",
    ]
    assert saccade([*command, "--exhaustive", "--save", str(tmp_path / "tree.png")]) == 0
    printed = capsys.readouterr().out
    assert "├ " in printed and "#1" in printed and "exhaustive 1" in printed
    assert imread(tmp_path / "tree.png").std() > 0.01
    found = counted.search("ann likes", beam=2, max_new_tokens=3)
    assert (
        found.hypotheses[0]["text"] == counted.predict("ann likes", beam=2, max_new_tokens=3).text
    )
    assert json.loads(json.dumps(found.to_dict()))["tree"]["kind"] == "Tree"
    assert saccade(["search", str(counted.folder), "ann", "--exhaustive"]) == 2
    assert "Try a smaller max_new_tokens" in capsys.readouterr().err

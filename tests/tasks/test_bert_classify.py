"""BERT on labelled texts: pairs, truncation, segments, and the weights of another run."""

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.cli.main import run as cli
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.errors import DataError
from saccade.interop.bert_weights import from_huggingface_weights
from saccade.interop.huggingface_bert import export_bert
from saccade.models.bert_classifier import BertClassifier, segments_of
from saccade.models.bert_config import BertClassifierConfig, BertConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import import_run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.pieces import PieceEncoder, truncated_lengths

TEXTS = ["a good film , the best cast", "a bad film , the worst cast", "it was dull"] * 4
PIECES = WordPieceTokenizer.fit(TEXTS, 80)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(2, 30))
def test_pairs_lose_the_last_token_of_the_longer_text(first: int, second: int, limit: int) -> None:
    expected = [first, second]
    while sum(expected) > limit:
        expected[0 if expected[0] > expected[1] else 1] -= 1
    assert list(truncated_lengths(first, second, limit)) == expected


def encoder(max_tokens: int, pair: str | None) -> PieceEncoder:
    recipe = ClassifyRecipe.model_validate(
        {"model": {"name": "bert"}, "data": {"max_tokens": max_tokens, "pair": pair}}
    )
    return PieceEncoder(recipe, PIECES.to_json())


SIDES = st.text(st.sampled_from("afilmthe ,dul☃"), max_size=20)


@pytest.mark.parametrize("pair", [None, "b"])
@given(first=SIDES, second=SIDES, max_tokens=st.integers(4, 16))
def test_texts_and_pairs_are_encoded_with_their_characters(pair, first, second, max_tokens) -> None:
    text = f"{first}\t{second}"
    encode = encoder(max_tokens, pair)
    ids, spans = encode.encode_spans(text)
    batch = encode.encode([text, "a film"])
    assert (batch.rows[: batch.starts[1]] + 1).tolist() == ids
    assert len(ids) == len(spans) <= max_tokens
    assert ids[0] == CLS and ids[-1] == SEP and ids.count(SEP) == (1 if pair is None else 2)
    words = PIECES.encode_pieces(text)  # a tab is a space for it
    known = {span: id for id, span in zip(words.ids, words.spans, strict=True)}
    for id, span in zip(ids, spans, strict=True):
        assert id in (CLS, SEP) or known[span] == id


def test_segments_follow_the_separator() -> None:
    ids = torch.tensor([[CLS, 7, SEP, 8, 9, SEP], [CLS, 7, 8, SEP, 0, 0]])
    assert segments_of(ids).tolist() == [[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]]


@torch.no_grad()
def test_classifier_equals_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=30, intermediate_size=12, num_labels=3, **sizes)
    theirs = transformers.BertForSequenceClassification(config).eval()
    for parameter in theirs.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    ours = BertClassifier(BertClassifierConfig(vocab_size=30, width=8, hidden=12, outputs=3)).eval()
    weights = theirs.state_dict()
    own = from_huggingface_weights(BertConfig(depth=2), weights, "bert.")
    ours.encoder.load_state_dict(own)
    ours.output.load_state_dict(
        {name: weights[f"classifier.{name}"] for name in ("weight", "bias")}
    )
    ids = torch.tensor([[CLS, 7, SEP, 8, 9, SEP], [CLS, 7, 8, SEP, 0, 0]])
    expected = theirs(
        input_ids=ids, token_type_ids=segments_of(ids), attention_mask=(ids > 0).long()
    ).logits
    found = ours(ids, torch.tensor([6, 4]))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


# --- from another run -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an encoder with random weights, without the heads of pretraining."""
    root = tmp_path_factory.mktemp("imported")
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=PIECES.vocab_size, width=16, max_length=24, pretraining_heads=False
    )
    export_bert(root / "theirs", config, PIECES, BertPretraining(config).state_dict())
    import_run("bert", root / "theirs", root / "run")
    return root / "run"


def write_pairs(path: Path, texts: list[str] = TEXTS) -> Path:
    rows = [
        f"{first}|{texts[(n + n % 2) % len(texts)]}|{'same' if n % 2 == 0 else 'other'}\n"
        for n, first in enumerate(texts * 5)
    ]
    path.write_text("sentence1|sentence2|label\n" + "".join(rows), encoding="utf-8")
    return path


def test_pairs_are_classified_from_the_weights_of_an_import(imported, tmp_path, capsys) -> None:
    data = write_pairs(tmp_path / "pairs.csv")
    settings = {"train.steps": 2, "train.evaluate_every": 1, "train.threads": 1}
    resolved = resolve_recipe("classify", data=str(data), changes=settings, init_from=imported)
    options = TrainOptions(init_from=imported)
    run = train_recipe(resolved.recipe, tmp_path / "run", options).run
    assert run.recipe.data.model_dump()["pair"] == "sentence2"
    assert run.recipe.model.model_dump()["width"] == 16
    first, second = run.model.state_dict(), load_run(imported).model.state_dict()
    table = "encoder.table.weight"
    assert (first[table] - second[table]).abs().max() < 5e-3  # two small steps away
    run = load_run(tmp_path / "run")
    assert all(result.passed for result in run.check() if result.num_inputs)
    one, other = "a good film\tit was dull", "it was dull\ta good film"
    assert run.predict(one).score != run.predict(other).score  # pairs have an order
    row = {"sentence2": "it was dull", "sentence1": "a good film"}
    assert run.predict([row])[0] == run.predict(one)
    assert run.predict([("a good film", "it was dull")])[0] == run.predict(one)
    assert run.inspector.example_input(run.split("test")).count("\t") == 1
    assert "[SEP]" in next(iter(run.attention(one).maps.values())).columns
    found = run.explain(one).attribution
    assert found.method == "integrated_gradients" and len(found.scores) == 6
    capsys.readouterr()
    assert cli(["evaluate", str(tmp_path / "run")]) == 0
    assert "majority label" in capsys.readouterr().out
    answers = []
    (tmp_path / "lines.txt").write_text(f"{one}\n")
    (tmp_path / "other.csv").write_text("id,sentence2,sentence1\n7,it was dull,a good film\n")
    for own in ([one], ["--file", "lines.txt"], ["--file", "other.csv"]):
        own = [str(tmp_path / part) if "." in part else part for part in own]
        assert cli(["predict", str(tmp_path / "run"), *own]) == 0
        answers.append(capsys.readouterr().out.split()[-1].rpartition(",")[2])
    assert len({*answers}) == 1
    (tmp_path / "single.csv").write_text("id,sentence1\n7,a good film\n")
    assert cli(["predict", str(tmp_path / "run"), "--file", str(tmp_path / "single.csv")]) == 2
    assert "sentence2" in capsys.readouterr().err


def test_settings_of_an_encoder_cannot_be_changed(imported, tmp_path, capsys) -> None:
    data = write_pairs(tmp_path / "pairs.csv")
    given = ["train", "classify", "--data", str(data), "--init-from", str(imported)]
    given += ["--out", str(tmp_path / "run"), "--set", "model.width=32"]
    assert cli(given) == 2
    assert "width: 16 → 32" in capsys.readouterr().err


def test_a_script_that_the_vocabulary_does_not_cover_is_refused(imported, tmp_path) -> None:
    data = write_pairs(tmp_path / "pairs.csv", ["房间很好", "早餐不好", "酒店的位置"])
    recipe = resolve_recipe("classify", data=str(data), changes={}, init_from=imported).recipe
    with pytest.raises(
        DataError, match="100% of whose tokens are not in the vocabulary of the run"
    ):
        train_recipe(recipe, tmp_path / "run", TrainOptions(init_from=imported))
    assert not (tmp_path / "run").exists()

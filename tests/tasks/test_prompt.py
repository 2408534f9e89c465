"""Classification by a prompt: scores as transformers has them, templates, words, P-tuning."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from saccade.cli.main import run as cli
from saccade.data.byte_pieces import BytePieceTokenizer
from saccade.data.wordpiece import CLS, MASK, SEP, WordPieceTokenizer
from saccade.interop.huggingface_bert import export_bert
from saccade.models.bert_config import BertConfig, PromptClassifierConfig
from saccade.models.bert_pretraining import BertPretraining
from saccade.models.prompt_classifier import PromptClassifier, PromptEncoder
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, import_run, load_run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.templates import TemplateEncoder, parse_template

TEXTS = [
    "a good film , the best cast",
    "a bad film , the worst cast",
    "it was great fun",
    "so dull",
]
PIECES = WordPieceTokenizer.fit(TEXTS * 4, 150)
WORDS = {"pos": ("good", "great"), "neg": ("bad",)}
GIVEN = {"model.words": "pos=good,great; neg=bad", "train.threads": 1}
PSEUDO = "[P] {text} [P] it was [P] [MASK]"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT with random weights in Hugging Face's layout and as a run, and labelled texts."""
    root = tmp_path_factory.mktemp("prompt")
    torch.manual_seed(0)
    config = BertConfig(vocab_size=PIECES.vocab_size, width=16, max_length=24, dropout=0.0)
    model = BertPretraining(config)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn_like(parameter)
    export_bert(root / "theirs", config, PIECES, model.state_dict())
    import_run("bert", root / "theirs", root / "bert")
    bare = config.with_values(pretraining_heads=False)
    export_bert(root / "theirs-bare", bare, PIECES, BertPretraining(bare).state_dict())
    import_run("bert", root / "theirs-bare", root / "bare")
    rows = [f"{'neg' if n % 2 else 'pos'}\t{TEXTS[n % 4]} {n % 3}\n" for n in range(12)]
    (root / "few.tsv").write_text("label\ttext\n" + "".join(rows), encoding="utf-8")
    return root


def train(folders: Path, out: Path, changes: dict[str, Any], start: str = "bert") -> Run:
    resolved = resolve_recipe(
        "prompt",
        data=str(folders / "few.tsv"),
        changes=GIVEN | changes,
        init_from=folders / start,
    )
    return train_recipe(resolved.recipe, out, TrainOptions(init_from=folders / start)).run


@torch.no_grad()
def test_scores_without_training_are_those_of_transformers(folders: Path, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    train(folders, tmp_path / "run", {"train.steps": 0})
    run = load_run(tmp_path / "run")
    theirs = transformers.BertForPreTraining.from_pretrained(folders / "theirs").eval()
    tokenizer = transformers.BertTokenizer.from_pretrained(folders / "theirs")
    texts = ["a good film", "the worst cast , so dull", "", "a film " * 20]
    found = run.predict(texts)
    template = tokenizer.encode("It was [MASK].", add_special_tokens=False)
    for text, prediction in zip(texts, found, strict=True):
        own = tokenizer.encode(text, add_special_tokens=False)[: 24 - 2 - len(template)]
        ids = [tokenizer.cls_token_id, *own, *template, tokenizer.sep_token_id]
        logits = theirs(torch.tensor([ids])).prediction_logits[0]
        each = logits[ids.index(tokenizer.mask_token_id)].log_softmax(0)
        scores = {
            label: sum(float(each[tokenizer.convert_tokens_to_ids(w)]) for w in words) / len(words)
            for label, words in WORDS.items()
        }
        total = sum(math.exp(score) for score in scores.values())
        expected = {label: math.exp(score) / total for label, score in scores.items()}
        assert prediction.probabilities == pytest.approx(expected, abs=1e-5)
    start = load_run(folders / "bert").model.state_dict()
    for name, weight in run.model.language_model.state_dict().items():
        assert torch.equal(weight, start[name]), name


def test_frozen_encoder_is_left_as_it_is(folders: Path, tmp_path: Path) -> None:
    changes = {"model.template": PSEUDO, "train.steps": 2, "train.evaluate_every": 2}
    zero = train(folders, tmp_path / "zero", changes | {"train.steps": 0})
    frozen = train(folders, tmp_path / "frozen", changes | {"model.is_frozen": True})
    free = train(folders, tmp_path / "free", changes)
    start, after, other = (run.model.state_dict() for run in (zero, frozen, free))
    for name, weight in start.items():
        is_model = name.startswith("language_model.")
        assert torch.equal(weight, after[name]) == (is_model or name == "calibration"), name
    assert not torch.equal(
        start["language_model.encoder.table.weight"], other["language_model.encoder.table.weight"]
    )
    run = load_run(tmp_path / "free")
    assert all(result.passed for result in run.check() if result.num_inputs)
    columns = next(iter(run.attention("a good film").maps.values())).columns
    special = [name for name in columns if name.startswith("[")]
    assert special == ["[CLS]", "[P1]", "[P2]", "[P3]", "[MASK]", "[SEP]"]
    seen = run.explain("a good film").attribution
    assert list(seen.parts) == ["a", "good", "film"]


def config(**changes: Any) -> PromptClassifierConfig:
    values = {"vocab_size": 20, "width": 8, "word_ids": (5, 6, 7), "word_counts": (2, 1)}
    values |= {"mask_position": -2, "template": "{text} [P] [P] [MASK]"}
    return PromptClassifierConfig(**(values | changes))


@pytest.mark.parametrize("is_frozen", [False, True])
def test_gradients_reach_the_pseudo_tokens(is_frozen: bool) -> None:
    torch.manual_seed(0)
    model = PromptClassifier(config(is_frozen=is_frozen)).double().eval()
    ids = torch.tensor([[CLS, 9, 20, 21, MASK, SEP], [CLS, 20, 21, MASK, SEP, 0]])
    model(ids, torch.tensor([6, 5])).logsumexp(1).sum().backward()
    assert model.prompt is not None
    for name, parameter in model.prompt.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    grads = [parameter.grad is not None for parameter in model.language_model.parameters()]
    assert all(grads) if not is_frozen else not any(grads)

    def logits(table: torch.Tensor) -> torch.Tensor:
        parameters = {"prompt.embedding.weight": table}
        found: torch.Tensor = torch.func.functional_call(model, parameters, (ids,))
        return found

    table = model.prompt.embedding.weight.detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(logits, (table,))


@torch.no_grad()
def test_pseudo_tokens_are_torchs_lstm_and_a_perceptron() -> None:
    torch.manual_seed(0)
    prompt = PromptEncoder(8, 5)
    lstm = torch.nn.LSTM(8, 4, num_layers=2, bidirectional=True, batch_first=True)
    for number, layer in enumerate(prompt.lstm.layers):
        suffix = f"_l{number // 2}" + ("_reverse" if number % 2 else "")
        for name, weight in layer.named_parameters():
            getattr(lstm, name.replace("_l0", suffix)).copy_(weight)
    first, _, second = prompt.output
    hidden = lstm(prompt.embedding.weight[None])[0][0]
    expected = (hidden @ first.weight.T + first.bias).relu() @ second.weight.T + second.bias
    torch.testing.assert_close(prompt(), expected)


# --- templates and words --------------------------------------------------------------------------


@given(
    text=st.text(st.sampled_from("afilmthe ,dul☃"), max_size=30),
    template=st.sampled_from(
        ["{text} it was [MASK] .", "[MASK] : {text}", "[P] {text} [P] [MASK]"]
    ),
    max_tokens=st.integers(9, 20),
)
def test_truncation_leaves_the_template(text: str, template: str, max_tokens: int) -> None:
    recipe = ClassifyRecipe.model_validate(
        {"model": {"name": "prompt", "template": template}, "data": {"max_tokens": max_tokens}}
    )
    encoder = TemplateEncoder(recipe, PIECES.to_json())
    ids, spans = encoder.encode_spans(text)
    batch = encoder.encode([text, "a film"])
    assert (batch.rows[: batch.starts[1]] + 1).tolist() == ids
    assert len(ids) == len(spans) <= max_tokens
    before, after = encoder.template.before, encoder.template.after
    assert ids[: len(before)] == before and ids[-len(after) :] == after
    assert before[0] == CLS and after[-1] == SEP
    assert ids[encoder.template.mask_position] == MASK and ids.count(MASK) == 1
    words = PIECES.encode_pieces(text)
    kept = len(ids) - encoder.template.length
    assert kept == min(len(words.ids), max_tokens - encoder.template.length)
    own = slice(len(before), len(before) + kept)
    assert ids[own] == words.ids[:kept] and spans[own] == words.spans[:kept]


def test_spaces_before_the_text_and_the_mask_belong_to_their_tokens() -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = BytePieceTokenizer([*letters, "Ġg"], [("Ġ", "g")])
    spaced = tokenizer.id_of("Ġg")
    close = parse_template("a:{text}[MASK]", tokenizer)
    assert (close.text_lead, close.word_lead) == ("", "")
    found = parse_template("a: {text} a [MASK]", tokenizer)
    assert (found.text_lead, found.word_lead) == (" ", " ")
    assert tokenizer.encode(" g") == [spaced]
    assert found.before == [CLS, *tokenizer.encode("a:")]
    assert found.after == [*tokenizer.encode(" a"), MASK, SEP]
    recipe = ClassifyRecipe.model_validate(
        {"model": {"name": "prompt", "template": "a: {text} a [MASK]"}}
    )
    encoder = TemplateEncoder(recipe, tokenizer.to_json())
    assert encoder.encode_spans("g").spans[3] == (0, 1)
    assert encoder.encode(["g"]).rows[3] + 1 == spaced


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model.template": "{text} it was"}, "with 0 [MASK]; expected it once"),
        ({"model.template": "it was [MASK]"}, "with 0 {text}; expected it once"),
        ({"model.template": "{text} [MASK] [MASK]"}, "with 2 [MASK]; expected it once"),
        ({"model.template": "a " * 30 + "{text} [MASK]"}, "expected fewer than 24"),
        ({"model.words": "pos=good;neg=badgood"}, "words of one token"),
        ({"model.words": "pos=good;neg=☃"}, "words of one token"),
        ({"model.words": ""}, "words of one token"),
        ({"model.words": "pos=good;neg="}, "got no words for the label 'neg'"),
        ({"model.words": "pos=good"}, "got no words for the label 'neg'"),
        ({"model.words": "pos=good;neg=bad;odd=dull"}, "got words of 'odd'; expected labels"),
        ({"model.words": "good"}, "got 'good'; expected LABEL=WORD,WORD"),
        ({"model.words": "pos=good;pos=best;neg=bad"}, "got the label 'pos' twice"),
        ({"model.is_frozen": True}, "without pseudo-tokens"),
        ({"data.multi_label": True}, "expected one label each"),
        ({"model.width": 32}, "width: 16 → 32"),
    ],
)
def test_bad_prompts_are_refused_in_one_message(
    folders: Path, tmp_path: Path, capsys, changes: dict[str, Any], message: str
) -> None:
    settings = {**GIVEN, **changes}
    given = ["train", "prompt", "--data", str(folders / "few.tsv"), "--out", str(tmp_path / "run")]
    given += ["--init-from", str(folders / "bert")]
    assert cli([*given, *(f"--set={name}={value}" for name, value in settings.items())]) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()


def test_an_encoder_without_head_is_refused(folders: Path, tmp_path: Path, capsys) -> None:
    given = ["train", "prompt", "--data", str(folders / "few.tsv"), "--out", str(tmp_path / "run")]
    assert cli([*given, "--init-from", str(folders / "bare")]) == 2
    assert "without the head for masked tokens" in " ".join(capsys.readouterr().err.split())

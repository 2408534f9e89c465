"""GPT (openai-gpt) out to Hugging Face's layout and in from it: same logits, tokens and text."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers
from transformers import AutoTokenizer, OpenAIGPTConfig, OpenAIGPTLMHeadModel, OpenAIGPTTokenizer

from saccade.cli.main import run as saccade
from saccade.data.special_tokens import BOS, EOS, PAD, UNK
from saccade.data.tokenizers import (
    LowercaseBPETokenizer,
    tokenizer_from_json,
    train_tokenizer,
)
from saccade.errors import ConfigError, DataError, RunError
from saccade.interop.gpt2_import import import_gpt1, import_gpt2
from saccade.interop.huggingface_gpt2 import GPT1_ACTIVATIONS, export_gpt2
from saccade.models.config import GPTConfig
from saccade.models.gpt import GPT
from saccade.runs.run import load_run

TEXT = ["The cat sat on the mat.", "A cat, a mat — a naïve 1 2 3!", "the end of it all"] * 3
NEWLINE = "\n</w>"
SIZES = {"n_positions": 16, "n_embd": 16, "n_layer": 2, "n_head": 4}


def engine_of(text: list[str], size: int) -> Engine:
    """GPT's tokenizer fitted to a text, with the parts that transformers gives it."""
    engine = Engine(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>", fuse_unk=False))
    engine.normalizer = normalizers.BertNormalizer(lowercase=True)
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.BPEDecoder(suffix="</w>")
    # every character in both forms, so that the ids do not depend on the order of a hash table
    letters = sorted({c for line in text for c in engine.normalizer.normalize_str(line)} - {" "})
    forms = [form for letter in letters for form in (letter, f"{letter}</w>")]
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=["<unk>", *forms],
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    engine.train_from_iterator(text, trainer)
    values = json.loads(engine.to_str())
    vocabulary = values["model"]["vocab"]
    vocabulary[NEWLINE] = len(vocabulary)
    merges = [tuple(merge) for merge in values["model"]["merges"]]
    tokenizer = OpenAIGPTTokenizer(vocab=vocabulary, merges=merges)
    return tokenizer._tokenizer


@pytest.fixture(scope="module")
def gpt1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT with random weights and byte pairs of its own, as `save_pretrained` writes it."""
    folder = tmp_path_factory.mktemp("gpt1")
    engine = engine_of(TEXT, 90)
    engine.save(str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    config = OpenAIGPTConfig(vocab_size=engine.get_vocab_size(), **SIZES)
    model = OpenAIGPTLMHeadModel(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4).add_(0.1 * torch.randn_like(parameter))  # no flat distributions
    model.save_pretrained(folder)
    return folder


def own_order(tokenizer: LowercaseBPETokenizer, engine: Engine) -> list[int]:
    """Our id of each of their tokens."""
    ids = {"<unk>": UNK, NEWLINE: EOS}
    ids |= {token: tokenizer.vocabulary.id_of(token) for token in tokenizer.vocabulary.tokens}
    return [ids[engine.id_to_token(id)] for id in range(engine.get_vocab_size())]


@torch.no_grad()
def test_gpt1_import_logits_equal(gpt1: Path) -> None:
    taken = import_gpt1(gpt1)
    assert (taken.model.name, taken.model.missing_tokens) == ("gpt1", [PAD, BOS])
    model = GPT(taken.model).eval()
    model.load_state_dict(taken.weights)
    theirs = OpenAIGPTLMHeadModel.from_pretrained(gpt1).eval()
    engine = Engine.from_file(str(gpt1 / "tokenizer.json"))
    order = own_order(taken.vocabulary, engine)
    generator = torch.Generator().manual_seed(3)
    ids = torch.randint(engine.get_vocab_size(), (4, 16), generator=generator)
    here = torch.tensor(order)[ids]
    ours, _ = model.step(here, model.init_state(here))
    expected = theirs(ids).logits
    torch.testing.assert_close(ours[..., order], expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(
        ours.softmax(-1)[..., order], expected.softmax(-1), atol=1e-6, rtol=1e-5
    )


@pytest.fixture(scope="module")
def tokenizers(gpt1: Path) -> tuple[LowercaseBPETokenizer, Engine]:
    engine = Engine.from_file(str(gpt1 / "tokenizer.json"))
    engine.no_padding()
    return import_gpt1(gpt1).vocabulary, engine


UNUSUAL = [
    "The CAT sat, on a naïve mat!",
    "don't... (really?)",
    "  two  spaces\tand a tab ",
    "中文 mat 日本",
    "Ünïcödé ẞ İ ﬁ",
    "🙂 zero\u200dwidth \x07 bell",
    "مرحبا the cat",
    "",
]


@pytest.mark.parametrize("text", UNUSUAL)
def test_gpt1_tokens_equal_those_of_transformers(
    text: str, tokenizers: tuple[LowercaseBPETokenizer, Engine]
) -> None:
    ours, theirs = tokenizers
    order = own_order(ours, theirs)
    expected = [order[id] for id in theirs.encode(text).ids]
    assert ours.encode(text) == expected
    assert ours.encode_many([text, "a mat"]) == [expected, ours.encode("a mat")]
    assert len(ours.display_tokens(expected)) == len(expected)
    known = [id for id in theirs.encode(text).ids if id]
    assert ours.decode([order[id] for id in known]) == theirs.decode(known)


@given(text=st.text(st.characters(codec="utf-8", exclude_characters="<>")))
def test_gpt1_tokens_of_any_text_equal_those_of_transformers(
    text: str, tokenizers: tuple[LowercaseBPETokenizer, Engine]
) -> None:
    ours, theirs = tokenizers
    order = own_order(ours, theirs)
    assert ours.encode(text) == [order[id] for id in theirs.encode(text).ids]


def test_gpt1_tokenizer_is_stored_and_no_text_is_a_special_token(
    tokenizers: tuple[LowercaseBPETokenizer, Engine],
) -> None:
    ours, _ = tokenizers
    again = tokenizer_from_json(json.loads(json.dumps(ours.to_json())))
    assert isinstance(again, LowercaseBPETokenizer) and again.to_json() == ours.to_json()
    text = "the <unk> cat \ud800 </s>"
    assert again.encode(text) == ours.encode(text)
    assert EOS not in ours.encode("a\nb\r\nc")
    assert ours.decode(ours.encode("The cat.")) == "the cat ."
    for change, message in (
        ({"merges": ["th e"]}, "before its parts; expected it after"),
        ({"merges": ["q q"]}, "before its parts"),
        ({"merges": ["m m"]}, "expected .* 'mm' among the tokens"),
        ({"tokens": ["\ud800"], "merges": []}, "expected tokens of text only"),
        ({"tokens": [*ours.to_json()["tokens"], "<unk>"]}, "expected tokens of text only"),
        ({"tokens": ["a", "a"], "merges": []}, "got the token 'a' twice"),
    ):
        with pytest.raises(RunError, match=message):
            tokenizer_from_json({**ours.to_json(), **change})


def test_gpt1_generates_the_same_text_and_returns_as_it_was(
    gpt1: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tmp_path / "run", tmp_path / "out"
    assert saccade(["import", "gpt1", str(gpt1), "--out", str(run)]) == 0
    opened = load_run(run)
    theirs = OpenAIGPTLMHeadModel.from_pretrained(gpt1).eval()
    engine = Engine.from_file(str(gpt1 / "tokenizer.json"))
    newline, unknown = engine.token_to_id(NEWLINE), engine.token_to_id("<unk>")
    for prompt in ("The cat", "a mat,", "it all"):
        ids = torch.tensor([[newline, *engine.encode(prompt).ids]])  # a line starts after a line
        found = theirs.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=8,
            do_sample=False,
            suppress_tokens=[unknown],
            pad_token_id=unknown,
        )
        lines: list[list[int]] = [[]]
        for id in found[0, ids.shape[1] :].tolist():
            lines.append([]) if id == newline else lines[-1].append(id)
        expected = "\n".join(engine.decode(line) for line in lines)
        assert opened.predict(prompt, max_new_tokens=8).text == expected
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXT))
    assert saccade(["evaluate", str(run), "--data", str(text), "--json"]) == 0
    scores = json.loads(capsys.readouterr().out[len(f"{run}\n") :])
    assert 0 < scores["loss"] < 50
    more = ["train", "language", "--data", str(text), "--init-from", str(run)]
    steps = ["--set", "train.steps=1", "--set", "train.threads=1", "--out", str(tmp_path / "more")]
    assert saccade([*more, *steps]) == 0
    tuned = load_run(tmp_path / "more")
    assert tuned.recipe.model == opened.recipe.model
    assert tuned.preprocessor.to_json() == opened.preprocessor.to_json()
    # out again: with the ids that it came with, since <unk> is the first and the line end the last
    assert saccade(["export", str(run), "--to", "huggingface", "--out", str(out)]) == 0
    back = OpenAIGPTLMHeadModel.from_pretrained(out).eval()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(back.state_dict()[name], tensor), name
    reader, original = (AutoTokenizer.from_pretrained(folder) for folder in (out, gpt1))
    assert type(reader) is OpenAIGPTTokenizer
    assert reader.get_vocab() == engine.get_vocab()
    for line in UNUSUAL:
        assert reader(line)["input_ids"] == original(line)["input_ids"] == engine.encode(line).ids
    again = import_gpt1(out)
    assert again.model == opened.recipe.model
    assert again.vocabulary.to_json() == opened.preprocessor.to_json()
    for name, tensor in opened.model.state_dict().items():
        assert torch.equal(again.weights[name], tensor), name


def test_gpt1_import_vocab_and_merges_files(gpt1: Path, tmp_path: Path) -> None:
    values = json.loads((gpt1 / "tokenizer.json").read_text())
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((gpt1 / name).read_bytes())
    (tmp_path / "vocab.json").write_text(json.dumps(values["model"]["vocab"]))
    merges = "\n".join(" ".join(merge) for merge in values["model"]["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    one, two = import_gpt1(gpt1), import_gpt1(tmp_path)
    assert one.model == two.model and one.vocabulary.to_json() == two.vocabulary.to_json()
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)


def small(kind: str, **choices: Any) -> tuple[GPTConfig, GPT, Any]:
    tokenizer = train_tokenizer(kind, TEXT, 300 if kind == "bpe" else None)
    torch.manual_seed(0)
    settings = {"name": "gpt1", "width": 16, "depth": 2, "heads": 2, "context_length": 12}
    config = GPTConfig(vocab_size=tokenizer.vocab_size, **{**settings, **choices})
    return config, GPT(config).eval(), tokenizer


@pytest.mark.parametrize("kind", ["bpe", "character"])
@pytest.mark.parametrize("activation", sorted(GPT1_ACTIVATIONS))
@torch.no_grad()
def test_gpt1_trained_here_goes_out_and_in(kind: str, activation: str, tmp_path: Path) -> None:
    config, model, tokenizer = small(kind, activation=activation)
    for parameter in model.parameters():
        parameter.mul_(4)  # else any activation is nearly a line
    export_gpt2(tmp_path / "out", config, tokenizer, model.state_dict())
    theirs = OpenAIGPTLMHeadModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(config.vocab_size, (3, 12), generator=torch.Generator().manual_seed(0))
    ours, _ = model.step(ids, model.init_state(ids))
    torch.testing.assert_close(theirs(ids).logits, ours, atol=1e-5, rtol=1e-5)
    reader = AutoTokenizer.from_pretrained(tmp_path / "out")
    for line in ("A cat sat", "the naïve mat", "  the  cat "):
        assert reader(line)["input_ids"] == tokenizer.encode(line)
    taken = import_gpt1(tmp_path / "out")
    assert taken.vocabulary.to_json() == tokenizer.to_json()
    assert taken.model == config.model_copy(update={"hidden": 64})
    for name, tensor in model.state_dict().items():
        assert torch.equal(taken.weights[name], tensor), name


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"hidden": 24}, "model.hidden is 24; GPT has 4 · width, 64"),
        ({"activation": "gelu_exact"}, "model.activation is gelu_exact; GPT has gelu, relu, silu"),
        ({"positions": "rotary"}, "model.positions is rotary; GPT has learned ones"),
        ({"pruned_heads": {"blocks.0.self_attention": [0]}}, "model.pruned_heads is set"),
    ],
)
def test_gpt1_export_refuses_unsupported_models(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    config, _, tokenizer = small("bpe")
    with pytest.raises(ConfigError, match=reason):
        export_gpt2(tmp_path / "out", config.model_copy(update=settings), tokenizer, {})


def test_gpt1_import_refuses_other_models(gpt1: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="got model_type 'openai-gpt'; expected 'gpt2'"):
        import_gpt2(gpt1)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((gpt1 / name).read_bytes())
    config = json.loads((gpt1 / "config.json").read_text())
    for changes, reason in (
        ({"model_type": "gpt2"}, "got model_type 'gpt2'; expected 'openai-gpt'"),
        ({"afn": "gelu_new"}, "got afn 'gelu_new'; expected 'gelu'"),
        ({"layer_norm_epsilon": 1e-6}, "got layer_norm_epsilon 1e-06"),
        ({"tie_word_embeddings": False}, "got tie_word_embeddings False"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(DataError, match=reason):
            import_gpt1(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    values = json.loads((gpt1 / "tokenizer.json").read_text())
    model, vocabulary = values["model"], values["model"]["vocab"]
    without_newline = {token: id for token, id in vocabulary.items() if token != NEWLINE}
    normalizer = values["normalizer"]
    for changes, reason in (
        ({"normalizer": {**normalizer, "lowercase": False}}, "expected BertNormalizer as GPT"),
        ({"normalizer": {**normalizer, "strip_accents": False}}, "got the normalizer"),
        ({"normalizer": None}, "got the normalizer None"),
        ({"pre_tokenizer": {"type": "Whitespace"}}, "got the pre-tokenizer"),
        ({"model": {**model, "end_of_word_suffix": "@@"}}, "its end_of_word_suffix is '@@'"),
        ({"model": {**model, "unk_token": None}}, "its unk_token is None"),
        ({"model": {**model, "dropout": 0.1}}, "its dropout is 0.1"),
        ({"model": {**model, "byte_fallback": True}}, "its byte_fallback is True"),
        ({"model": {**model, "vocab": without_newline}}, r"no token '\\n</w>'"),
        ({"model": {**model, "vocab": {**vocabulary, "a": 2, "b": 2}}}, "two tokens have one id"),
    ):
        (tmp_path / "tokenizer.json").write_text(json.dumps(values | changes))
        with pytest.raises(DataError, match=reason):
            import_gpt1(tmp_path)

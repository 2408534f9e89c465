"""A GPT out to Hugging Face's layout and in from it: the same logits, the same tokens."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GPT2Config, GPT2LMHeadModel

from saccade.cli.main import run as saccade
from saccade.data.tokenizers import train_tokenizer as tokenizer_of
from saccade.errors import ConfigError, DataError, RunError
from saccade.interop.gpt2_import import import_gpt2
from saccade.interop.huggingface_gpt2 import GPT2_ACTIVATIONS, export_gpt2
from saccade.models.config import GPTConfig
from saccade.models.gpt import GPT
from saccade.runs.run import load_run

TEXT = ["the cat sat on the mat", "a cat, a mat — naïve 🙂", "", "the end of it all"] * 3


def small(kind: str, **choices: Any) -> tuple[GPTConfig, GPT, Any]:
    tokenizer = tokenizer_of(kind, TEXT, 300 if kind == "bpe" else None)
    torch.manual_seed(0)
    config = GPTConfig(
        vocab_size=tokenizer.vocab_size,
        **{"width": 16, "depth": 2, "heads": 2, "hidden": 24, "context_length": 12, **choices},
    )
    return config, GPT(config).eval(), tokenizer


@pytest.mark.parametrize("kind", ["bpe", "character"])
@torch.no_grad()
def test_gpt2_export_logits_and_tokens_equal(kind: str, tmp_path: Path) -> None:
    config, model, tokenizer = small(kind)
    export_gpt2(tmp_path / "out", config, tokenizer, model.state_dict())
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(config.vocab_size, (3, 12), generator=torch.Generator().manual_seed(0))
    ours, _ = model.step(ids, model.init_state(ids))
    torch.testing.assert_close(theirs(ids).logits, ours, atol=1e-5, rtol=1e-5)
    reader = AutoTokenizer.from_pretrained(tmp_path / "out")
    for line in ("a cat sat", "the naïve 🙂 mat", "  the  cat "):
        assert reader(line)["input_ids"] == tokenizer.encode(line)
        assert reader.decode(tokenizer.encode(line)) == tokenizer.decode(tokenizer.encode(line))
    # a line's end is the end mark
    assert reader("a cat\nsat")["input_ids"] == [
        *tokenizer.encode("a cat"),
        2,
        *tokenizer.encode("sat"),
    ]


@pytest.mark.parametrize("activation", sorted(GPT2_ACTIVATIONS))
@torch.no_grad()
def test_gpt2_round_trip_of_every_activation(activation: str, tmp_path: Path) -> None:
    config, model, tokenizer = small("character", depth=1, activation=activation)
    for parameter in model.parameters():
        parameter.mul_(10)  # else any activation is nearly a line
    export_gpt2(tmp_path / "out", config, tokenizer, model.state_dict())
    theirs = GPT2LMHeadModel.from_pretrained(tmp_path / "out").eval()
    ids = torch.randint(config.vocab_size, (2, 9), generator=torch.Generator().manual_seed(0))
    ours, _ = model.step(ids, model.init_state(ids))
    torch.testing.assert_close(theirs(ids).logits, ours, atol=1e-4, rtol=1e-4)
    assert import_gpt2(tmp_path / "out").model.activation == activation


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A GPT-2 with random weights and byte pairs of its own, as `save_pretrained` leaves it."""
    folder = tmp_path_factory.mktemp("gpt2")
    engine = Engine(models.BPE())
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|endoftext|>"],
        show_progress=False,
    )
    engine.train_from_iterator(TEXT, trainer)
    engine.save(str(folder / "tokenizer.json"))
    torch.manual_seed(1)
    config = GPT2Config(
        vocab_size=engine.get_vocab_size(), n_positions=16, n_embd=16, n_layer=2, n_head=4
    )
    GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


@torch.no_grad()
def test_gpt2_import_probabilities_equal(gpt2: Path) -> None:
    taken = import_gpt2(gpt2)
    model = GPT(taken.model).eval()
    model.load_state_dict(taken.weights)
    theirs = GPT2LMHeadModel.from_pretrained(gpt2).eval()
    engine = Engine.from_file(str(gpt2 / "tokenizer.json"))
    text = "the cat sat on a naïve 🙂"
    there, here = engine.encode(text), torch.tensor([taken.vocabulary.encode(text)])
    ours, _ = model.step(here, model.init_state(here))
    expected = theirs(torch.tensor([there.ids])).logits
    numbers = taken.vocabulary.get_vocab()
    known = {**numbers, "<|endoftext|>": 1, "Ċ": 2}  # where each of their tokens is with us
    order = [known[engine.id_to_token(id)] for id in range(engine.get_vocab_size())]
    torch.testing.assert_close(ours[:, :, order], expected, atol=1e-5, rtol=1e-5)
    # and nothing has a chance that is not theirs
    torch.testing.assert_close(
        ours.softmax(-1)[:, :, order], expected.softmax(-1), atol=1e-6, rtol=1e-5
    )


def test_gpt2_import_vocab_and_merges_files(gpt2: Path, tmp_path: Path) -> None:
    values = json.loads((gpt2 / "tokenizer.json").read_text())
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((gpt2 / name).read_bytes())
    vocabulary = values["model"]["vocab"]
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    merges = "\n".join(" ".join(merge) for merge in values["model"]["merges"])
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}\n")
    one, two = import_gpt2(gpt2), import_gpt2(tmp_path)
    assert one.model == two.model and one.vocabulary.merges == two.vocabulary.merges
    assert all(torch.equal(one.weights[name], two.weights[name]) for name in one.weights)


@pytest.mark.parametrize("kind", ["bpe", "character"])
def test_gpt2_round_trip(kind: str, tmp_path: Path) -> None:
    config, model, tokenizer = small(kind)
    export_gpt2(tmp_path / "out", config, tokenizer, model.state_dict())
    taken = import_gpt2(tmp_path / "out")
    assert taken.vocabulary.to_json() == tokenizer.to_json()
    assert taken.model.missing_tokens == []
    for name, tensor in model.state_dict().items():
        assert torch.equal(taken.weights[name], tensor)


def test_gpt2_command_line(gpt2: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "runs" / "mine"
    assert saccade(["import", "gpt2", str(gpt2), "--out", str(run)]) == 0
    assert saccade(["predict", str(run), "the cat", "--max-new-tokens", "20"]) == 0
    text = tmp_path / "text.txt"
    text.write_text("\n".join(TEXT))
    assert saccade(["evaluate", str(run), "--data", str(text), "--json"]) == 0
    assert "bits_per_character" in capsys.readouterr().out
    assert saccade(["evaluate", str(run)]) == 2
    assert "--data" in capsys.readouterr().err
    # name, sizes and tokens come from the run, also where the default of the task is another model
    start = ["train", "language", "--data", str(text), "--init-from", str(run)]
    steps = ["--set", "train.steps=1", "--set", "train.threads=1", "--out", str(tmp_path / "more")]
    assert saccade([*start, *steps]) == 0
    assert load_run(tmp_path / "more").recipe.model == load_run(run).recipe.model
    assert saccade([*start, "--set", "model.width=8", "--out", str(tmp_path / "other")]) == 2
    assert "got other settings of the model" in capsys.readouterr().err
    assert saccade(["export", str(run), "--to", "huggingface", "--out", str(tmp_path / "o")]) == 0
    # with the vocabulary that it came with
    there, again = (
        AutoTokenizer.from_pretrained(folder, tokenizer_class="PreTrainedTokenizerFast")
        for folder in (gpt2, tmp_path / "o")
    )
    assert set(there.get_vocab()) == set(again.get_vocab())
    ids = torch.tensor([there("the cat\nsat on a 🙂<|endoftext|>")["input_ids"]])
    moved = torch.tensor([again("the cat\nsat on a 🙂<|endoftext|>")["input_ids"]])
    with torch.no_grad():
        expected = GPT2LMHeadModel.from_pretrained(gpt2).eval()(ids).logits
        found = GPT2LMHeadModel.from_pretrained(tmp_path / "o").eval()(moved).logits
    order = [again.get_vocab()[there.convert_ids_to_tokens(id)] for id in range(expected.shape[-1])]
    torch.testing.assert_close(found[..., order], expected)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"name": "gpt3"}, "got the model gpt3, with banded attention"),
        ({"positions": "rotary"}, "model.positions is rotary"),
        ({"pruned_heads": {"blocks.0.self_attention": [0]}}, "model.pruned_heads is set"),
        (
            {"activation": "leaky_relu", "activation_alpha": 0.2},
            "model.activation_alpha is set; GPT-2 has leaky_relu with its default",
        ),
        ({"activation": "elu"}, "model.activation is elu; GPT-2 has gelu, gelu_exact"),
    ],
)
def test_gpt2_export_refuses_unsupported_models(
    settings: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    config, _, tokenizer = small("bpe")
    with pytest.raises(ConfigError, match=reason):
        export_gpt2(tmp_path / "out", config.model_copy(update=settings), tokenizer, {})
    with pytest.raises(ConfigError, match="the tokenizer is word"):
        export_gpt2(tmp_path / "out", config, tokenizer_of("word", TEXT), {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").touch()
    with pytest.raises(RunError, match="full holds files that are not an export"):
        export_gpt2(tmp_path / "full", config, tokenizer, {})
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["thesis.txt"]


def test_gpt2_import_refuses_other_models(gpt2: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="config.json is missing"):
        import_gpt2(tmp_path)
    config = json.loads((gpt2 / "config.json").read_text())
    for changes, reason in (
        ({"model_type": "llama"}, "got model_type 'llama'; expected 'gpt2'"),
        ({"activation_function": "mish"}, "got activation_function 'mish'"),
    ):
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        with pytest.raises(DataError, match=reason):
            import_gpt2(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config))
    words = {"model": {"type": "WordLevel", "vocab": {"[UNK]": 0, "the": 1}}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(words))
    with pytest.raises(DataError, match="got a word-level tokenizer"):
        import_gpt2(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((gpt2 / "tokenizer.json").read_bytes())
    with pytest.raises(DataError, match="model.safetensors is missing"):
        import_gpt2(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"not tensors")
    with pytest.raises(DataError, match="could not be read"):
        import_gpt2(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(config | {"n_layer": 3}))
    (tmp_path / "model.safetensors").write_bytes((gpt2 / "model.safetensors").read_bytes())
    with pytest.raises(DataError, match="does not fit its config.json"):
        import_gpt2(tmp_path)

"""A Transformer as CTranslate2 has it: the same numbers, and what it cannot have."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import ctranslate2
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data.parallel.config import PairsConfig
from saccade.data.special_tokens import BOS, EOS
from saccade.data.tokenizers import BPETokenizer, CharacterTokenizer, Tokenizer, train_tokenizer
from saccade.errors import ConfigError, MissingPackageError, RunError
from saccade.interop.ctranslate2.export import (
    CTRANSLATE2_ACTIVATIONS,
    CTranslate2ExportConfig,
    export_ctranslate2,
    token_list,
    unsupported_by_ctranslate2,
)
from saccade.models.config import BahdanauConfig, TransformerConfig
from saccade.models.transformer import Transformer
from saccade.tasks.translation.data import TokenizerPair
from tests.tolerances import float32_tolerance

LETTERS = train_tokenizer("character", ["abcdefgh ijk"])
PAIRS = train_tokenizer("bpe", ["the cat sat on the mat, the cat sat"] * 3, 270)
DATA = PairsConfig(path="a file", max_length=30, max_new_tokens=20)


def made(tokenizers: TokenizerPair, **choices: Any) -> tuple[TransformerConfig, Transformer]:
    config = TransformerConfig(
        source_vocab_size=tokenizers.source.vocab_size,
        target_vocab_size=tokenizers.target.vocab_size,
        shared_vocab=tokenizers.shared,
        **{"width": 16, "depth": 2, "heads": 4, **choices},
    )
    return config, Transformer(config).eval()


def theirs(
    folder: Path, tokenizers: TokenizerPair, sources: list[list[int]], targets: list[list[int]]
) -> list[list[float]]:
    """The log-probabilities of the targets' tokens, asked of CTranslate2 itself."""
    names = token_list(tokenizers.source), token_list(tokenizers.target)
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1)
    scored = translator.score_batch(
        [[names[0][id] for id in ids] for ids in sources],
        [[names[1][id] for id in ids] for ids in targets],
    )
    return [result.log_probs for result in scored]


@torch.no_grad()
def ours(model: Transformer, source: list[int], target: list[int]) -> torch.Tensor:
    state = model.init_state(model.encode(torch.tensor([[*source, EOS]]), None))
    logits, _ = model.step(torch.tensor([[BOS, *target]]), state)
    written = torch.tensor([*target, EOS])
    return logits[0].log_softmax(dim=-1).gather(1, written[:, None])[:, 0]


def some_ids(tokenizer: Tokenizer, lengths: list[int]) -> list[list[int]]:
    return [torch.randint(3, tokenizer.vocab_size, (n,)).tolist() for n in lengths]


CHOICES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "post-norm": {"norm_first": False},
    "learned": {"positions": "learned", "max_positions": 40},
    "rotary": {"positions": "rotary"},
    "none": {"positions": "none"},
    "two groups": {"kv_heads": 2},
    "one group, rotary, post-norm": {"kv_heads": 1, "positions": "rotary", "norm_first": False},
    "a feed-forward of its own width": {"hidden": 24, "activation": "silu"},
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("shared", [False, True], ids=["two vocabularies", "one"])
def test_export_log_probabilities_equal_model(
    choice: str, shared: bool, tmp_path: Path, loud: Callable[..., None]
) -> None:
    tokenizers = TokenizerPair(PAIRS, PAIRS) if shared else TokenizerPair(LETTERS, PAIRS)
    config, model = made(tokenizers, **CHOICES[choice])
    loud(model)
    export_ctranslate2(
        tmp_path / "out",
        config,
        DATA,
        tokenizers,
        model.state_dict(),
        "",
        CTranslate2ExportConfig(),
    )
    sources = some_ids(tokenizers.source, [1, 29, 9, 4])
    targets = some_ids(tokenizers.target, [20, 1, 7, 12])
    found = theirs(tmp_path / "out", tokenizers, sources, targets)
    model.double()
    every = [ours(model, *pair) for pair in zip(sources, targets, strict=True)]
    for own, other in zip(every, found, strict=True):
        torch.testing.assert_close(torch.tensor(other).double(), own, rtol=0, atol=1e-4)
    assert torch.cat(every).std() > 1  # else a mistake would be too small to be seen


@settings(deadline=None, max_examples=8)
@given(data=st.data())
def test_export_any_transformer_or_refuse(data: st.DataObject) -> None:
    heads = data.draw(st.sampled_from([1, 2, 4]))
    tokenizers = TokenizerPair(LETTERS, data.draw(st.sampled_from([LETTERS, PAIRS])))
    choices = {
        "heads": heads,
        "width": heads * data.draw(st.sampled_from([2, 4, 6])),
        "depth": data.draw(st.integers(1, 3)),
        "kv_heads": data.draw(st.sampled_from([n for n in (1, 2, 4) if heads % n == 0])),
        "norm_first": data.draw(st.booleans()),
        "activation": data.draw(st.sampled_from(sorted(CTRANSLATE2_ACTIVATIONS))),
        "positions": data.draw(
            st.sampled_from(["sinusoidal", "learned", "rotary", "relative", "none"])
        ),
    }
    config, model = made(tokenizers, **choices)
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4))
    sources, targets = some_ids(LETTERS, lengths), some_ids(tokenizers.target, lengths[::-1])
    with TemporaryDirectory() as folder:
        parts = (config, DATA, tokenizers, model.state_dict(), "", CTranslate2ExportConfig())
        if config.positions == "relative":
            with pytest.raises(ConfigError, match="relative"):
                export_ctranslate2(Path(folder) / "out", *parts)
            return
        export_ctranslate2(Path(folder) / "out", *parts)
        found = theirs(Path(folder) / "out", tokenizers, sources, targets)
    model.double()
    for source, target, other in zip(sources, targets, found, strict=True):
        own = partial(ours, model, source, target)
        difference = float((torch.tensor(other).double() - own()).abs().max())
        assert difference <= float32_tolerance(model, own)


def test_export_has_positions_for_longest_sequences(tmp_path: Path) -> None:
    tokenizers = TokenizerPair(LETTERS, LETTERS)
    config, model = made(tokenizers)
    data = PairsConfig(path="a file", max_length=7, max_new_tokens=11)
    export_ctranslate2(
        tmp_path / "out",
        config,
        data,
        tokenizers,
        model.state_dict(),
        "",
        CTranslate2ExportConfig(),
    )
    (found,) = theirs(tmp_path / "out", tokenizers, [[5] * 7], [[6] * 11])
    torch.testing.assert_close(
        torch.tensor(found), ours(model, [5] * 7, [6] * 11), rtol=0, atol=1e-4
    )


def test_export_int8_is_smaller_and_close(tmp_path: Path, loud: Callable[..., None]) -> None:
    tokenizers = TokenizerPair(PAIRS, PAIRS)
    config, model = made(tokenizers, width=64, heads=4)
    loud(model, 1.2)
    sources, targets = some_ids(PAIRS, [6, 9]), some_ids(PAIRS, [8, 5])
    found, sizes = {}, {}
    for quantization in ("float32", "int8"):
        out = tmp_path / quantization
        how = CTranslate2ExportConfig(quantization=quantization)
        export_ctranslate2(out, config, DATA, tokenizers, model.state_dict(), "", how)
        found[quantization] = theirs(out, tokenizers, sources, targets)
        sizes[quantization] = (out / "model.bin").stat().st_size
    assert sizes["int8"] < 0.4 * sizes["float32"]
    exact, rounded = (torch.tensor(sum(found[q], [])) for q in ("float32", "int8"))
    assert 1e-4 < (exact - rounded).abs().max() < 0.2
    # the weights that were handed over are as they were
    again = [ours(model, *pair) for pair in zip(sources, targets, strict=True)]
    torch.testing.assert_close(exact, torch.cat(again), rtol=0, atol=1e-4)


# --- vocabularies ---------------------------------------------------------------------------------


def test_token_list_order() -> None:
    assert token_list(LETTERS)[:4] == ["<pad>", "<s>", "</s>", "<unk>"]
    names = token_list(LETTERS)
    assert [names[id] for id in LETTERS.encode("cab")] == ["c", "a", "b"]
    names = token_list(PAIRS)
    assert "".join(names[id] for id in PAIRS.encode("the cat")) == "theĠcat"


@pytest.mark.parametrize(
    "tokenizer",
    [
        LETTERS,
        PAIRS,
        train_tokenizer("word", ["the cat sat", "the cat sat"]),
        # texts that hold what marks are called
        BPETokenizer([("<", "/"), ("</", "s"), ("</s", ">"), ("<", "s"), ("<s", ">")]),
        # two ways to one token: it has one number
        BPETokenizer([("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")]),
        CharacterTokenizer([" ", "\t", "\n", "\0", "🙂"]),
    ],
    ids=["letters", "pairs", "words", "marks in the text", "made twice", "unseen letters"],
)
def test_token_list_is_unique(tokenizer: Tokenizer, tmp_path: Path) -> None:
    names = token_list(tokenizer)
    assert len(set(names)) == len(names) == tokenizer.vocab_size
    both = TokenizerPair(tokenizer, tokenizer)
    config, model = made(both, width=8, heads=2, depth=1)
    export_ctranslate2(
        tmp_path / "out", config, DATA, both, model.state_dict(), "", CTranslate2ExportConfig()
    )
    kept = json.loads((tmp_path / "out" / "shared_vocabulary.json").read_text(encoding="utf-8"))
    assert kept == names
    every = list(range(4, min(len(names), 24)))
    (found,) = theirs(tmp_path / "out", both, [every], [every[::-1]])
    torch.testing.assert_close(
        torch.tensor(found), ours(model, every, every[::-1]), rtol=0, atol=1e-4
    )


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ({"score": "additive"}, "model.score is additive; CTranslate2 supports only scaled_dot"),
        ({"score": "dot"}, "model.score is dot"),
        ({"positions": "relative"}, r"relative \(Transformer-XL\); CTranslate2 supports"),
        ({"activation": "selu"}, "model.activation is selu; CTranslate2 supports gelu, gelu_exact"),
        ({"window": 3}, "model.window is 3; CTranslate2 has no windowed attention"),
        (
            {"pruned_heads": {"encoder.0.self_attention": [1]}},
            "needs the same number of heads in every layer",
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_export_names_unsupported_settings(
    choices: dict[str, Any], message: str, tmp_path: Path
) -> None:
    both = TokenizerPair(LETTERS, LETTERS)
    config, model = made(both, **choices)
    with pytest.raises(ConfigError, match=message):
        export_ctranslate2(
            tmp_path / "out", config, DATA, both, model.state_dict(), "", CTranslate2ExportConfig()
        )
    assert not (tmp_path / "out").exists()


def test_export_reports_all_unsupported_settings(tmp_path: Path) -> None:
    config = TransformerConfig(score="cosine", window=2, positions="relative")
    assert len(unsupported_by_ctranslate2(config)) == 3
    with pytest.raises(ConfigError, match="(?s)cosine.*relative.*window.*Predict without --engine"):
        export_ctranslate2(tmp_path / "out", config, DATA, None, {}, "", CTranslate2ExportConfig())


def test_export_refuses_other_models(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError,
        match="got the model bahdanau; the CTranslate2 export supports only transformer",
    ):
        export_ctranslate2(
            tmp_path / "out", BahdanauConfig(), DATA, None, {}, "", CTranslate2ExportConfig()
        )


def test_export_keeps_foreign_folders(tmp_path: Path) -> None:
    both = TokenizerPair(LETTERS, LETTERS)
    config, model = made(both)
    parts = (config, DATA, both, model.state_dict(), "", CTranslate2ExportConfig())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work", encoding="utf-8")
    with pytest.raises(RunError, match=r"mine holds files that are not an export \(thesis.txt\)"):
        export_ctranslate2(tmp_path / "mine", *parts)
    with pytest.raises(
        ConfigError, match="thesis.txt, which is a file; expected a new or an empty"
    ):
        export_ctranslate2(tmp_path / "mine" / "thesis.txt", *parts)
    assert (tmp_path / "mine" / "thesis.txt").read_text(encoding="utf-8") == "years of work"
    (tmp_path / "empty").mkdir()
    export_ctranslate2(tmp_path / "empty", *parts)
    export_ctranslate2(tmp_path / "empty", *parts)  # one that is there is replaced
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "mine"]


def test_missing_ctranslate2_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = TokenizerPair(LETTERS, LETTERS)
    config, model = made(both)
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'saccade\[ctranslate2\]'"):
        export_ctranslate2(
            tmp_path / "out", config, DATA, both, model.state_dict(), "", CTranslate2ExportConfig()
        )

r"""Import of a GPT or GPT-2 that Hugging Face's `save_pretrained` wrote, with its tokenizer.

The folder may come from anywhere. Sizes are compared with their ranges and with the shapes in the
header of the weights before anything is allocated; of the tokenizer only tokens and merges are
read, and one that brings a regular expression is refused. How their layouts differ from ours is
described in `saccade.interop.huggingface_gpt2`.
"""

from collections.abc import Iterator
from functools import partial
from math import prod
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from saccade.config import short_repr
from saccade.data.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import (
    WORD_END,
    BPETokenizer,
    CharacterTokenizer,
    LowercaseBPETokenizer,
)
from saccade.errors import DataError, bullet_list
from saccade.interop.huggingface_folder import (
    FROM_TRANSFORMERS,
    SAVE_ADVICE,
    added_tokens,
    check_vocabulary,
    check_weights_exist,
    read_document,
    read_json_object,
)
from saccade.interop.huggingface_gpt2 import (
    ACTIVATION_FROM_GPT2,
    CHARACTER_PATTERN,
    END_OF_TEXT,
    GPT2_NORM_EPSILON,
    GPT2_WEIGHT_PREFIX,
    GPT_LAYOUTS,
    LINE_END_NORMALIZER,
    NEWLINE_TOKEN,
    NEWLINE_WORD,
    GPTLayout,
)
from saccade.interop.weight_files import (
    MAX_DIFFERENCES,
    read_float_tensors,
    read_weights_header,
    wrong_tensor,
)
from saccade.io.memory import WEIGHT_BYTES, check_memory
from saccade.models.config import GPTConfig
from saccade.types.limits import MAX_DEPTH, MAX_LENGTH, MAX_VOCABULARY, MAX_WIDTH

IMPORT_COPIES = 3  # their weights, ours, and those of the model
GPT2_SIZES = {  # largest value, and whether it may be missing
    "n_embd": (MAX_WIDTH, False),
    "n_layer": (MAX_DEPTH, False),
    "n_head": (MAX_WIDTH, False),
    "n_positions": (MAX_LENGTH, False),
    "n_inner": (MAX_WIDTH, True),
    "vocab_size": (MAX_VOCABULARY, True),
}
ACTIVATION_NAMES = {  # their name → ours, their default first
    "gpt1": {"gelu": "gelu", "relu": "relu", "silu": "silu", "swish": "silu"},
    "gpt2": {"gelu_new": "gelu", **ACTIVATION_FROM_GPT2},
}
GPT2_VALUES: dict[str, tuple[Any, ...]] = {
    "layer_norm_epsilon": (GPT2_NORM_EPSILON,),
    "scale_attn_weights": (True,),
    "scale_attn_by_inverse_layer_idx": (False,),
    "add_cross_attention": (False,),
    "tie_word_embeddings": (True,),
}
NORMALIZERS = (None, {"type": "NFC"}, LINE_END_NORMALIZER)
WORD_NORMALIZER = {  # of GPT's tokenizer: BERT's, lower-casing, which removes accents too
    "type": "BertNormalizer",
    "clean_text": True,
    "handle_chinese_chars": True,
    "strip_accents": None,
    "lowercase": True,
}
WORD_SPLITTER = {"type": "BertPreTokenizer"}
WORD_MODEL: dict[str, tuple[Any, ...]] = {  # values that the model of GPT's tokenizer may have
    "type": ("BPE",),
    "end_of_word_suffix": (WORD_END,),
    "unk_token": (SPECIAL_TOKENS[UNK],),
    "continuing_subword_prefix": ("", None),
    "fuse_unk": (False, None),
    "byte_fallback": (False, None),
    "ignore_merges": (False, None),
    "dropout": (None,),
}
_GPT = "GPT"  # in messages about missing files


class ImportedGPT2(NamedTuple):
    """An imported GPT: settings, vocabulary and weights."""

    model: GPTConfig
    vocabulary: BPETokenizer | CharacterTokenizer | LowercaseBPETokenizer
    weights: dict[str, Tensor]

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings of the run, as plain values."""
        is_character = isinstance(self.vocabulary, CharacterTokenizer)
        return {
            "task": "language",
            "data": {
                "tokenizer": {"kind": "character" if is_character else "bpe"},
                "segment_length": self.model.context_length,
            },
            "model": self.model.model_dump(),
        }


class _MatchedTokenizer(NamedTuple):
    """Our form of a tokenizer, their row for each of our tokens, and our tokens without a row."""

    tokenizer: BPETokenizer | CharacterTokenizer | LowercaseBPETokenizer
    rows: list[int | None]
    missing_tokens: list[int]


def import_gpt1(folder: Path) -> ImportedGPT2:
    """GPT (openai-gpt) as `save_pretrained` writes it, with its tokenizer."""
    return _import(folder, "gpt1")


def import_gpt2(folder: Path) -> ImportedGPT2:
    """GPT-2 as `save_pretrained` writes it, with its tokenizer."""
    return _import(folder, "gpt2")


def _import(folder: Path, name: Literal["gpt1", "gpt2"]) -> ImportedGPT2:
    layout = GPT_LAYOUTS[name]
    if not folder.is_dir():
        raise DataError(
            f"{folder}: got a file; expected the folder of a {layout.title}, with config.json, "
            f"model.safetensors and a tokenizer; {FROM_TRANSFORMERS}"
        )
    activations = ACTIVATION_NAMES[name]
    config = _read_config(folder / "config.json", layout, activations)
    found = _read_tokenizer(folder, layout)
    path = folder / "model.safetensors"
    names = _check_header(path, layout, config, found.rows)
    width = config["n_embd"]
    model = GPTConfig(
        name=name,
        vocab_size=found.tokenizer.vocab_size,
        width=width,
        depth=config["n_layer"],
        heads=config["n_head"],
        hidden=_inner_width(layout, config),
        dropout=config.get("resid_pdrop", 0.1),
        activation=activations[config.get(layout.activation, next(iter(activations)))],
        context_length=config["n_positions"],
        missing_tokens=found.missing_tokens,
    )
    weights = _own_weights(model, layout, read_float_tensors(path, names), found.rows)
    return ImportedGPT2(model, found.tokenizer, weights)


def _inner_width(layout: GPTLayout, config: dict[str, Any]) -> int:
    """Return the width of the feed-forward."""
    inner = config.get("n_inner") if layout.has_inner_width else None
    return int(inner or 4 * config["n_embd"])


# --- config.json ----------------------------------------------------------------------------------


def _read_config(path: Path, layout: GPTLayout, activations: dict[str, str]) -> dict[str, Any]:
    """Return config.json; DataError with all values that are wrong or not supported."""
    config = read_json_object(path, _GPT)
    expected = {"model_type": (layout.model_type,), layout.activation: tuple(activations)}
    complaints = [
        f"got {name} {short_repr(config[name])}; expected {values[0]!r}."
        for name, values in (expected | GPT2_VALUES).items()
        if name in config and config[name] not in values
    ]
    if "model_type" not in config:
        complaints.append(f"got no model_type; expected {layout.model_type!r}.")
    complaints += _wrong_sizes(config, layout)
    dropout = config.get("resid_pdrop", 0.1)
    is_number = isinstance(dropout, int | float) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout < 1:
        complaints.append(
            f"got resid_pdrop {short_repr(dropout)}; expected a number from 0 to less than 1."
        )
    if complaints:
        heading = "these values cannot be imported:"
        raise DataError(f"{path}: {bullet_list(complaints, heading)}\n{FROM_TRANSFORMERS}")
    return config


def _wrong_sizes(config: dict[str, Any], layout: GPTLayout) -> list[str]:
    complaints = []
    for name, (largest, is_optional) in GPT2_SIZES.items():
        if name == "n_inner" and not layout.has_inner_width:
            continue
        value = config.get(name)
        if is_optional and value is None:
            continue
        if type(value) is not int or not 1 <= value <= largest:
            got = f"{name} {short_repr(value)}" if name in config else f"no {name}"
            complaints.append(f"got {got}; expected an integer from 1 to {largest:,}.")
    if not complaints and config["n_embd"] % config["n_head"]:
        complaints.append(
            f"got n_head {config['n_head']} and n_embd {config['n_embd']}; expected a number of "
            "heads that divides the width."
        )
    return complaints


# --- tokenizer ------------------------------------------------------------------------------------


def _read_tokenizer(folder: Path, layout: GPTLayout) -> _MatchedTokenizer:
    """Return our form of a tokenizer; a character tokenizer can only be one that we exported."""
    path = folder / "tokenizer.json"
    if not path.exists():
        match = _word_pairs if layout.model_type == "openai-gpt" else _byte_pairs
        return match(_vocabulary(folder / "vocab.json"), _merge_lines(folder), folder)
    values = read_json_object(path, _GPT)
    model = values.get("model")
    if not isinstance(model, dict):
        raise _not_byte_pairs(path, f"its model is {short_repr(model)}")
    if model.get("end_of_word_suffix"):
        return _read_word_pairs(path, values, model)
    if complaint := _unsupported_steps(values, is_words=model.get("type") == "WordLevel"):
        raise DataError(f"{path}: {complaint}")
    refuse = partial(_not_byte_pairs, path)
    vocabulary = check_vocabulary(model.get("vocab"), refuse)
    if model.get("type") == "WordLevel":
        return _characters(path, vocabulary)
    if model.get("type") != "BPE":
        raise _not_byte_pairs(path, f"its model is {short_repr(model.get('type'))}")
    return _byte_pairs(vocabulary | added_tokens(values, refuse), _merges(path, model), folder)


def _read_word_pairs(
    path: Path, values: dict[str, Any], model: dict[str, Any]
) -> _MatchedTokenizer:
    """Return GPT's tokenizer; DataError if it has other steps, which could not be taken over."""
    for name, found, expected in (
        ("normalizer", values.get("normalizer"), WORD_NORMALIZER),
        ("pre-tokenizer", values.get("pre_tokenizer"), WORD_SPLITTER),
    ):
        if found != expected:
            raise DataError(
                f"{path}: got the {name} {short_repr(found)} of a tokenizer; expected "
                f"{expected['type']} as GPT has it; try a model with the tokenizer of GPT."
            )
    for name, allowed in WORD_MODEL.items():
        if model.get(name) not in allowed:
            raise _not_byte_pairs(path, f"its {name} is {short_repr(model.get(name))}")
    refuse = partial(_not_byte_pairs, path)
    vocabulary = check_vocabulary(model.get("vocab"), refuse) | added_tokens(values, refuse)
    return _word_pairs(vocabulary, _merges(path, model), path.parent)


def _merges(path: Path, model: dict[str, Any]) -> list[tuple[str, str]]:
    merges = model.get("merges")
    if not isinstance(merges, list):
        raise _not_byte_pairs(path, f"its merges are {short_repr(merges)}")
    return [_parse_merge(path, merge) for merge in merges]


def _unsupported_steps(values: dict[str, Any], is_words: bool) -> str:
    """Return the complaint about what a tokenizer does before it looks up tokens, if any.

    Only the steps of GPT-2 are taken over, and those that we export. Others may bring a regular
    expression, which may take time exponential in a text.
    """
    splits = values.get("pre_tokenizer")
    is_known = splits is None
    if isinstance(splits, dict) and is_words:
        is_known = splits.get("pattern") == {"Regex": CHARACTER_PATTERN}
    elif isinstance(splits, dict):
        is_known = splits.get("type") == "ByteLevel" and splits.get("use_regex", True) is True
    if not is_known:
        return (
            f"got the pre-tokenizer {short_repr(splits)}; expected GPT-2's (ByteLevel): other "
            "regular expressions are not imported; try a model with the tokenizer of GPT-2."
        )
    if values.get("normalizer") not in NORMALIZERS:
        return (
            f"got the normalizer {short_repr(values['normalizer'])}; expected none, as GPT-2 has; "
            "try a model with the tokenizer of GPT-2."
        )
    return ""


def _vocabulary(path: Path) -> dict[str, int]:
    return check_vocabulary(read_json_object(path, _GPT), partial(_not_byte_pairs, path))


def _merge_lines(folder: Path) -> list[tuple[str, str]]:
    path = folder / "merges.txt"
    lines = read_document(path, _GPT).split("\n")
    return [_parse_merge(path, line) for line in lines if line and not line.startswith("#version")]


def _parse_merge(path: Path, merge: Any) -> tuple[str, str]:
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(_is_text(part) for part in parts):
        raise _not_byte_pairs(path, f"got the merge {short_repr(merge)}; expected two tokens")
    return parts[0], parts[1]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _not_byte_pairs(path: Path, reason: str) -> DataError:
    return DataError(
        f"{path} is not a byte-pair tokenizer like GPT's or GPT-2's ({reason}); {FROM_TRANSFORMERS}"
    )


def _characters(path: Path, vocabulary: dict[str, int]) -> _MatchedTokenizer:
    known = sorted(vocabulary, key=vocabulary.__getitem__)
    specials, characters = known[: len(SPECIAL_TOKENS)], known[len(SPECIAL_TOKENS) :]
    is_ours = specials == list(SPECIAL_TOKENS) and all(len(token) == 1 for token in characters)
    if not is_ours or [vocabulary[token] for token in known] != list(range(len(known))):
        raise DataError(
            f"{path}: got a word-level tokenizer; expected GPT-2's byte pairs, or characters "
            f"as `saccade export` writes them; {FROM_TRANSFORMERS}"
        )
    tokenizer = CharacterTokenizer(characters)
    return _MatchedTokenizer(tokenizer, list(range(tokenizer.vocab_size)), [])


def _byte_pairs(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], folder: Path
) -> _MatchedTokenizer:
    try:
        tokenizer = BPETokenizer(merges)
    except ValueError as error:
        raise _not_byte_pairs(folder, str(error).rstrip(".")) from None
    own = tokenizer.get_vocab()
    missing = [token for token in own if token not in vocabulary]
    if missing or NEWLINE_TOKEN not in vocabulary:
        raise DataError(
            f"{folder}: its tokenizer has no token {short_repr((missing or [NEWLINE_TOKEN])[0])}; "
            f"expected the byte pairs of GPT-2; {FROM_TRANSFORMERS}"
        )
    special_ids = [vocabulary.get(token) for token in SPECIAL_TOKENS]
    if special_ids == list(range(len(SPECIAL_TOKENS))):  # exported by us
        return _MatchedTokenizer(tokenizer, list(range(tokenizer.vocab_size)), [])
    rows: list[int | None] = [None] * tokenizer.vocab_size
    for token, id in own.items():
        rows[id] = vocabulary[token]
    rows[EOS], rows[own[NEWLINE_TOKEN]] = vocabulary[NEWLINE_TOKEN], None
    if END_OF_TEXT in vocabulary:
        rows[BOS] = vocabulary[END_OF_TEXT]
    return _MatchedTokenizer(tokenizer, rows, [id for id, row in enumerate(rows) if row is None])


def _word_pairs(
    vocabulary: dict[str, int], merges: list[tuple[str, str]], folder: Path
) -> _MatchedTokenizer:
    r"""Return GPT's tokenizer: eos takes the row of its "\n</w>", and unk that of its "<unk>"."""
    special = {SPECIAL_TOKENS[UNK]: UNK, NEWLINE_WORD: EOS}
    for token in special:
        if token not in vocabulary:
            raise DataError(
                f"{folder}: its tokenizer has no token {token!r}; expected those of GPT, with the "
                f"unknown token and the end of a line; {FROM_TRANSFORMERS}"
            )
    tokens = sorted(vocabulary.keys() - special.keys(), key=lambda token: vocabulary[token])
    if len({*vocabulary.values()}) < len(vocabulary) or "" in vocabulary:
        raise _not_byte_pairs(folder, "two tokens have one id, or a token is empty")
    try:
        tokenizer = LowercaseBPETokenizer(tokens, merges)
    except ValueError as error:
        raise _not_byte_pairs(folder, str(error).rstrip(".")) from None
    rows = [None] * len(SPECIAL_TOKENS) + [vocabulary[token] for token in tokens]
    for token, id in special.items():
        rows[id] = vocabulary[token]
    return _MatchedTokenizer(tokenizer, rows, [PAD, BOS])


# --- weights --------------------------------------------------------------------------------------


def _check_header(
    path: Path, layout: GPTLayout, config: dict[str, Any], rows: list[int | None]
) -> dict[str, str]:
    """Compare the header of the weights with config and tokenizer; no weight is read.

    Returns the name in the file for each tensor of the layout.
    """
    check_weights_exist(path, layout.title)
    stored = read_weights_header(path, SAVE_ADVICE)
    names = {name.removeprefix(GPT2_WEIGHT_PREFIX): name for name in stored}
    wrong: list[str] = []
    for name, expected in _expected_shapes(layout, config):
        found = stored[names[name]] if name in names else None
        if complaint := wrong_tensor(found, expected):
            wrong.append(f"{name}: {complaint}")
        if len(wrong) == MAX_DIFFERENCES:
            break
    table = 0 if wrong else stored[names[layout.table]].shape[0]
    largest = max((row for row in rows if row is not None), default=0)
    if not wrong and config.get("vocab_size") not in (None, table):
        wrong.append(
            f"{layout.table}: got {table:,} rows; expected vocab_size={config['vocab_size']:,}"
        )
    if not wrong and largest >= table:
        wrong.append(
            f"{layout.table}: got {table:,} rows; expected one for the token id {largest:,}"
        )
    if wrong:
        listed = bullet_list([f"{complaint}." for complaint in wrong], "")
        raise DataError(f"{path} does not fit its config.json: {listed}\n{FROM_TRANSFORMERS}")
    used = {name: names[name] for name, _ in _expected_shapes(layout, config)}
    needed = WEIGHT_BYTES * sum(prod(stored[name].shape) for name in used.values())
    check_memory(IMPORT_COPIES * needed, f"{path}", "a smaller model, or a larger machine")
    return used


def _expected_shapes(
    layout: GPTLayout, config: dict[str, Any]
) -> Iterator[tuple[str, tuple[int | None, ...]]]:
    """Yield the name and shape of each tensor of a layout; None: any size."""
    width = config["n_embd"]
    inner = _inner_width(layout, config)
    yield layout.table, (None, width)
    yield layout.positions, (config["n_positions"], width)
    if layout.has_final_norm:
        yield "ln_f.weight", (width,)
        yield "ln_f.bias", (width,)
    for layer in range(config["n_layer"]):
        for norm in ("ln_1", "ln_2"):
            yield f"h.{layer}.{norm}.weight", (width,)
            yield f"h.{layer}.{norm}.bias", (width,)
        for linear, inputs, outputs in (
            ("attn.c_attn", width, 3 * width),
            ("attn.c_proj", width, width),
            ("mlp.c_fc", width, inner),
            ("mlp.c_proj", inner, width),
        ):
            yield f"h.{layer}.{linear}.weight", (inputs, outputs)
            yield f"h.{layer}.{linear}.bias", (outputs,)


def _own_weights(
    model: GPTConfig, layout: GPTLayout, theirs: dict[str, Tensor], rows: list[int | None]
) -> dict[str, Tensor]:
    known = torch.tensor([0 if row is None else row for row in rows])
    table = theirs[layout.table][known]
    table[torch.tensor(model.missing_tokens, dtype=torch.long)] = 0.0
    found = {"table.weight": table, "positions.table": theirs[layout.positions]}
    if layout.has_final_norm:
        found |= {"norm.weight": theirs["ln_f.weight"], "norm.bias": theirs["ln_f.bias"]}
    for layer in range(model.depth):
        found |= _block(f"blocks.{layer}", f"h.{layer}", theirs, model.width)
    return {name: tensor.contiguous() for name, tensor in found.items()}


def _block(ours: str, theirs: str, weights: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    found = {}
    for what in ("weight", "bias"):
        whole = weights[f"{theirs}.attn.c_attn.{what}"].t()
        found[f"{ours}.self_attention.query.{what}"] = whole[:width]
        found[f"{ours}.self_attention.key_value.{what}"] = whole[width:]
        for name, their_name in (
            ("self_attention.out", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
            ("around_attention.norm", "ln_1"),
            ("around_feed_forward.norm", "ln_2"),
        ):
            found[f"{ours}.{name}.{what}"] = weights[f"{theirs}.{their_name}.{what}"].t()
    return found

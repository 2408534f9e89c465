r"""A GPT in the layout of Hugging Face's GPT-2, out and in: config, weights and tokenizer.

Theirs and ours compute the same. What differs is how it is written down:

- their linear layers hold the transposed matrix, and one matrix for queries, keys and values;
- their vocabulary begins with the bytes, ours with four marks; a line's end is a token of the text
  for them ("\n") and our end mark, so the end mark takes that token's place. What they have no
  token for (padding, the unknown) is never predicted: `GPTConfig.absent`.

The tokenizer goes out as the tokenizer.json of their library, in which "\n" is our end mark.
Nothing here loads `transformers`.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine
from torch import Tensor

from saccade.data.tokenizers import BPETokenizer, CharacterTokenizer, Tokenizer
from saccade.data.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK
from saccade.errors import ConfigError, DataError, bullet_list
from saccade.models.gpt import GPTConfig

END_OF_TEXT = "<|endoftext|>"  # between their texts; ours are parted by nothing but lines
GPT2_NORM_EPSILON = 1e-5
GPT2_ACTIVATIONS = {  # what they call those that they have
    "gelu": "gelu_new",
    "gelu_exact": "gelu",
    "gelu_sigmoid": "quick_gelu",
    "leaky_relu": "leaky_relu",
    "linear": "linear",
    "relu": "relu",
    "sigmoid": "sigmoid",
    "silu": "silu",
    "tanh": "tanh",
}
ACTIVATION_FROM_GPT2 = {name: own for own, name in GPT2_ACTIVATIONS.items()} | {
    "gelu_pytorch_tanh": "gelu"
}
NEWLINE_TOKEN = "Ċ"  # "\n" in the letters of GPT-2
GPT2_WEIGHT_PREFIX = "transformer."
GPT2_SPECIAL_TOKENS = {
    "pad_token": SPECIAL_TOKENS[0],
    "bos_token": SPECIAL_TOKENS[EOS],
    "eos_token": SPECIAL_TOKENS[EOS],
    "unk_token": SPECIAL_TOKENS[UNK],
}


# --- out ------------------------------------------------------------------------------------------


def export_gpt2(
    folder: Path, model: Any, tokenizer: Tokenizer, weights: Mapping[str, Tensor]
) -> None:
    """Write a GPT into a folder that `AutoModelForCausalLM.from_pretrained` opens."""
    if complaints := unsupported_by_gpt2(model, tokenizer):
        raise ConfigError(bullet_list(complaints, "this run cannot go out in GPT-2's layout:"))
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose a new folder (--out).")
    begun = folder.with_name(f".{folder.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir(parents=True)
    written = to_gpt2_weights(model, weights)
    if model.missing_tokens:  # it once came in, and goes out with the vocabulary that it came with
        assert isinstance(tokenizer, BPETokenizer)
        tokens = _as_it_came(model, tokenizer)
        written[f"{GPT2_WEIGHT_PREFIX}wte.weight"] = written[f"{GPT2_WEIGHT_PREFIX}wte.weight"][
            list(tokens.values())
        ]
        numbers = {token: place for place, token in enumerate(tokens)}
        engine, marks = _engine_as_it_came(tokenizer, numbers), {"eos_token": END_OF_TEXT}
    else:
        numbers = {mark: id for id, mark in enumerate(SPECIAL_TOKENS)}
        engine, marks = _engine(tokenizer), dict(GPT2_SPECIAL_TOKENS)
    ids = {f"{name}_id": numbers[mark] for name, mark in marks.items() if mark in numbers}
    size = len(written[f"{GPT2_WEIGHT_PREFIX}wte.weight"])
    _write(begun / "config.json", {**_config_of(model), "vocab_size": size, **ids})
    save_file(written, begun / "model.safetensors", metadata={"format": "pt"})
    (begun / "tokenizer.json").write_text(engine.to_str(), encoding="utf-8")
    reader = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.context_length,
    }
    _write(begun / "tokenizer_config.json", {**marks, **reader})
    if folder.exists():
        folder.rmdir()
    begun.rename(folder)


def unsupported_by_gpt2(model: Any, tokenizer: Tokenizer) -> list[str]:
    """What of a run GPT-2's layout cannot express, each by its name."""
    if not isinstance(model, GPTConfig):
        return [f"it is a {model.name}; gpt2 alone can."]
    complaints = []
    if model.name != "gpt2":
        what = "norms after the sublayers" if model.name == "gpt1" else "layers that see a band"
        complaints.append(f"it is a {model.name}, with {what}; gpt2 alone can.")
    if model.positions != "learned":
        complaints.append(f"model.positions is {model.positions}; GPT-2 has learned ones.")
    if model.activation not in GPT2_ACTIVATIONS:
        complaints.append(
            f"model.activation is {model.activation}; they have {', '.join(GPT2_ACTIVATIONS)}."
        )
    if not isinstance(tokenizer, BPETokenizer | CharacterTokenizer):
        complaints.append(
            f"its tokens are of the kind {tokenizer.kind}, by rules that their tokenizers do not "
            "have; bytepair and character go."
        )
    return complaints


def _config_of(model: GPTConfig) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "n_positions": model.context_length,
        "n_embd": model.width,
        "n_layer": model.depth,
        "n_head": model.heads,
        "n_inner": model.hidden or 4 * model.width,
        "activation_function": GPT2_ACTIVATIONS[model.activation],
        "layer_norm_epsilon": GPT2_NORM_EPSILON,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": True,
    }


def to_gpt2_weights(model: GPTConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Our weights by their names, as their matrices lie."""
    own = {name: tensor.float().cpu() for name, tensor in weights.items()}
    found = {
        "wte.weight": own["table.weight"],
        "wpe.weight": own["positions.table"],
        "ln_f.weight": own["norm.weight"],
        "ln_f.bias": own["norm.bias"],
    }
    for layer in range(model.depth):
        ours = f"blocks.{layer}"
        attention = f"{ours}.self_attention"
        parts = {
            "ln_1": f"{ours}.around_attention.norm",
            "ln_2": f"{ours}.around_feed_forward.norm",
            "attn.c_proj": f"{attention}.out",
            "mlp.c_fc": f"{ours}.feed_forward.inner",
            "mlp.c_proj": f"{ours}.feed_forward.outer",
        }
        for name, place in parts.items():
            found[f"h.{layer}.{name}.weight"] = own[f"{place}.weight"].t()
            found[f"h.{layer}.{name}.bias"] = own[f"{place}.bias"]
        for what in ("weight", "bias"):
            both = [own[f"{attention}.query.{what}"], own[f"{attention}.key_value.{what}"]]
            found[f"h.{layer}.attn.c_attn.{what}"] = torch.cat(both).t()
    # a vector has no transpose, and safetensors wants each in one piece of memory
    return {GPT2_WEIGHT_PREFIX + name: tensor.contiguous() for name, tensor in found.items()}


def _as_it_came(model: GPTConfig, tokenizer: BPETokenizer) -> dict[str, int]:
    """The tokens of a GPT-2 that came in, and where we have each."""
    tokens = {**tokenizer.get_vocab(), NEWLINE_TOKEN: EOS}
    if BOS not in model.missing_tokens:
        tokens[END_OF_TEXT] = BOS
    return tokens


def _engine_as_it_came(tokenizer: BPETokenizer, numbers: dict[str, int]) -> Engine:
    engine = Engine(models.BPE(vocab=numbers, merges=list(tokenizer.merges)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens([END_OF_TEXT])
    return engine


def _engine(tokenizer: Tokenizer) -> Engine:
    r"""Our tokenizer as one of their library: "\n" is the end mark."""
    marks = {mark: id for id, mark in enumerate(SPECIAL_TOKENS)}
    if isinstance(tokenizer, BPETokenizer):
        engine = Engine(
            models.BPE(vocab=marks | tokenizer.get_vocab(), merges=list(tokenizer.merges))
        )
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.decoder = decoders.ByteLevel()
    else:
        assert isinstance(tokenizer, CharacterTokenizer)
        known = {token: tokenizer.vocabulary.id_of(token) for token in tokenizer.vocabulary.tokens}
        engine = Engine(models.WordLevel(marks | known, unk_token=SPECIAL_TOKENS[UNK]))
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        engine.decoder = decoders.Fuse()
    line_end = normalizers.Replace("\n", SPECIAL_TOKENS[EOS])
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), line_end])
    engine.add_special_tokens(
        [
            AddedToken(mark, normalized=mark == SPECIAL_TOKENS[EOS], special=True)
            for mark in SPECIAL_TOKENS
        ]
    )
    return engine


# --- in -------------------------------------------------------------------------------------------


class ImportedGPT2(NamedTuple):
    """A GPT that came in: its settings, vocabulary and weights."""

    model: GPTConfig
    vocabulary: BPETokenizer | CharacterTokenizer
    weights: dict[str, Tensor]

    @property
    def recipe(self) -> dict[str, Any]:
        """As plain values."""
        return {
            "task": "language",
            "data": {
                "tokenizer": {"kind": self.vocabulary.kind},
                "segment_length": self.model.context_length,
            },
            "model": self.model.model_dump(),
        }


def import_gpt2(folder: Path) -> ImportedGPT2:
    """A GPT-2 from the folder that `save_pretrained` wrote, tokenizer and all."""
    config = _read(folder / "config.json")
    if complaints := _strange(config):
        raise DataError(bullet_list(complaints, f"{folder} is not a GPT-2 that can be taken in:"))
    tokenizer, rows, missing_tokens = _tokenizer(folder)
    model = GPTConfig(
        name="gpt2",
        vocab_size=tokenizer.vocab_size,
        width=config["n_embd"],
        depth=config["n_layer"],
        heads=config["n_head"],
        hidden=config.get("n_inner") or 4 * config["n_embd"],
        dropout=config.get("resid_pdrop", 0.1),
        activation=ACTIVATION_FROM_GPT2[config.get("activation_function", "gelu_new")],
        context_length=config["n_positions"],
        missing_tokens=missing_tokens,
    )
    return ImportedGPT2(model, tokenizer, _ours(model, _weights(folder), rows, folder))


def _strange(config: dict[str, Any]) -> list[str]:
    wanted: dict[str, tuple[Any, ...]] = {
        "model_type": ("gpt2",),
        "activation_function": ("gelu_new", *ACTIVATION_FROM_GPT2),
        "layer_norm_epsilon": (GPT2_NORM_EPSILON,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
    }
    complaints = [
        f"{name} is {config[name]!r}; {values[0]!r} was wanted."
        for name, values in wanted.items()
        if name in config and config[name] not in values
    ]
    for name in ("n_embd", "n_layer", "n_head", "n_positions", "model_type"):
        if name not in config:
            complaints.append(f"its config.json says nothing of {name}.")
    return complaints


def _tokenizer(
    folder: Path,
) -> tuple[BPETokenizer | CharacterTokenizer, list[int | None], list[int]]:
    """Ours for theirs; then as `_rows` says. By letters it can only be one that we wrote."""
    path = folder / "tokenizer.json"
    model = (_read(path) if path.exists() else {}).get("model") or {}
    if model.get("type") == "WordLevel":
        known = sorted(model["vocab"], key=model["vocab"].__getitem__)
        marks, letters = known[: len(SPECIAL_TOKENS)], known[len(SPECIAL_TOKENS) :]
        if marks != list(SPECIAL_TOKENS) or any(len(letter) != 1 for letter in letters):
            raise DataError(
                f"{path} is a tokenizer by whole words, which is not GPT-2's; one by byte pairs, "
                "or one by letters that `saccade export` wrote, was wanted."
            )
        tokenizer = CharacterTokenizer(letters)
        return tokenizer, list(range(tokenizer.vocab_size)), []
    theirs, merges = _vocabulary(folder)
    pairs = BPETokenizer(merges)
    return pairs, *_rows(theirs, pairs, folder)


def _vocabulary(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Their tokens with their numbers, and the merges: of tokenizer.json, or of the older two."""
    if (folder / "tokenizer.json").exists():
        values = _read(folder / "tokenizer.json")
        try:
            model = values["model"]
            if model["type"] != "BPE":
                raise KeyError(f"its model is {model['type']}")
            added = {token["content"]: token["id"] for token in values.get("added_tokens") or []}
            return model["vocab"] | added, [_merge(merge) for merge in model["merges"]]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{folder / 'tokenizer.json'} is no byte-pair tokenizer as GPT-2 has ({error})."
            ) from None
    vocabulary = _read(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    return vocabulary, [_merge(line) for line in lines if line and not line.startswith("#version")]


def _merge(merge: Any) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _rows(
    theirs: dict[str, int], tokenizer: BPETokenizer, folder: Path
) -> tuple[list[int | None], list[int]]:
    """Which of their rows each of our tokens takes, and those of ours that are never predicted."""
    ours = tokenizer.get_vocab()
    missing = [token for token in ours if token not in theirs]
    if missing or NEWLINE_TOKEN not in theirs:
        raise DataError(
            f"{folder}: its tokenizer has no token {(missing or [NEWLINE_TOKEN])[0]!r}; "
            "the byte pairs of GPT-2 were wanted."
        )
    if [theirs.get(mark) for mark in SPECIAL_TOKENS] == list(
        range(len(SPECIAL_TOKENS))
    ):  # we wrote it
        return list(range(tokenizer.vocab_size)), []
    rows: list[int | None] = [None] * tokenizer.vocab_size
    for token, id in ours.items():
        rows[id] = theirs[token]
    rows[EOS], rows[ours[NEWLINE_TOKEN]] = theirs[NEWLINE_TOKEN], None
    if END_OF_TEXT in theirs:
        rows[BOS] = theirs[END_OF_TEXT]
    return rows, [id for id, row in enumerate(rows) if row is None]


def _weights(folder: Path) -> dict[str, Tensor]:
    path = folder / "model.safetensors"
    try:
        found = load_file(path)
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing; GPT-2's weights as safetensors were wanted "
            "(save_pretrained writes them)."
        ) from None
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None
    return {name.removeprefix(GPT2_WEIGHT_PREFIX): tensor.float() for name, tensor in found.items()}


def _ours(
    model: GPTConfig, theirs: dict[str, Tensor], rows: list[int | None], folder: Path
) -> dict[str, Tensor]:
    try:
        table = theirs["wte.weight"]
        known = torch.tensor([0 if row is None else row for row in rows])
        own = table[known]
        own[torch.tensor(model.missing_tokens, dtype=torch.long)] = 0.0
        found = {
            "table.weight": own,
            "positions.table": theirs["wpe.weight"],
            "norm.weight": theirs["ln_f.weight"],
            "norm.bias": theirs["ln_f.bias"],
        }
        for layer in range(model.depth):
            found |= _block(f"blocks.{layer}", f"h.{layer}", theirs)
    except (KeyError, IndexError) as error:
        raise DataError(
            f"{folder / 'model.safetensors'} does not fit its config.json: {error}."
        ) from None
    return {name: tensor.contiguous() for name, tensor in found.items()}


def _block(ours: str, theirs: str, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    found = {}
    for what in ("weight", "bias"):
        width = weights[f"{theirs}.attn.c_proj.bias"].shape[0]
        whole = weights[f"{theirs}.attn.c_attn.{what}"].t()
        found[f"{ours}.self_attention.query.{what}"] = whole[:width]
        found[f"{ours}.self_attention.key_value.{what}"] = whole[width:]
        for name, place in (
            ("self_attention.out", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
            ("around_attention.norm", "ln_1"),
            ("around_feed_forward.norm", "ln_2"),
        ):
            found[f"{ours}.{name}.{what}"] = weights[f"{theirs}.{place}.{what}"].t()
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError(f"{path} is missing. Is {path.parent} a folder of GPT-2?") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None


def _write(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

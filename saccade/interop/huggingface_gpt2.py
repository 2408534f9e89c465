r"""GPT-2 in Hugging Face's layout, export and import: config, weights and tokenizer.

Both sides compute the same. What differs is the storage:

- their linear layers hold the transposed matrix, and one matrix for queries, keys and values;
- their vocabulary starts with the bytes, ours with four special tokens; a line's end is a token of
  the text for them ("\n") and eos for us, so eos takes the row of that token. Tokens that they do
  not have (padding, unknown) are never predicted: `GPTConfig.missing_tokens`.

The tokenizer is written as the tokenizer.json of their library, in which "\n" is our eos.
`transformers` is not imported.
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

from saccade.config import Config, build_config
from saccade.data.special_tokens import BOS, EOS, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import BPETokenizer, CharacterTokenizer, Tokenizer
from saccade.errors import ConfigError, DataError, bullet_list
from saccade.interop.registry import ModelParts
from saccade.io.documents import parse_json
from saccade.models.config import GPTConfig

END_OF_TEXT = "<|endoftext|>"  # their separator of documents
GPT2_NORM_EPSILON = 1e-5
GPT2_ACTIVATIONS = {  # our name → name of Hugging Face
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
NEWLINE_TOKEN = "Ċ"  # "\n" in GPT-2's byte-to-unicode alphabet
GPT2_WEIGHT_PREFIX = "transformer."
GPT2_SPECIAL_TOKENS = {
    "pad_token": SPECIAL_TOKENS[0],
    "bos_token": SPECIAL_TOKENS[EOS],
    "eos_token": SPECIAL_TOKENS[EOS],
    "unk_token": SPECIAL_TOKENS[UNK],
}


# --- export ---------------------------------------------------------------------------------------


def export_parts_to_huggingface(parts: ModelParts, folder: Path, options: dict[str, Any]) -> None:
    """GPT-2 as Hugging Face's transformers reads it: a gpt2 with bpe or character tokens."""
    build_config(Config, options, "the export")  # it has no options
    export_gpt2(folder, parts.recipe.model, parts.preprocessor, parts.weights)


def export_gpt2(
    folder: Path, model: Config, tokenizer: Tokenizer, weights: Mapping[str, Tensor]
) -> None:
    """Write a GPT into a folder that `AutoModelForCausalLM.from_pretrained` opens."""
    if complaints := unsupported_by_gpt2(model, tokenizer):
        raise ConfigError(bullet_list(complaints, "this run cannot be exported as GPT-2:"))
    assert isinstance(model, GPTConfig)
    if folder.exists() and any(folder.iterdir()):
        raise ConfigError(f"{folder} is not empty; choose a new folder (--out).")
    partial_folder = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial_folder, ignore_errors=True)
    partial_folder.mkdir(parents=True)
    tensors = to_gpt2_weights(model, weights)
    embeddings = f"{GPT2_WEIGHT_PREFIX}wte.weight"
    if model.missing_tokens:  # it was imported, and is exported with its original vocabulary
        assert isinstance(tokenizer, BPETokenizer)
        tokens = _original_tokens(model, tokenizer)
        tensors[embeddings] = tensors[embeddings][list(tokens.values())]
        ids = {token: id for id, token in enumerate(tokens)}
        engine, special_tokens = _original_engine(tokenizer, ids), {"eos_token": END_OF_TEXT}
    else:
        ids = {token: id for id, token in enumerate(SPECIAL_TOKENS)}
        engine, special_tokens = _engine(tokenizer), dict(GPT2_SPECIAL_TOKENS)
    special_ids = {f"{name}_id": ids[t] for name, t in special_tokens.items() if t in ids}
    size = len(tensors[embeddings])
    config = {**_config_of(model), "vocab_size": size, **special_ids}
    _write_json(partial_folder / "config.json", config)
    save_file(tensors, partial_folder / "model.safetensors", metadata={"format": "pt"})
    (partial_folder / "tokenizer.json").write_text(engine.to_str(), encoding="utf-8")
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": model.context_length,
    }
    _write_json(partial_folder / "tokenizer_config.json", {**special_tokens, **tokenizer_config})
    if folder.exists():
        folder.rmdir()
    partial_folder.rename(folder)


def unsupported_by_gpt2(model: Config, tokenizer: Tokenizer) -> list[str]:
    """Return the properties of a run that GPT-2's layout cannot express, as messages."""
    if not isinstance(model, GPTConfig):
        name = getattr(model, "name", type(model).__name__)
        return [f"got the model {name}; only gpt2 can be exported."]
    complaints = []
    if model.name != "gpt2":
        what = "post-norm layers" if model.name == "gpt1" else "banded attention layers"
        complaints.append(f"got the model {model.name}, with {what}; only gpt2 can be exported.")
    if model.positions != "learned":
        complaints.append(f"model.positions is {model.positions}; GPT-2 has learned ones.")
    if model.activation not in GPT2_ACTIVATIONS:
        complaints.append(
            f"model.activation is {model.activation}; GPT-2 has {', '.join(GPT2_ACTIVATIONS)}."
        )
    if not isinstance(tokenizer, BPETokenizer | CharacterTokenizer):
        complaints.append(
            f"the tokenizer is {tokenizer.kind}, which their library does not have; bpe and "
            "character can be exported."
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
    """Return the weights under their names and in their memory layout."""
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
        for name, own_name in parts.items():
            found[f"h.{layer}.{name}.weight"] = own[f"{own_name}.weight"].t()
            found[f"h.{layer}.{name}.bias"] = own[f"{own_name}.bias"]
        for what in ("weight", "bias"):
            joined = [own[f"{attention}.query.{what}"], own[f"{attention}.key_value.{what}"]]
            found[f"h.{layer}.attn.c_attn.{what}"] = torch.cat(joined).t()
    # t() leaves a vector unchanged; safetensors needs contiguous tensors
    return {GPT2_WEIGHT_PREFIX + name: tensor.contiguous() for name, tensor in found.items()}


def _original_tokens(model: GPTConfig, tokenizer: BPETokenizer) -> dict[str, int]:
    """Return the tokens of an imported GPT-2 in their order, with our ids."""
    tokens = {**tokenizer.get_vocab(), NEWLINE_TOKEN: EOS}
    if BOS not in model.missing_tokens:
        tokens[END_OF_TEXT] = BOS
    return tokens


def _original_engine(tokenizer: BPETokenizer, ids: dict[str, int]) -> Engine:
    engine = Engine(models.BPE(vocab=ids, merges=list(tokenizer.merges)))
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    engine.decoder = decoders.ByteLevel()
    engine.add_special_tokens([END_OF_TEXT])
    return engine


def _engine(tokenizer: Tokenizer) -> Engine:
    r"""Return our tokenizer as one of their library, with "\n" as eos."""
    special_ids = {token: id for id, token in enumerate(SPECIAL_TOKENS)}
    if isinstance(tokenizer, BPETokenizer):
        engine = Engine(
            models.BPE(vocab=special_ids | tokenizer.get_vocab(), merges=list(tokenizer.merges))
        )
        engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        engine.decoder = decoders.ByteLevel()
    else:
        assert isinstance(tokenizer, CharacterTokenizer)
        known = {token: tokenizer.vocabulary.id_of(token) for token in tokenizer.vocabulary.tokens}
        engine = Engine(models.WordLevel(special_ids | known, unk_token=SPECIAL_TOKENS[UNK]))
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
        engine.decoder = decoders.Fuse()
    line_end = normalizers.Replace("\n", SPECIAL_TOKENS[EOS])
    engine.normalizer = normalizers.Sequence([normalizers.NFC(), line_end])
    engine.add_special_tokens(
        [
            AddedToken(token, normalized=token == SPECIAL_TOKENS[EOS], special=True)
            for token in SPECIAL_TOKENS
        ]
    )
    return engine


# --- import ---------------------------------------------------------------------------------------


class ImportedGPT2(NamedTuple):
    """An imported GPT: settings, vocabulary and weights."""

    model: GPTConfig
    vocabulary: BPETokenizer | CharacterTokenizer
    weights: dict[str, Tensor]

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings of the run, as plain values."""
        return {
            "task": "language",
            "data": {
                "tokenizer": {"kind": self.vocabulary.kind},
                "segment_length": self.model.context_length,
            },
            "model": self.model.model_dump(),
        }


def import_gpt2(folder: Path) -> ImportedGPT2:
    """GPT-2 as `save_pretrained` writes it, with its tokenizer."""
    config = _read_json(folder / "config.json")
    if complaints := _unsupported_config(config):
        raise DataError(bullet_list(complaints, f"{folder} is not a GPT-2 that can be imported:"))
    tokenizer, rows, missing_tokens = _read_tokenizer(folder)
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
    return ImportedGPT2(model, tokenizer, _own_weights(model, _read_weights(folder), rows, folder))


def _unsupported_config(config: dict[str, Any]) -> list[str]:
    expected: dict[str, tuple[Any, ...]] = {
        "model_type": ("gpt2",),
        "activation_function": ("gelu_new", *ACTIVATION_FROM_GPT2),
        "layer_norm_epsilon": (GPT2_NORM_EPSILON,),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
    }
    complaints = [
        f"got {name} {config[name]!r}; expected {values[0]!r}."
        for name, values in expected.items()
        if name in config and config[name] not in values
    ]
    for name in ("n_embd", "n_layer", "n_head", "n_positions", "model_type"):
        if name not in config:
            complaints.append(f"{name} is missing in its config.json.")
    return complaints


def _read_tokenizer(
    folder: Path,
) -> tuple[BPETokenizer | CharacterTokenizer, list[int | None], list[int]]:
    """Return our form of the tokenizer, and the rows and missing tokens of `_match_rows`.

    A character tokenizer can only be one that we exported.
    """
    path = folder / "tokenizer.json"
    model = (_read_json(path) if path.exists() else {}).get("model") or {}
    if model.get("type") == "WordLevel":
        known = sorted(model["vocab"], key=model["vocab"].__getitem__)
        specials, characters = known[: len(SPECIAL_TOKENS)], known[len(SPECIAL_TOKENS) :]
        if specials != list(SPECIAL_TOKENS) or any(len(token) != 1 for token in characters):
            raise DataError(
                f"{path}: got a word-level tokenizer; expected GPT-2's byte pairs, or characters "
                "as `saccade export` writes them."
            )
        tokenizer = CharacterTokenizer(characters)
        return tokenizer, list(range(tokenizer.vocab_size)), []
    vocabulary, merges = _read_vocabulary(folder)
    pairs = BPETokenizer(merges)
    return pairs, *_match_rows(vocabulary, pairs, folder)


def _read_vocabulary(folder: Path) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return token ids and merges, from tokenizer.json or from vocab.json and merges.txt."""
    if (folder / "tokenizer.json").exists():
        values = _read_json(folder / "tokenizer.json")
        try:
            model = values["model"]
            if model["type"] != "BPE":
                raise KeyError(f"its model is {model['type']}")
            added = {token["content"]: token["id"] for token in values.get("added_tokens") or []}
            return model["vocab"] | added, [_parse_merge(merge) for merge in model["merges"]]
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{folder / 'tokenizer.json'} is not a byte-pair tokenizer like GPT-2's ({error})."
            ) from None
    vocabulary = _read_json(folder / "vocab.json")
    lines = (folder / "merges.txt").read_text(encoding="utf-8").split("\n")
    return vocabulary, [
        _parse_merge(line) for line in lines if line and not line.startswith("#version")
    ]


def _parse_merge(merge: str | list[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def _match_rows(
    vocabulary: dict[str, int], tokenizer: BPETokenizer, folder: Path
) -> tuple[list[int | None], list[int]]:
    """Return their row for each of our tokens, and our tokens that have none."""
    own = tokenizer.get_vocab()
    missing = [token for token in own if token not in vocabulary]
    if missing or NEWLINE_TOKEN not in vocabulary:
        raise DataError(
            f"{folder}: its tokenizer has no token {(missing or [NEWLINE_TOKEN])[0]!r}; "
            "expected the byte pairs of GPT-2."
        )
    special_ids = [vocabulary.get(token) for token in SPECIAL_TOKENS]
    if special_ids == list(range(len(SPECIAL_TOKENS))):  # exported by us
        return list(range(tokenizer.vocab_size)), []
    rows: list[int | None] = [None] * tokenizer.vocab_size
    for token, id in own.items():
        rows[id] = vocabulary[token]
    rows[EOS], rows[own[NEWLINE_TOKEN]] = vocabulary[NEWLINE_TOKEN], None
    if END_OF_TEXT in vocabulary:
        rows[BOS] = vocabulary[END_OF_TEXT]
    return rows, [id for id, row in enumerate(rows) if row is None]


def _read_weights(folder: Path) -> dict[str, Tensor]:
    path = folder / "model.safetensors"
    try:
        found = load_file(path)
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing; expected GPT-2's weights as safetensors (save_pretrained writes "
            "them)."
        ) from None
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None
    return {name.removeprefix(GPT2_WEIGHT_PREFIX): tensor.float() for name, tensor in found.items()}


def _own_weights(
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
        for name, their_name in (
            ("self_attention.out", "attn.c_proj"),
            ("feed_forward.inner", "mlp.c_fc"),
            ("feed_forward.outer", "mlp.c_proj"),
            ("around_attention.norm", "ln_1"),
            ("around_feed_forward.norm", "ln_2"),
        ):
            found[f"{ours}.{name}.{what}"] = weights[f"{theirs}.{their_name}.{what}"].t()
    return found


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(parse_json(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        raise DataError(f"{path} is missing. Is {path.parent} the folder of a GPT-2?") from None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

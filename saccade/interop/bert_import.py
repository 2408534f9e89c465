r"""Import of a BERT that Hugging Face's `save_pretrained` or sentence-transformers wrote.

The folder may come from anywhere. Sizes are compared with their ranges and with the shapes in the
header of the weights before anything is allocated. Of the tokenizer only tokens and settings are
read: tokenizer.json if there is one, else vocab.txt.

Our first five ids are [PAD], [CLS], [SEP], [UNK] and [MASK], so the rows of the embeddings are
moved; texts give the same outputs. The heads of pretraining are imported where the file has them,
that of a task (a classifier) is not.
"""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.config import short_repr
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    CONTINUATION,
    MAX_WORD_CHARS,
    WordPieceTokenizer,
)
from saccade.errors import DataError, bullet_list
from saccade.interop.bert_weights import (
    BERT_ACTIVATIONS,
    MASKED_HEAD_NAMES,
    NEXT_SENTENCE_NAMES,
    bert_tensor_names,
    from_huggingface_weights,
)
from saccade.interop.huggingface_folder import (
    FROM_TRANSFORMERS,
    SAVE_ADVICE,
    added_tokens,
    check_vocabulary,
    check_weights_exist,
    read_document,
    read_json_object,
)
from saccade.interop.weight_files import (
    MAX_DIFFERENCES,
    read_float_tensors,
    read_weights_header,
    wrong_tensor,
)
from saccade.io.memory import WEIGHT_BYTES, check_memory
from saccade.io.tensor_header import TensorInfo
from saccade.models.bert_config import BertConfig
from saccade.types.limits import MAX_DEPTH, MAX_LENGTH, MAX_VOCABULARY, MAX_WIDTH

_BERT = "BERT"
_ACTIVATIONS = {theirs: own for own, theirs in BERT_ACTIVATIONS.items()} | {
    "gelu_pytorch_tanh": "gelu",
    "swish": "silu",
}
_SIZES = {  # their name → ours, largest value
    "hidden_size": ("width", MAX_WIDTH),
    "num_hidden_layers": ("depth", MAX_DEPTH),
    "num_attention_heads": ("heads", MAX_WIDTH),
    "intermediate_size": ("hidden", MAX_WIDTH),
    "max_position_embeddings": ("max_length", MAX_LENGTH),
    "type_vocab_size": ("segments", MAX_WIDTH),
    "vocab_size": ("vocab_size", MAX_VOCABULARY),
}
_VALUES: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}
_TOKENIZER_VALUES: dict[str, tuple[Any, ...]] = {  # that the model of tokenizer.json may have
    "type": ("WordPiece",),
    "unk_token": ("[UNK]",),
    "continuing_subword_prefix": (CONTINUATION,),
    "max_input_chars_per_word": (MAX_WORD_CHARS,),
}
_PREFIXES = ("bert.", "")
_OLD_NAMES = ((".gamma", ".weight"), (".beta", ".bias"))  # of layer norms in old files
MAX_SPARE_ROWS = 128  # of the embeddings, which some pad to a multiple of 64 or 128


class ImportedBert(NamedTuple):
    """An imported BERT: settings, tokenizer and weights."""

    model: BertConfig
    vocabulary: WordPieceTokenizer
    weights: dict[str, Tensor]

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings of the run, as plain values."""
        data = {
            "sequence_length": min(128, self.model.max_length),
            "pairs": self.model.pretraining_heads and self.model.pooler,
            "tokenizer": {"lowercase": self.vocabulary.lowercase},
        }
        return {"task": "bert", "data": data, "model": self.model.model_dump()}


class _Tokens(NamedTuple):
    """A tokenizer, and the row of the embeddings for each of its ids."""

    tokenizer: WordPieceTokenizer
    rows: list[int]


def import_bert(folder: Path) -> ImportedBert:
    """BERT as `save_pretrained` or sentence-transformers writes it, with its tokenizer."""
    if not folder.is_dir():
        raise DataError(
            f"{folder}: got a file; expected the folder of a BERT, with config.json, "
            f"model.safetensors and a tokenizer; {FROM_TRANSFORMERS}"
        )
    config = _read_config(folder / "config.json")
    tokens = _read_tokenizer(folder)
    path = folder / "model.safetensors"
    check_weights_exist(path, _BERT)
    stored = _modern_names(read_weights_header(path, SAVE_ADVICE))
    prefix = next(p for p in _PREFIXES if p == "" or any(name.startswith(p) for name in stored))
    model = _settings(folder, config, prefix, stored)
    names = _check_header(path, model, config, tokens, prefix, stored)
    theirs = read_float_tensors(path, names)
    model = model.with_values(vocab_size=tokens.tokenizer.vocab_size)
    return ImportedBert(model, tokens.tokenizer, _own_weights(model, theirs, prefix, tokens.rows))


# --- config.json ----------------------------------------------------------------------------------


def _read_config(path: Path) -> dict[str, Any]:
    """Return config.json; DataError with all values that are wrong or not supported."""
    config = read_json_object(path, _BERT)
    expected = _VALUES | {"hidden_act": tuple(_ACTIVATIONS)}
    complaints = [
        f"got {name} {short_repr(config[name])}; expected {' or '.join(map(repr, values))}."
        for name, values in expected.items()
        if name in config and config[name] not in values
    ]
    if "model_type" not in config:
        complaints.append("got no model_type; expected 'bert'.")
    for name, (_, largest) in _SIZES.items():
        value = config.get(name)
        if type(value) is not int or not 1 <= value <= largest:
            got = f"{name} {short_repr(value)}" if name in config else f"no {name}"
            complaints.append(f"got {got}; expected an integer from 1 to {largest:,}.")
    if not complaints and config["hidden_size"] % config["num_attention_heads"]:
        complaints.append(
            f"got num_attention_heads {config['num_attention_heads']} and hidden_size "
            f"{config['hidden_size']}; expected a number of heads that divides the width."
        )
    for name, default in (("hidden_dropout_prob", 0.1), ("layer_norm_eps", 1e-12)):
        value = config.get(name, default)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not 0 <= value < 1:
            complaints.append(f"got {name} {short_repr(value)}; expected a number from 0 to 1.")
    if complaints:
        heading = "these values cannot be imported:"
        raise DataError(f"{path}: {bullet_list(complaints, heading)}\n{FROM_TRANSFORMERS}")
    return config


def _settings(
    folder: Path, config: dict[str, Any], prefix: str, stored: Mapping[str, Any]
) -> BertConfig:
    """Return the settings of our model, with the parts that the weights have."""
    has_pooler = f"{prefix}pooler.dense.weight" in stored
    has_masked = "cls.predictions.bias" in stored
    has_pairs = has_pooler and "cls.seq_relationship.weight" in stored
    return BertConfig(
        **{own: config[name] for name, (own, _) in _SIZES.items()},
        dropout=config.get("hidden_dropout_prob", 0.1),
        activation=_ACTIVATIONS[config.get("hidden_act", "gelu")],
        norm_eps=config.get("layer_norm_eps", 1e-12) or 1e-12,
        # a pooler is trained by pairs alone, so without their head it goes with that of words
        pooler=has_pairs if has_masked else has_pooler,
        pretraining_heads=has_masked,
        pooling=_read_pooling(folder),
    )


def _read_pooling(folder: Path) -> str:
    """Return how sentence-transformers pools, "cls" for other folders."""
    if not (folder / "modules.json").exists():
        return "cls"
    path = folder / "1_Pooling" / "config.json"
    values = read_json_object(path, "model of sentence-transformers")
    modes = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    used = [name for name, value in values.items() if name.startswith("pooling_mode_") and value]
    if len(used) != 1 or used[0] not in modes:
        raise DataError(
            f"{path}: got {', '.join(used) or 'no pooling'}; expected one of {', '.join(modes)}; "
            "try the folder without modules.json, which is imported as an encoder alone."
        )
    return modes[used[0]]


# --- tokenizer ------------------------------------------------------------------------------------


def _read_tokenizer(folder: Path) -> _Tokens:
    path = folder / "tokenizer.json"
    if not path.exists():
        return _read_vocabulary_lines(folder)

    def refuse(reason: str) -> DataError:
        return DataError(
            f"{path} is not a WordPiece tokenizer like BERT's ({reason}); {FROM_TRANSFORMERS}"
        )

    values = read_json_object(path, _BERT)
    model, normaliser = values.get("model"), values.get("normalizer")
    if not isinstance(model, dict):
        raise refuse(f"its model is {short_repr(model)}")
    for name, allowed in _TOKENIZER_VALUES.items():
        # files of old versions do not name the type
        if model.get(name, allowed[0] if name == "type" else None) not in allowed:
            raise refuse(f"its {name} is {short_repr(model.get(name))}")
    if not isinstance(normaliser, dict) or normaliser.get("type") != "BertNormalizer":
        raise refuse(f"its normalizer is {short_repr(normaliser)}")
    if values.get("pre_tokenizer") != {"type": "BertPreTokenizer"}:
        raise refuse(f"its pre-tokenizer is {short_repr(values.get('pre_tokenizer'))}")
    settings = {
        "lowercase": normaliser.get("lowercase", True),
        "strip_accents": normaliser.get("strip_accents"),
        "split_chinese": normaliser.get("handle_chinese_chars", True),
    }
    if normaliser.get("clean_text", True) is not True:
        raise refuse("its normalizer keeps control characters")
    for name, value in settings.items():
        if value not in (True, False) and not (name == "strip_accents" and value is None):
            raise refuse(f"{name} of its normalizer is {short_repr(value)}")
    vocabulary = check_vocabulary(model.get("vocab"), refuse) | added_tokens(values, refuse)
    return _make_tokenizer(path, vocabulary, settings)


def _read_vocabulary_lines(folder: Path) -> _Tokens:
    """Return the tokenizer of a vocab.txt, with one token per line."""
    path = folder / "vocab.txt"
    lines = [line.removesuffix("\r") for line in read_document(path, _BERT).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    vocabulary = {token: id for id, token in enumerate(lines)}
    if len(vocabulary) < len(lines):
        repeated = next(token for id, token in enumerate(lines) if vocabulary[token] != id)
        raise DataError(
            f"{path}: got the token {short_repr(repeated)} twice; expected distinct tokens."
        )
    settings_path = folder / "tokenizer_config.json"
    given = read_json_object(settings_path, _BERT) if settings_path.exists() else {}
    settings = {
        "lowercase": given.get("do_lower_case", True),
        "strip_accents": given.get("strip_accents"),
        "split_chinese": given.get("tokenize_chinese_chars", True),
    }
    for name, value in settings.items():
        if value not in (True, False) and not (name == "strip_accents" and value is None):
            raise DataError(
                f"{settings_path}: got {short_repr(value)} for {name}; expected a bool."
            )
    return _make_tokenizer(path, vocabulary, settings)


def _make_tokenizer(path: Path, vocabulary: dict[str, int], settings: dict[str, Any]) -> _Tokens:
    """Return the tokenizer with the special tokens first, and the rows of its tokens."""
    missing = [token for token in BERT_SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise DataError(
            f"{path}: got no token {', '.join(missing)}; expected BERT's special tokens "
            f"{', '.join(BERT_SPECIAL_TOKENS)}; {FROM_TRANSFORMERS}"
        )
    if len({*vocabulary.values()}) < len(vocabulary):
        raise DataError(f"{path}: got two tokens with one id; expected an id for each token.")
    others = sorted(vocabulary.keys() - {*BERT_SPECIAL_TOKENS}, key=vocabulary.__getitem__)
    try:
        tokenizer = WordPieceTokenizer(others, **settings)
    except (ValueError, UnicodeError) as error:
        raise DataError(f"{path}: {error}") from None
    return _Tokens(tokenizer, [vocabulary[token] for token in tokenizer.tokens])


# --- weights --------------------------------------------------------------------------------------


def _modern_names(stored: Mapping[str, TensorInfo]) -> dict[str, tuple[str, TensorInfo]]:
    """Return the tensors of a file by the names of new files, with their own names."""
    found = {}
    for name, info in stored.items():
        modern = name
        for old, new in _OLD_NAMES:
            if name.endswith(old):
                modern = name.removesuffix(old) + new
        found[modern] = (name, info)
    return found


def _expected_shapes(model: BertConfig, prefix: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield their name and the shape of each tensor of a model."""
    width, hidden = model.width, model.hidden or 4 * model.width
    shapes = {
        "embeddings.word_embeddings.weight": (model.vocab_size, width),
        "embeddings.position_embeddings.weight": (model.max_length, width),
        "embeddings.token_type_embeddings.weight": (model.segments, width),
        "intermediate.dense.weight": (hidden, width),
        "intermediate.dense.bias": (hidden,),
        "attention.output.dense.weight": (width, width),
        "output.dense.weight": (width, hidden),
    }
    for names in bert_tensor_names(model).values():
        for name in names:
            parts = name.split(".", 3)
            key = parts[3] if name.startswith("encoder.layer.") else name
            is_matrix = name.endswith(".weight") and "LayerNorm" not in name
            yield prefix + name, shapes.get(key, (width, width) if is_matrix else (width,))
    if model.pretraining_heads:
        for own, name in MASKED_HEAD_NAMES.items():
            is_table = own == "bias"
            shape = (model.vocab_size,) if is_table else (width,)
            yield name, (width, width) if own == "transform.weight" else shape
        if model.pooler:
            yield NEXT_SENTENCE_NAMES["next_sentence.weight"], (2, width)
            yield NEXT_SENTENCE_NAMES["next_sentence.bias"], (2,)


def _check_header(
    path: Path,
    model: BertConfig,
    config: dict[str, Any],
    tokens: _Tokens,
    prefix: str,
    stored: Mapping[str, tuple[str, TensorInfo]],
) -> dict[str, str]:
    """Compare the header of the weights with config and tokenizer; no weight is read.

    Returns the name in the file for each tensor that is needed.
    """
    wrong: list[str] = []
    names: dict[str, str] = {}
    for name, shape in _expected_shapes(model, prefix):
        own, info = stored.get(name, (name, None))
        if complaint := wrong_tensor(info, shape):
            wrong.append(f"{name}: {complaint}")
        names[name] = own
        if len(wrong) == MAX_DIFFERENCES:
            break
    if wrong:
        listed = bullet_list([f"{complaint}." for complaint in wrong], "")
        raise DataError(f"{path} does not fit its config.json: {listed}\n{FROM_TRANSFORMERS}")
    rows, largest = config["vocab_size"], max(tokens.rows)
    if largest >= rows or rows - largest > MAX_SPARE_ROWS:
        raise DataError(
            f"{path.parent}: its vocabulary does not fit its weights: got tokens with ids up to "
            f"{largest:,} and embeddings of {rows:,} tokens; expected one for each; "
            f"{FROM_TRANSFORMERS}"
        )
    needed = WEIGHT_BYTES * sum(prod(stored[name][1].shape) for name in names)
    check_memory(3 * needed, f"{path}", "a smaller model, or a larger machine")
    return names


def _own_weights(
    model: BertConfig, theirs: dict[str, Tensor], prefix: str, rows: list[int]
) -> dict[str, Tensor]:
    """Return the weights of our model, with the rows of the tokens in our order."""
    order = torch.tensor(rows)
    found = from_huggingface_weights(model, theirs, prefix)
    found["table.weight"] = found["table.weight"][order]
    weights = {f"encoder.{name}": tensor for name, tensor in found.items()}
    if model.pretraining_heads:
        weights |= {own: theirs[name] for own, name in MASKED_HEAD_NAMES.items()}
        weights["bias"] = weights["bias"][order]
        if model.pooler:
            weights |= {own: theirs[name] for own, name in NEXT_SENTENCE_NAMES.items()}
    return {name: tensor.contiguous() for name, tensor in weights.items()}

r"""Import of a BERT or RoBERTa that transformers or sentence-transformers saved.

The folder may come from anywhere. Sizes are compared with their ranges and with the shapes in the
header of the weights before anything is allocated. Of the tokenizer only tokens and settings are
read (`saccade.interop.bert_tokenizers`).

Our first five ids are [PAD], [CLS], [SEP], [UNK] and [MASK], so the rows of the embeddings are
moved; texts give the same outputs. The heads of pretraining are imported where the file has them,
that of a task (a classifier) is not.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from saccade.config import short_repr
from saccade.data.wordpiece import WordPieceTokenizer
from saccade.errors import DataError, bullet_list
from saccade.interop.bert_tokenizers import (
    BertTokens,
    read_bert_tokenizer,
    read_roberta_tokenizer,
)
from saccade.interop.bert_weights import (
    BERT_ACTIVATIONS,
    MASKED_HEAD_NAMES,
    NEXT_SENTENCE_NAMES,
    ROBERTA_HEAD_NAMES,
    bert_tensor_names,
    from_huggingface_weights,
)
from saccade.interop.huggingface_folder import (
    FROM_TRANSFORMERS,
    SAVE_ADVICE,
    check_weights_exist,
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
    "model_type": ("bert", "roberta"),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
}


class _Layout(NamedTuple):
    """Differences between the folders of BERT and RoBERTa."""

    prefix: str  # of the tensors of the encoder, where there are heads
    head_names: dict[str, str]  # of the head for masked tokens, ours → theirs
    first_position: int  # row of the first position, after those of padding
    read_tokenizer: Callable[[Path], BertTokens]


_LAYOUTS = {  # by model_type
    "bert": _Layout("bert.", MASKED_HEAD_NAMES, 0, read_bert_tokenizer),
    "roberta": _Layout("roberta.", ROBERTA_HEAD_NAMES, 2, read_roberta_tokenizer),
}
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


def import_bert(folder: Path) -> ImportedBert:
    """BERT or RoBERTa as transformers or sentence-transformers saves it, with its tokenizer."""
    if not folder.is_dir():
        raise DataError(
            f"{folder}: got a file; expected the folder of a BERT, with config.json, "
            f"model.safetensors and a tokenizer; {FROM_TRANSFORMERS}"
        )
    config = _read_config(folder / "config.json")
    layout = _LAYOUTS[config["model_type"]]
    tokens = layout.read_tokenizer(folder)
    path = folder / "model.safetensors"
    check_weights_exist(path, _BERT)
    stored = _modern_names(read_weights_header(path, SAVE_ADVICE))
    if not any(name.startswith(layout.prefix) for name in stored):
        layout = layout._replace(prefix="")  # an encoder alone
    model = _settings(folder, config, layout, stored)
    names = _check_header(path, model, layout, tokens, stored)
    theirs = read_float_tensors(path, names)
    model = model.with_values(vocab_size=tokens.tokenizer.vocab_size)
    return ImportedBert(model, tokens.tokenizer, _own_weights(model, theirs, layout, tokens.rows))


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
        complaints.append("got no model_type; expected 'bert' or 'roberta'.")
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
    if not complaints and config["model_type"] == "roberta" and config.get("pad_token_id") != 1:
        complaints.append(f"got pad_token_id {config.get('pad_token_id')}; expected 1.")
    if complaints:
        heading = "these values cannot be imported:"
        raise DataError(f"{path}: {bullet_list(complaints, heading)}\n{FROM_TRANSFORMERS}")
    return config


def _settings(
    folder: Path, config: dict[str, Any], layout: _Layout, stored: Mapping[str, Any]
) -> BertConfig:
    """Return the settings of our model, with the parts that the weights have."""
    has_pooler = f"{layout.prefix}pooler.dense.weight" in stored
    has_masked = layout.head_names["bias"] in stored
    has_pairs = has_pooler and "cls.seq_relationship.weight" in stored
    sizes = {own: config[name] for name, (own, _) in _SIZES.items()}
    sizes["max_length"] -= layout.first_position
    return BertConfig(
        **sizes,
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


def _expected_shapes(model: BertConfig, layout: _Layout) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield their name and the shape of each tensor of a model."""
    width, hidden = model.width, model.hidden or 4 * model.width
    shapes = {
        "embeddings.word_embeddings.weight": (model.vocab_size, width),
        "embeddings.position_embeddings.weight": (model.max_length + layout.first_position, width),
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
            yield layout.prefix + name, shapes.get(key, (width, width) if is_matrix else (width,))
    if model.pretraining_heads:
        for own, name in layout.head_names.items():
            is_table = own == "bias"
            shape = (model.vocab_size,) if is_table else (width,)
            yield name, (width, width) if own == "transform.weight" else shape
        if model.pooler:
            yield NEXT_SENTENCE_NAMES["next_sentence.weight"], (2, width)
            yield NEXT_SENTENCE_NAMES["next_sentence.bias"], (2,)


def _check_header(
    path: Path,
    model: BertConfig,
    layout: _Layout,
    tokens: BertTokens,
    stored: Mapping[str, tuple[str, TensorInfo]],
) -> dict[str, str]:
    """Compare the header of the weights with config and tokenizer; no weight is read.

    Returns the name in the file for each tensor that is needed.
    """
    wrong: list[str] = []
    names: dict[str, str] = {}
    for name, shape in _expected_shapes(model, layout):
        own, info = stored.get(name, (name, None))
        if complaint := wrong_tensor(info, shape):
            wrong.append(f"{name}: {complaint}")
        names[name] = own
        if len(wrong) == MAX_DIFFERENCES:
            break
    if wrong:
        listed = bullet_list([f"{complaint}." for complaint in wrong], "")
        raise DataError(f"{path} does not fit its config.json: {listed}\n{FROM_TRANSFORMERS}")
    rows, largest = model.vocab_size, max(tokens.rows)
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
    model: BertConfig, theirs: dict[str, Tensor], layout: _Layout, rows: list[int]
) -> dict[str, Tensor]:
    """Return the weights of our model, with the rows of the tokens in our order."""
    order = torch.tensor(rows)
    found = from_huggingface_weights(model, theirs, layout.prefix)
    found["table.weight"] = found["table.weight"][order]
    found["positions.table"] = found["positions.table"][layout.first_position :]
    weights = {f"encoder.{name}": tensor for name, tensor in found.items()}
    if model.pretraining_heads:
        weights |= {own: theirs[name] for own, name in layout.head_names.items()}
        weights["bias"] = weights["bias"][order]
        if model.pooler:
            weights |= {own: theirs[name] for own, name in NEXT_SENTENCE_NAMES.items()}
    return {name: tensor.contiguous() for name, tensor in weights.items()}

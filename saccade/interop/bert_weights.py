r"""Names of the tensors of a BERT encoder here and in Hugging Face's `BertModel`.

Both compute the same. Here one matrix holds keys and values; theirs are two.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from saccade.models.bert_config import BertConfig

BERT_ACTIVATIONS = {  # our name → theirs
    "gelu_exact": "gelu",
    "gelu": "gelu_new",
    "relu": "relu",
    "silu": "silu",
    "tanh": "tanh",
}
MASKED_HEAD_NAMES = {  # of the head of pretraining for masked tokens, ours → theirs
    "transform.weight": "cls.predictions.transform.dense.weight",
    "transform.bias": "cls.predictions.transform.dense.bias",
    "norm.weight": "cls.predictions.transform.LayerNorm.weight",
    "norm.bias": "cls.predictions.transform.LayerNorm.bias",
    "bias": "cls.predictions.bias",
}
ROBERTA_HEAD_NAMES = {
    "transform.weight": "lm_head.dense.weight",
    "transform.bias": "lm_head.dense.bias",
    "norm.weight": "lm_head.layer_norm.weight",
    "norm.bias": "lm_head.layer_norm.bias",
    "bias": "lm_head.bias",
}
NEXT_SENTENCE_NAMES = {
    "next_sentence.weight": "cls.seq_relationship.weight",
    "next_sentence.bias": "cls.seq_relationship.bias",
}

_EMBEDDINGS = {
    "table.weight": "embeddings.word_embeddings.weight",
    "positions.table": "embeddings.position_embeddings.weight",
    "segments.weight": "embeddings.token_type_embeddings.weight",
    "norm.weight": "embeddings.LayerNorm.weight",
    "norm.bias": "embeddings.LayerNorm.bias",
}
_LAYER = {  # ours → theirs; several are joined along the rows
    "self_attention.query": ("attention.self.query",),
    "self_attention.key_value": ("attention.self.key", "attention.self.value"),
    "self_attention.out": ("attention.output.dense",),
    "around_attention.norm": ("attention.output.LayerNorm",),
    "feed_forward.inner": ("intermediate.dense",),
    "feed_forward.outer": ("output.dense",),
    "around_feed_forward.norm": ("output.LayerNorm",),
}


def bert_tensor_names(model: BertConfig) -> dict[str, tuple[str, ...]]:
    """Return our name of each tensor → their names, without a prefix."""
    names: dict[str, tuple[str, ...]] = {own: (name,) for own, name in _EMBEDDINGS.items()}
    for layer in range(model.depth):
        for own, theirs in _LAYER.items():
            for what in ("weight", "bias"):
                names[f"blocks.{layer}.{own}.{what}"] = tuple(
                    f"encoder.layer.{layer}.{name}.{what}" for name in theirs
                )
    if model.pooler:
        names |= {f"pooler.{what}": (f"pooler.dense.{what}",) for what in ("weight", "bias")}
    return names


def from_huggingface_weights(
    model: BertConfig, tensors: Mapping[str, Tensor], prefix: str = ""
) -> dict[str, Tensor]:
    """Return the weights of a `BertEncoder` from those of a `BertModel`, ids in their order."""
    return {
        own: torch.cat([tensors[prefix + name] for name in names])
        for own, names in bert_tensor_names(model).items()
    }


def to_huggingface_weights(
    model: BertConfig, weights: Mapping[str, Tensor], prefix: str = ""
) -> dict[str, Tensor]:
    """Return the weights of a `BertModel` from those of a `BertEncoder`."""
    found: dict[str, Tensor] = {}
    for own, names in bert_tensor_names(model).items():
        parts = weights[own].float().cpu().chunk(len(names))
        found |= {prefix + n: part.contiguous() for n, part in zip(names, parts, strict=True)}
    return found

r"""Export of a Transformer to CTranslate2, a fast inference engine for CPUs (Klein et al. 2020).

The export uses CTranslate2's own model specification. Differences between the two are made
explicit in the weights, so that the engine computes the same numbers:

- positions: sines and cosines alternate and positions count from 0, where CTranslate2's come in
  halves and count from 1; the table of positions is exported (learned ones are such a table);
- grouped-query attention: the rows of a key/value head are repeated for every query head;
- rotary positions rotate adjacent pairs, which the engine supports (`rotary_interleave`).

A vocabulary is exported as its tokens, byte pairs in GPT-2's byte-to-unicode alphabet.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from tokenizers import pre_tokenizers
from torch import Tensor

from saccade.config import Config, build_config
from saccade.data.parallel.config import PairsConfig
from saccade.data.special_tokens import BOS, EOS, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import Tokenizer
from saccade.errors import ConfigError, bullet_list
from saccade.interop.ctranslate2.engine import import_ctranslate2
from saccade.interop.export_folder import check_export_folder, write_export
from saccade.interop.registry import ModelParts
from saccade.models.config import TransformerConfig
from saccade.nn.positional_encoding import SinusoidalPositions
from saccade.types.arrays import Float32Array

NORM_EPSILON = 1e-5  # torch's default
CTRANSLATE2_FILES = frozenset(
    (
        "config.json",
        "model.bin",
        "shared_vocabulary.json",
        "source_vocabulary.json",
        "target_vocabulary.json",
    )
)
CTRANSLATE2_ACTIVATIONS = {  # our name → name of CTranslate2
    "gelu": "GELUTanh",
    "gelu_exact": "GELU",
    "gelu_sigmoid": "GELUSigmoid",
    "relu": "RELU",
    "sigmoid": "Sigmoid",
    "silu": "SWISH",
    "tanh": "Tanh",
}


class CTranslate2ExportConfig(Config):
    """Options of the export."""

    quantization: Literal["float32", "int8"] = "float32"


def export_parts_to_ctranslate2(parts: ModelParts, folder: Path, options: dict[str, Any]) -> None:
    """Transformer for fast inference on a CPU with CTranslate2; option quantization=int8."""
    export_ctranslate2(
        folder,
        parts.recipe.model,
        parts.recipe.data,
        parts.preprocessor,
        parts.weights,
        parts.checksum,
        build_config(CTranslate2ExportConfig, options, "the export"),
    )


def export_ctranslate2(
    folder: Path,
    model: Config,
    data: PairsConfig,
    tokenizers: Any,
    weights: Mapping[str, Tensor],
    checksum: str,
    options: CTranslate2ExportConfig,
) -> None:
    """Write a translation model into a folder that CTranslate2 opens; replace a previous export.

    Args:
        folder: output folder: new, empty, or a previous export.
        model: settings of the model; only those of a Transformer are supported.
        data: settings of the data, for the maximum lengths.
        tokenizers: has a `source` and a `target` tokenizer.
        weights: state dict of the model.
        checksum: checksum of the weights, stored with the export.
        options: options of the export.
    """
    if complaints := unsupported_by_ctranslate2(model):
        raise ConfigError(
            bullet_list(complaints, "this run cannot be exported to CTranslate2:")
            + " Predict without --engine, or train a model that can be exported."
        )
    assert isinstance(model, TransformerConfig)
    check_export_folder(folder, CTRANSLATE2_FILES)  # before the work
    import_ctranslate2()
    num_positions = _num_positions(model, data)
    # copies: CTranslate2 quantizes in place
    own = {name: tensor.float().cpu().clone() for name, tensor in weights.items()}
    spec = _spec(model, own, num_positions)
    spec.register_source_vocabulary(token_list(tokenizers.source))
    spec.register_target_vocabulary(token_list(tokenizers.target))
    spec.validate()
    spec.optimize(quantization=None if options.quantization == "float32" else options.quantization)
    info = {"weights": checksum, "quantization": options.quantization, "places": num_positions}
    write_export(folder, CTRANSLATE2_FILES, lambda staging: spec.save(str(staging)), info)


def unsupported_by_ctranslate2(model: Config) -> list[str]:
    """Return the settings of a model that CTranslate2 does not support, as messages."""
    if not isinstance(model, TransformerConfig):
        name = getattr(model, "name", type(model).__name__)
        return [f"got the model {name}; the CTranslate2 export supports only transformer."]
    complaints = []
    if model.score != "scaled_dot":
        complaints.append(f"model.score is {model.score}; CTranslate2 supports only scaled_dot.")
    if model.activation not in CTRANSLATE2_ACTIVATIONS:
        complaints.append(
            f"model.activation is {model.activation}; CTranslate2 supports "
            f"{', '.join(CTRANSLATE2_ACTIVATIONS)}."
        )
    if model.norm != "layer":
        complaints.append(f"model.norm is {model.norm}; CTranslate2 supports only layer.")
    if model.positions == "relative":
        complaints.append(
            "model.positions is relative (Transformer-XL); CTranslate2 supports sinusoidal, "
            "learned, rotary or none."
        )
    if model.window is not None:
        complaints.append(f"model.window is {model.window}; CTranslate2 has no windowed attention.")
    if model.pruned_heads:
        complaints.append(
            "model.pruned_heads is set; CTranslate2 needs the same number of heads in every layer."
        )
    return complaints


def _num_positions(model: TransformerConfig, data: PairsConfig) -> int:
    """Return the number of positions for the longest source or target."""
    if model.positions == "learned":
        return model.max_positions
    return max(data.max_length, data.max_new_tokens) + 2  # bos and eos


def token_list(tokenizer: Tokenizer) -> list[str]:
    """Return every token in the order of its id, no two alike."""
    saved = tokenizer.to_json()
    if "merges" in saved:
        tokens = dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
        tokens.update(dict.fromkeys(merge.replace(" ", "", 1) for merge in saved["merges"]))
    else:
        tokens = dict.fromkeys(saved["tokens"])
    # a text may contain "</s>", which must not be mistaken for the special token
    named = [
        f"{token}@{id}" if token in SPECIAL_TOKENS else token for id, token in enumerate(tokens)
    ]
    return [*SPECIAL_TOKENS, *named]


# --- the weights ----------------------------------------------------------------------------------


def _spec(model: TransformerConfig, weights: dict[str, Tensor], num_positions: int) -> Any:
    """Return CTranslate2's specification of this model, with its weights."""
    from ctranslate2.specs import TransformerSpec
    from ctranslate2.specs.common_spec import Activation
    from ctranslate2.specs.transformer_spec import TransformerDecoderSpec, TransformerEncoderSpec

    sizes = (model.depth, model.heads)
    activation = Activation[CTRANSLATE2_ACTIVATIONS[model.activation]]
    choices: dict[str, Any] = {"pre_norm": model.norm_first, "activation": activation}
    if model.positions == "rotary":
        choices |= {"rotary_dim": model.width // model.heads, "rotary_interleave": True}
    spec = TransformerSpec(
        TransformerEncoderSpec(*sizes, **choices), TransformerDecoderSpec(*sizes, **choices)
    )
    spec.config.bos_token = spec.config.decoder_start_token = SPECIAL_TOKENS[BOS]
    spec.config.eos_token, spec.config.unk_token = SPECIAL_TOKENS[EOS], SPECIAL_TOKENS[UNK]
    spec.config.add_source_eos = True
    spec.config.layer_norm_epsilon = NORM_EPSILON
    source = _WeightCopier(weights, model)
    spec.encoder.embeddings[0].weight = source.array("source.table.weight")
    spec.decoder.embeddings.weight = source.array("target.table.weight")
    spec.decoder.projection.weight = source.array("target.table.weight")
    for side, part in (("source", spec.encoder), ("target", spec.decoder)):
        if model.positions != "rotary":
            part.position_encodings.encodings = source.positions(side, num_positions)
        if model.norm_first:
            source.norm(part.layer_norm, "encoder_norm" if side == "source" else "decoder_norm")
    for index, layer in enumerate(spec.encoder.layer):
        source.layer(layer, f"encoder.{index}")
    for index, layer in enumerate(spec.decoder.layer):
        source.layer(layer, f"decoder.{index}")
        source.attention(layer.attention, f"decoder.{index}.source_attention")
        source.norm(layer.attention.layer_norm, f"decoder.{index}.around_source.norm")
    return spec


class _WeightCopier:
    """Copies weights by name into a CTranslate2 specification."""

    def __init__(self, weights: dict[str, Tensor], model: TransformerConfig):
        self.weights, self.model = weights, model

    def array(self, name: str) -> Float32Array:
        """Return one weight as an array."""
        return self.weights[name].numpy()

    def positions(self, side: str, num_positions: int) -> Float32Array:
        """Return the table of positional encodings."""
        if self.model.positions == "learned":
            return self.array(f"{side}.positions.table")
        if self.model.positions == "none":
            return np.zeros((num_positions, self.model.width), dtype=np.float32)
        return SinusoidalPositions(self.model.width)(0, num_positions).numpy()

    def norm(self, spec: Any, name: str) -> None:
        """Copy a layer norm."""
        spec.gamma, spec.beta = self.array(f"{name}.weight"), self.array(f"{name}.bias")

    def linear(self, spec: Any, name: str) -> None:
        """Copy a linear layer."""
        spec.weight, spec.bias = self.array(f"{name}.weight"), self.array(f"{name}.bias")

    def layer(self, layer: Any, name: str) -> None:
        """Copy self-attention, feed-forward network and their norms."""
        self.attention(layer.self_attention, f"{name}.self_attention")
        self.norm(layer.self_attention.layer_norm, f"{name}.around_attention.norm")
        self.linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
        self.linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
        self.norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm")

    def attention(self, spec: Any, name: str) -> None:
        """Copy W_q, W_k and W_v into one matrix; in cross-attention W_q is separate."""
        *inputs, out = spec.linear
        for what in ("weight", "bias"):
            query = self.weights[f"{name}.query.{what}"]
            key, value = self.weights[f"{name}.key_value.{what}"].chunk(2)
            key_value = torch.cat([self._repeat_heads(key), self._repeat_heads(value)])
            parts = [query, key_value] if len(inputs) == 2 else [torch.cat([query, key_value])]
            for linear, part in zip(inputs, parts, strict=True):
                setattr(linear, what, part.numpy())
        self.linear(out, f"{name}.out")

    def _repeat_heads(self, rows: Tensor) -> Tensor:
        kv_heads = self.model.kv_heads or self.model.heads
        per_head = rows.unflatten(0, (kv_heads, -1))
        return per_head.repeat_interleave(self.model.heads // kv_heads, dim=0).flatten(0, 1)

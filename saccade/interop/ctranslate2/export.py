r"""A Transformer as a model of CTranslate2, an engine that answers fast on a CPU.

Klein et al. 2020. It is written through CTranslate2's own description of a Transformer. What is
ours and not theirs is made explicit in the weights, so that the engine computes the same numbers:

- positions: sines and cosines take turns and places count from 0, where theirs come in halves
  and count from 1; so a table of positions goes with the model (learned ones are such a table);
- fewer key and value heads: the rows of each are written once for every head that it serves;
- rotary positions turn neighbours, which the engine does too (`rotary_interleave`).

A vocabulary goes out as its tokens, byte pairs in the letters of GPT-2 as other tools write them.
"""

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import pre_tokenizers
from torch import Tensor

from saccade import __version__
from saccade.config import Config
from saccade.data.parallel.load import PairsConfig
from saccade.data.tokenizers import Tokenizer
from saccade.data.vocabulary import BOS, EOS, SPECIAL_TOKENS, UNK
from saccade.errors import ConfigError, RunError, bullet_list
from saccade.interop.ctranslate2.engine import EXPORT_FORMAT, EXPORT_INFO_FILE, import_ctranslate2
from saccade.io.atomic import write_checksummed_json
from saccade.models.transformer import TransformerConfig
from saccade.nn.positional_encoding import SinusoidalPositions

NORM_EPSILON = 1e-5  # torch's own, which our models keep
CTRANSLATE2_ACTIVATIONS = {  # what CTranslate2 calls those that it has
    "gelu": "GELUTanh",
    "gelu_exact": "GELU",
    "gelu_sigmoid": "GELUSigmoid",
    "relu": "RELU",
    "sigmoid": "Sigmoid",
    "silu": "SWISH",
    "tanh": "Tanh",
}
FloatArray = NDArray[np.float32]


class CTranslate2ExportConfig(Config):
    """How the weights are written."""

    quantization: Literal["float32", "int8"] = "float32"


def export_ctranslate2(
    folder: Path,
    model: Any,
    data: Any,
    tokenizers: Any,
    weights: Mapping[str, Tensor],
    seal: str,
    options: CTranslate2ExportConfig,
) -> None:
    """Write a run's parts into a folder that CTranslate2 opens; one that is there is replaced.

    `model` and `data` are the recipe's settings, `seal` is that of the weights.
    """
    if complaints := unsupported_by_ctranslate2(model):
        raise ConfigError(
            bullet_list(complaints, "this run cannot go out to CTranslate2:")
            + " Answer without it (saccade predict, with no --engine), or train one that can."
        )
    _check_free(folder)
    import_ctranslate2()
    num_positions = _places(model, data)
    # copies: CTranslate2 rounds them in place
    own = {name: tensor.float().cpu().clone() for name, tensor in weights.items()}
    spec = _spec(model, own, num_positions)
    spec.register_source_vocabulary(token_list(tokenizers.source))
    spec.register_target_vocabulary(token_list(tokenizers.target))
    spec.validate()
    spec.optimize(quantization=None if options.quantization == "float32" else options.quantization)
    begun = folder.with_name(f".{folder.name}.begun")
    shutil.rmtree(begun, ignore_errors=True)
    begun.mkdir(parents=True)
    spec.save(str(begun))
    export_info = {
        "format": EXPORT_FORMAT,
        "saccade": __version__,
        "weights": seal,
        "quantization": options.quantization,
        "places": num_positions,
        "files": {path.name: sha256(path.read_bytes()).hexdigest() for path in begun.iterdir()},
    }
    write_checksummed_json(begun / EXPORT_INFO_FILE, export_info)
    shutil.rmtree(folder, ignore_errors=True)
    begun.rename(folder)


def unsupported_by_ctranslate2(model: Any) -> list[str]:
    """What of a model CTranslate2 cannot express, each by its name."""
    if not isinstance(model, TransformerConfig):
        return [f"it is a {model.name}, and of ours CTranslate2 knows the transformer alone."]
    complaints = []
    if model.score != "scaled_dot":
        complaints.append(f"model.score is {model.score}; CTranslate2 knows scaled_dot alone.")
    if model.activation not in CTRANSLATE2_ACTIVATIONS:
        complaints.append(
            f"model.activation is {model.activation}; CTranslate2 can have "
            f"{', '.join(CTRANSLATE2_ACTIVATIONS)}."
        )
    if model.positions == "relative":
        complaints.append(
            "model.positions is relative (those of Transformer-XL); CTranslate2 can have "
            "sinusoidal, learned, rotary or none."
        )
    if model.window is not None:
        complaints.append(
            f"model.window is {model.window}; CTranslate2 has no attention through a window."
        )
    if model.pruned_heads:
        complaints.append(
            "model.pruned_heads is set: heads were taken out, and CTranslate2 wants as many in every "
            "layer."
        )
    return complaints


def _check_free(folder: Path) -> None:
    if folder.exists() and not (folder / EXPORT_INFO_FILE).exists():
        if not folder.is_dir() or any(folder.iterdir()):
            raise RunError(
                f"{folder} holds other things than an export; choose an empty or a new folder "
                "(--out)."
            )


def _places(model: TransformerConfig, data: PairsConfig) -> int:
    """How many places the tables of positions have: as many as a source or an answer can take."""
    if model.positions == "learned":
        return model.max_positions
    return max(data.max_length, data.max_new_tokens) + 2  # the marks


def token_list(tokenizer: Tokenizer) -> list[str]:
    """Every token in the order of its number, no two alike."""
    kept = tokenizer.to_json()
    if "merges" in kept:
        tokens = dict.fromkeys(sorted(pre_tokenizers.ByteLevel.alphabet()))
        tokens.update(dict.fromkeys(merge.replace(" ", "", 1) for merge in kept["merges"]))
    else:
        tokens = dict.fromkeys(kept["tokens"])
    # a text may well hold "</s>", which must not be taken for the mark
    named = [
        f"{token}@{id}" if token in SPECIAL_TOKENS else token for id, token in enumerate(tokens)
    ]
    return [*SPECIAL_TOKENS, *named]


# --- the weights ----------------------------------------------------------------------------------


def _spec(model: TransformerConfig, weights: dict[str, Tensor], num_positions: int) -> Any:
    """CTranslate2's description of this model, with its weights in it."""
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
    own = _Weights(weights, model)
    spec.encoder.embeddings[0].weight = own.array("source.table.weight")
    spec.decoder.embeddings.weight = own.array("target.table.weight")
    spec.decoder.projection.weight = own.array("target.table.weight")
    for side, part in (("source", spec.encoder), ("target", spec.decoder)):
        if model.positions != "rotary":
            part.position_encodings.encodings = own.positions(side, num_positions)
        if model.norm_first:
            own.norm(part.layer_norm, "encoder_norm" if side == "source" else "decoder_norm")
    for number, layer in enumerate(spec.encoder.layer):
        own.around(layer, f"encoder.{number}")
    for number, layer in enumerate(spec.decoder.layer):
        own.around(layer, f"decoder.{number}")
        own.attention(layer.attention, f"decoder.{number}.source_attention")
        own.norm(layer.attention.layer_norm, f"decoder.{number}.around_source.norm")
    return spec


class _Weights:
    """Our weights by their names, put where CTranslate2 looks for them."""

    def __init__(self, weights: dict[str, Tensor], model: TransformerConfig):
        self.weights, self.model = weights, model

    def array(self, name: str) -> FloatArray:
        """One of them as it is."""
        return self.weights[name].numpy()

    def positions(self, side: str, num_positions: int) -> FloatArray:
        """What is added to the embeddings, for each place."""
        if self.model.positions == "learned":
            return self.array(f"{side}.positions.table")
        if self.model.positions == "none":
            return np.zeros((num_positions, self.model.width), dtype=np.float32)
        return SinusoidalPositions(self.model.width)(0, num_positions).numpy()

    def norm(self, spec: Any, name: str) -> None:
        """A layer norm."""
        spec.gamma, spec.beta = self.array(f"{name}.weight"), self.array(f"{name}.bias")

    def linear(self, spec: Any, name: str) -> None:
        """A matrix and its bias."""
        spec.weight, spec.bias = self.array(f"{name}.weight"), self.array(f"{name}.bias")

    def around(self, layer: Any, name: str) -> None:
        """What a layer of either side has: self-attention and feed-forward, with their norms."""
        self.attention(layer.self_attention, f"{name}.self_attention")
        self.norm(layer.self_attention.layer_norm, f"{name}.around_attention.norm")
        self.linear(layer.ffn.linear_0, f"{name}.feed_forward.inner")
        self.linear(layer.ffn.linear_1, f"{name}.feed_forward.outer")
        self.norm(layer.ffn.layer_norm, f"{name}.around_feed_forward.norm")

    def attention(self, spec: Any, name: str) -> None:
        """W_q, W_k and W_v in one matrix; for attention to the source W_q stands by itself."""
        *inputs, out = spec.linear
        for what in ("weight", "bias"):
            query = self.weights[f"{name}.query.{what}"]
            key, value = self.weights[f"{name}.key_value.{what}"].chunk(2)
            both = torch.cat([self._for_each_head(key), self._for_each_head(value)])
            parts = [query, both] if len(inputs) == 2 else [torch.cat([query, both])]
            for one, part in zip(inputs, parts, strict=True):
                setattr(one, what, part.numpy())
        self.linear(out, f"{name}.out")

    def _for_each_head(self, rows: Tensor) -> Tensor:
        kv_heads = self.model.kv_heads or self.model.heads
        each = rows.unflatten(0, (kv_heads, -1))
        return each.repeat_interleave(self.model.heads // kv_heads, dim=0).flatten(0, 1)

r"""Export of a GPT in Hugging Face's layout of GPT or GPT-2: config, weights and tokenizer.

Both sides compute the same, in GPT's post-norm blocks (`gpt1`) and in those of GPT-2 (`gpt2`). What
differs is the storage:

- their linear layers hold the transposed matrix, and one matrix for queries, keys and values;
- their vocabulary starts with the bytes, ours with four special tokens; a line's end is a token of
  the text for them ("\n") and eos for us, so eos takes the row of that token. Tokens that they do
  not have (padding, unknown) are never predicted: `GPTConfig.missing_tokens`.

The tokenizer is written as the tokenizer.json of their library, in which "\n" is our eos. That of
an imported GPT is written as it was, with the row of our eos for its token "\n</w>".
`transformers` is not imported. The import is in `saccade.interop.gpt2_import`.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine
from torch import Tensor

from saccade.config import Config, build_config
from saccade.data.special_tokens import BOS, EOS, SPECIAL_TOKENS, UNK
from saccade.data.tokenizers import (
    WORD_END,
    BPETokenizer,
    CharacterTokenizer,
    LowercaseBPETokenizer,
    Tokenizer,
    lowercase_bpe_engine,
)
from saccade.errors import ConfigError, bullet_list
from saccade.interop.export_folder import check_export_folder, write_export
from saccade.interop.huggingface_bert import export_bert
from saccade.interop.registry import ModelParts
from saccade.models.bert_config import BertConfig
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
GPT1_ACTIVATIONS = {"gelu": "gelu", "relu": "relu", "silu": "silu"}  # their gelu is gelu_new
NEWLINE_TOKEN = "Ċ"  # "\n" in GPT-2's byte-to-unicode alphabet
NEWLINE_WORD = f"\n{WORD_END}"  # the end of a line in GPT's vocabulary
HUGGINGFACE_FILES = frozenset(
    ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
)
GPT2_WEIGHT_PREFIX = "transformer."
CHARACTER_PATTERN = r"[\s\S]"  # the pre-tokenizer of exported characters
LINE_END_NORMALIZER = {  # of exported tokenizers, as tokenizer.json has it
    "type": "Sequence",
    "normalizers": [
        {"type": "NFC"},
        {"type": "Replace", "pattern": {"String": "\n"}, "content": SPECIAL_TOKENS[EOS]},
    ],
}
GPT2_SPECIAL_TOKENS = {
    "pad_token": SPECIAL_TOKENS[0],
    "bos_token": SPECIAL_TOKENS[EOS],
    "eos_token": SPECIAL_TOKENS[EOS],
    "unk_token": SPECIAL_TOKENS[UNK],
}


class GPTLayout(NamedTuple):
    """Names and properties of a GPT in Hugging Face's library."""

    title: str
    model_type: str
    architecture: str
    table: str  # the embeddings
    positions: str
    activation: str  # name of the setting
    activations: dict[str, str]  # our name → their name
    has_inner_width: bool  # else the feed-forward is four times as wide as the model
    has_final_norm: bool


GPT_LAYOUTS = {  # by the name of our model
    "gpt1": GPTLayout(
        title="GPT",
        model_type="openai-gpt",
        architecture="OpenAIGPTLMHeadModel",
        table="tokens_embed.weight",
        positions="positions_embed.weight",
        activation="afn",
        activations=GPT1_ACTIVATIONS,
        has_inner_width=False,
        has_final_norm=False,
    ),
    "gpt2": GPTLayout(
        title="GPT-2",
        model_type="gpt2",
        architecture="GPT2LMHeadModel",
        table="wte.weight",
        positions="wpe.weight",
        activation="activation_function",
        activations=GPT2_ACTIVATIONS,
        has_inner_width=True,
        has_final_norm=True,
    ),
}


def export_parts_to_huggingface(parts: ModelParts, folder: Path, options: dict[str, Any]) -> None:
    """GPT, GPT-2 or BERT as Hugging Face's transformers reads it, with its tokenizer."""
    build_config(Config, options, "the export")  # it has no options
    if isinstance(parts.recipe.model, BertConfig):
        export_bert(folder, parts.recipe.model, parts.preprocessor, parts.weights)
        return
    export_gpt2(folder, parts.recipe.model, parts.preprocessor, parts.weights)


def export_gpt2(
    folder: Path, model: Config, tokenizer: Tokenizer, weights: Mapping[str, Tensor]
) -> None:
    """Write a GPT into a folder that `AutoModelForCausalLM.from_pretrained` opens."""
    if complaints := unsupported_by_gpt2(model, tokenizer):
        raise ConfigError(bullet_list(complaints, "this run cannot be exported:"))
    assert isinstance(model, GPTConfig)
    check_export_folder(folder, HUGGINGFACE_FILES)  # before the work
    tensors = to_gpt2_weights(model, weights)
    embeddings = GPT2_WEIGHT_PREFIX + GPT_LAYOUTS[model.name].table
    tokenizer_class = "PreTrainedTokenizerFast"
    if isinstance(tokenizer, LowercaseBPETokenizer):  # of an imported GPT
        tokens = {SPECIAL_TOKENS[UNK]: UNK, **_word_ids(tokenizer), NEWLINE_WORD: EOS}
        tensors[embeddings] = tensors[embeddings][list(tokens.values())]
        ids = {token: id for id, token in enumerate(tokens)}
        engine, special_tokens = _word_engine(tokenizer, ids), {"unk_token": SPECIAL_TOKENS[UNK]}
        tokenizer_class = "OpenAIGPTTokenizer"
    elif model.missing_tokens:  # it was imported, and is exported with its original vocabulary
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
    tokenizer_config = {
        "tokenizer_class": tokenizer_class,
        "model_max_length": model.context_length,
    }

    def write(staging: Path) -> None:
        _write_json(staging / "config.json", config)
        save_file(tensors, staging / "model.safetensors", metadata={"format": "pt"})
        (staging / "tokenizer.json").write_text(engine.to_str(), encoding="utf-8")
        _write_json(staging / "tokenizer_config.json", {**special_tokens, **tokenizer_config})

    write_export(folder, HUGGINGFACE_FILES, write)


def unsupported_by_gpt2(model: Config, tokenizer: Tokenizer) -> list[str]:
    """Return the properties of a run that its layout cannot express, as messages."""
    name = getattr(model, "name", type(model).__name__)
    if not isinstance(model, GPTConfig) or name not in GPT_LAYOUTS:
        what = ", with banded attention layers" if name == "gpt3" else ""
        return [f"got the model {name}{what}; only gpt1 and gpt2 can be exported."]
    layout = GPT_LAYOUTS[name]
    complaints = []
    if model.positions != "learned":
        complaints.append(f"model.positions is {model.positions}; {layout.title} has learned ones.")
    if model.pruned_heads:
        complaints.append(
            f"model.pruned_heads is set; {layout.title} has all heads in every layer."
        )
    if model.activation not in layout.activations:
        complaints.append(
            f"model.activation is {model.activation}; {layout.title} has "
            f"{', '.join(layout.activations)}."
        )
    if model.activation_alpha is not None:
        complaints.append(
            f"model.activation_alpha is set; {layout.title} has leaky_relu with its default."
        )
    if not layout.has_inner_width and model.hidden not in (None, 4 * model.width):
        complaints.append(
            f"model.hidden is {model.hidden}; {layout.title} has 4 · width, {4 * model.width}."
        )
    if not isinstance(tokenizer, BPETokenizer | CharacterTokenizer | LowercaseBPETokenizer):
        complaints.append(
            f"the tokenizer is {tokenizer.kind}, which their library does not have; bpe and "
            "character can be exported."
        )
    return complaints


def _config_of(model: GPTConfig) -> dict[str, Any]:
    layout = GPT_LAYOUTS[model.name]
    inner = {"n_inner": model.hidden or 4 * model.width} if layout.has_inner_width else {}
    return {
        "model_type": layout.model_type,
        "architectures": [layout.architecture],
        "n_positions": model.context_length,
        "n_embd": model.width,
        "n_layer": model.depth,
        "n_head": model.heads,
        **inner,
        layout.activation: layout.activations[model.activation],
        "layer_norm_epsilon": GPT2_NORM_EPSILON,
        "resid_pdrop": model.dropout,
        "embd_pdrop": model.dropout,
        "attn_pdrop": model.attention_dropout,
        "tie_word_embeddings": True,
    }


def to_gpt2_weights(model: GPTConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights under their names and in their memory layout."""
    own = {name: tensor.float().cpu() for name, tensor in weights.items()}
    layout = GPT_LAYOUTS[model.name]
    found = {layout.table: own["table.weight"], layout.positions: own["positions.table"]}
    if layout.has_final_norm:
        found |= {"ln_f.weight": own["norm.weight"], "ln_f.bias": own["norm.bias"]}
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


def _word_ids(tokenizer: LowercaseBPETokenizer) -> dict[str, int]:
    """Return the ids of the tokens of GPT's tokenizer, without special ones."""
    return {token: tokenizer.vocabulary.id_of(token) for token in tokenizer.vocabulary.tokens}


def _word_engine(tokenizer: LowercaseBPETokenizer, ids: dict[str, int]) -> Engine:
    engine = lowercase_bpe_engine(ids, tokenizer.merges)
    engine.decoder = decoders.BPEDecoder(suffix=WORD_END)
    engine.add_special_tokens([SPECIAL_TOKENS[UNK]])
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
        engine.pre_tokenizer = pre_tokenizers.Split(Regex(CHARACTER_PATTERN), "isolated")
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


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

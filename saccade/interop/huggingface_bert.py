r"""Export of a BERT in Hugging Face's layout: config, weights and tokenizer.

A run with the heads of pretraining becomes `BertForPreTraining`, or without a pooler
`BertForMaskedLM`; an encoder alone becomes `BertModel`. Texts give the same outputs; ids are ours,
special tokens first, in the vocabulary that is written with them. `transformers` is not imported.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import save_file
from tokenizers import processors
from torch import Tensor

from saccade.config import Config
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    CLS,
    SEP,
    WordPieceTokenizer,
    wordpiece_engine,
)
from saccade.errors import ConfigError, bullet_list
from saccade.interop.bert_weights import (
    BERT_ACTIVATIONS,
    MASKED_HEAD_NAMES,
    NEXT_SENTENCE_NAMES,
    to_huggingface_weights,
)
from saccade.interop.export_folder import check_export_folder, write_export
from saccade.models.bert_config import BertConfig

BERT_FILES = frozenset(
    ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
)
ENCODER_PREFIX = "encoder."  # of the encoder's tensors in a run
_DECODER_NAMES = {  # stored next to what they are tied to
    "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
    "cls.predictions.decoder.bias": "cls.predictions.bias",
}


def export_bert(folder: Path, model: Config, tokenizer: Any, weights: Mapping[str, Tensor]) -> None:
    """Write a BERT into a folder that `AutoModel.from_pretrained` opens."""
    if complaints := unsupported_by_bert(model, tokenizer):
        raise ConfigError(bullet_list(complaints, "this run cannot be exported:"))
    assert isinstance(model, BertConfig) and isinstance(tokenizer, WordPieceTokenizer)
    check_export_folder(folder, BERT_FILES)  # before the work
    model = model.with_values(  # an encoder of another task lacks parts that its settings name
        pooler="encoder.pooler.weight" in weights, pretraining_heads="transform.weight" in weights
    )
    tensors = _their_weights(model, weights)
    engine = wordpiece_engine(
        {token: id for id, token in enumerate(tokenizer.tokens)},
        tokenizer.lowercase,
        tokenizer.strip_accents,
        tokenizer.split_chinese,
    )
    engine.add_special_tokens(list(BERT_SPECIAL_TOKENS))
    engine.post_processor = processors.BertProcessing(
        (BERT_SPECIAL_TOKENS[SEP], SEP), (BERT_SPECIAL_TOKENS[CLS], CLS)
    )
    names = ("pad_token", "cls_token", "sep_token", "unk_token", "mask_token")
    tokenizer_config = {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "tokenize_chinese_chars": tokenizer.split_chinese,
        "model_max_length": model.max_length,
        **dict(zip(names, BERT_SPECIAL_TOKENS, strict=True)),
    }

    def write(staging: Path) -> None:
        _write_json(staging / "config.json", _config_of(model))
        save_file(tensors, staging / "model.safetensors", metadata={"format": "pt"})
        (staging / "tokenizer.json").write_text(engine.to_str(), encoding="utf-8")
        _write_json(staging / "tokenizer_config.json", tokenizer_config)
        lines = "".join(f"{token}\n" for token in tokenizer.tokens)
        (staging / "vocab.txt").write_text(lines, encoding="utf-8")

    write_export(folder, BERT_FILES, write)


def unsupported_by_bert(model: Config, tokenizer: Any) -> list[str]:
    """Return the properties of a run that its layout cannot express, as messages."""
    complaints = []
    if not isinstance(model, BertConfig):
        return ["got a model that is no BERT; only the encoder of a run of bert can be exported."]
    if model.activation not in BERT_ACTIVATIONS:
        complaints.append(
            f"model.activation is {model.activation}; BERT has {', '.join(BERT_ACTIVATIONS)}."
        )
    if not isinstance(tokenizer, WordPieceTokenizer) or tokenizer.kind != "wordpiece":
        complaints.append("the run has no WordPiece tokenizer of its own; try one of bert.")
    return complaints


def _config_of(model: BertConfig) -> dict[str, Any]:
    architecture = "BertModel"
    if model.pretraining_heads:
        architecture = "BertForPreTraining" if model.pooler else "BertForMaskedLM"
    return {
        "model_type": "bert",
        "architectures": [architecture],
        "hidden_size": model.width,
        "num_hidden_layers": model.depth,
        "num_attention_heads": model.heads,
        "intermediate_size": model.hidden or 4 * model.width,
        "max_position_embeddings": model.max_length,
        "type_vocab_size": model.segments,
        "vocab_size": model.vocab_size,
        "hidden_act": BERT_ACTIVATIONS[model.activation],
        "hidden_dropout_prob": model.dropout,
        "attention_probs_dropout_prob": model.attention_dropout,
        "layer_norm_eps": model.norm_eps,
        "pad_token_id": 0,
    }


def _their_weights(model: BertConfig, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    encoder = {
        name.removeprefix(ENCODER_PREFIX): tensor
        for name, tensor in weights.items()
        if name.startswith(ENCODER_PREFIX)
    }
    if not model.pretraining_heads:
        return to_huggingface_weights(model, encoder)
    found = to_huggingface_weights(model, encoder, "bert.")
    heads = MASKED_HEAD_NAMES | (NEXT_SENTENCE_NAMES if model.pooler else {})
    for own, name in heads.items():
        found[name] = weights[own].float().cpu().contiguous()
    # a copy, since a file cannot share the memory of two tensors
    return found | {name: found[tied].clone() for name, tied in _DECODER_NAMES.items()}


def _write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")

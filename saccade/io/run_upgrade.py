"""Upgrade the settings of a run folder that an earlier version wrote.

Format 3 (version 0.6) renamed settings and some of their values. The tables here map the names of
formats 1 and 2 to those of format 3; `docs/migrating-0.6.md` is generated from them.
"""

from collections.abc import Mapping
from typing import Any

DATA_SETTINGS = {
    "ahead": "horizon",
    "answer": "target_type",
    "least": "min_count",
    "longest": "max_length",
    "longest_answer": "max_new_tokens",
    "made": "synthetic",
    "past": "lags",
    "published": "dataset",
    "reading": "segment_order",
    "several": "multi_label",
    "spaces": "whitespace",
    "steps": "segment_length",
    "too_long": "on_too_long",
    "weights": "weight_column",
}
MODEL_SETTINGS = {
    "absent": "missing_tokens",
    "band": "band_width",
    "context": "context_length",
    "direct": "direct_connections",
    "first_width": "initial_bandwidth",
    "groups": "kv_heads",
    "growth": "dilation_growth",
    "keep": "keep_probability",
    "kernel": "kernel_size",
    "largest": "x_max",
    "longest": "max_positions",
    "memory": "memory_length",
    "ngrams": "word_ngrams",
    "past": "lags",
    "pruned": "pruned_heads",
    "rate": "learning_rate",
    "segment": "segment_length",
    "shared": "shared_negatives",
    "shortest": "min_n",
    "source_vocab": "source_vocab_size",
    "start": "embedding_std",
    "target_vocab": "target_vocab_size",
}
# settings of these models that map to another name than the tables above give
MODEL_EXCEPTIONS = {
    ("fasttext", "longest"): "max_n",
    ("kernel", "kernel"): "kernel",
    ("kernel", "width"): "bandwidth",
    ("svm", "kernel"): "kernel",
}
MODEL_NAMES = {
    "convolution": "conv_lm",
    "convolutional": "conv_seq2seq",
    "latent": "recurrent",
    "two_way": "bidirectional",
}
TRAIN_SETTINGS = {
    "accumulate": "accumulate_steps",
    "average": "average_checkpoints",
    "clip": "clip_norm",
    "decay": "schedule",
    "precision": "dtype",
    "ratio": "target_update_ratio",
    "smoothing": "label_smoothing",
}
VALUES: Mapping[tuple[str, str], Mapping[Any, str]] = {
    ("data", "on_too_long"): {"refuse": "error"},
    ("data", "split"): {"spaces": "whitespace"},
    ("data", "whitespace"): {"kept": "keep", "one": "collapse"},
    ("model", "loss"): {"one_against_all": "one_vs_all", "tree": "hierarchical_softmax"},
    ("train", "init"): {"own": "default"},
    ("train", "loss"): {"absolute": "absolute_error", "square": "squared_error"},
}
TOKENIZER_KINDS = {"bytepair": "bpe", "spaced": "whitespace"}


def upgrade_recipe(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return the recipe of a run of format 1 or 2 with the names of format 3."""
    upgraded = dict(recipe)
    model = dict(recipe.get("model", {}))
    name = model.get("name")
    exceptions = {old: new for (owner, old), new in MODEL_EXCEPTIONS.items() if owner == name}
    sections = {
        "data": (recipe.get("data", {}), DATA_SETTINGS),
        "model": (model, MODEL_SETTINGS | exceptions),
        "train": (recipe.get("train", {}), TRAIN_SETTINGS),
    }
    for section, (values, names) in sections.items():
        if section in recipe:
            upgraded[section] = {
                (new := names.get(old, old)): _upgrade_value(section, new, value)
                for old, value in values.items()
            }
    if "tokenizer" in upgraded.get("data", {}):
        tokenizer = dict(upgraded["data"]["tokenizer"])
        if "kind" in tokenizer:
            tokenizer["kind"] = TOKENIZER_KINDS.get(tokenizer["kind"], tokenizer["kind"])
        upgraded["data"]["tokenizer"] = tokenizer
    if name in MODEL_NAMES:
        upgraded["model"]["name"] = MODEL_NAMES[name]
    return upgraded


def _upgrade_value(section: str, name: str, value: Any) -> Any:
    return VALUES.get((section, name), {}).get(value, value) if isinstance(value, str) else value

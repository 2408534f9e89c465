"""Registries: lookup by name, with a suggestion for a misspelt one."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import get_close_matches
from importlib import import_module
from operator import attrgetter
from typing import Any, Generic, TypeVar

from saccade.errors import ConfigError

Value = TypeVar("Value")

# names that other tools use for a setting, and ours; the first that a task has is meant
SETTING_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "batch": ("batch_tokens",),
    "batch_size": ("batch_tokens",),
    "bpe": ("tokenizer.kind",),
    "clip": ("clip_norm",),
    "cuda": ("device",),
    "d_model": ("width",),
    "dim": ("width",),
    "early_stopping": ("patience",),
    "emb": ("width",),
    "embedding_dim": ("width",),
    "embedding_size": ("width",),
    "epoch": ("epochs", "steps"),
    "epochs": ("epochs", "steps"),
    "eval_every": ("evaluate_every",),
    "eval_steps": ("evaluate_every",),
    "fp16": ("dtype",),
    "gpu": ("device",),
    "grad_accum": ("accumulate_steps",),
    "grad_clip": ("clip_norm",),
    "gradient_accumulation_steps": ("accumulate_steps",),
    "hidden_dim": ("hidden", "width"),
    "hidden_size": ("hidden", "width"),
    "iterations": ("steps", "epochs"),
    "layers": ("depth",),
    "learning_rate": ("learning_rate",),
    "lr": ("learning_rate",),
    "lr_scheduler": ("schedule",),
    "max_len": ("max_length",),
    "max_steps": ("steps", "epochs"),
    "max_time": ("minutes",),
    "min_freq": ("min_count",),
    "ngram": ("word_ngrams", "order", "max_n"),
    "ngrams": ("word_ngrams", "order", "max_n"),
    "num_epochs": ("epochs", "steps"),
    "num_heads": ("heads",),
    "num_layers": ("depth",),
    "num_workers": ("threads",),
    "optim": ("optimizer",),
    "precision": ("dtype",),
    "rate": ("learning_rate",),
    "scheduler": ("schedule",),
    "test_size": ("test_share",),
    "time": ("minutes",),
    "time_limit": ("minutes",),
    "val_split": ("dev_share",),
    "validation_split": ("dev_share",),
    "vocab": ("tokenizer.size",),
    "vocab_size": ("tokenizer.size",),
    "warmup_steps": ("warmup",),
    "wd": ("weight_decay",),
    "workers": ("threads",),
}


def nearest_name(name: str, names: Iterable[str]) -> str | None:
    """Return the known name that is similar to a misspelt one; None: none is."""
    spelt = {known.lower(): known for known in names}  # GRU and gru have no common letter
    near = get_close_matches(name.lower(), list(spelt), n=1)
    return spelt[near[0]] if near else None


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return " Did you mean …?" if a known name is similar, else an empty string."""
    near = nearest_name(name, names)
    return f" Did you mean {near!r}?" if near else ""


def lookup(table: Mapping[str, Value], name: str, what: str = "name") -> Value:
    """Return `table[name]`, or raise ConfigError with the known names; `what` is their kind."""
    if name in table:
        return table[name]
    raise ConfigError(
        f"There is no {what} {name!r}.{did_you_mean(name, table)} "
        f"There are: {', '.join(sorted(table))}."
    )


def import_attribute(import_path: str) -> Any:
    """Return the object at "module:attribute"; the attribute may be dotted (Class.method)."""
    module, _, attribute = import_path.partition(":")
    return attrgetter(attribute)(import_module(module))


def import_when_called(import_path: str) -> Callable[..., Any]:
    """Return a function that imports the one at "module:attribute" and calls it."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return import_attribute(import_path)(*args, **kwargs)

    return call


class LazyRegistry(Mapping[str, Value], Generic[Value]):
    """Mapping from names to objects, given as "module:attribute" and imported on access."""

    def __init__(self, import_paths: dict[str, str]):
        self.import_paths = import_paths

    def __getitem__(self, name: str) -> Value:
        value: Value = import_attribute(self.import_paths[name])
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self.import_paths)

    def __len__(self) -> int:
        return len(self.import_paths)

    def __contains__(self, name: object) -> bool:  # without importing it
        return name in self.import_paths

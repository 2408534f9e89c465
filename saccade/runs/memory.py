"""Estimate of the memory of a model, before it is built.

The exact size is that of the same model on torch's device `meta`, where tensors have shapes and no
values. Since that takes time, a bound from the settings alone comes first.
"""

from pathlib import Path
from typing import Any

from saccade.config import Config, flatten
from saccade.errors import ConfigError, RunError
from saccade.io.memory import WEIGHT_BYTES, available_memory, check_memory
from saccade.tasks.base import Components, Recipe

OPENING_COPIES = 2  # the model, and the weights that are read
TRAINING_COPIES = 5  # weights, gradients, two moments, and the best weights so far
MATRICES_PER_LAYER = 16  # at most, in the bound
SMALL_SHARE = 0.1  # of the available memory: a bound below it needs no estimate
# rows of tables, which are not squared in the bound
TABLE_SETTINGS = (
    "vocab_size",
    "source_vocab_size",
    "target_vocab_size",
    "inputs",
    "outputs",
    "max_positions",
    "max_length",
    "context_length",
    "segment_length",
    "memory_length",
)
SIZE_SETTINGS = ("width", "hidden", "filters")  # reduced for the advice, the first that exists


def check_model_memory(
    recipe: Recipe,
    preprocessor: Any,
    components: Components[Any, Any, Any, Any],
    copies: int = OPENING_COPIES,
) -> None:
    """Raise a ConfigError for a network that does not fit into memory, with a width that does."""
    available = available_memory()
    if components.objective is None or available is None:
        return  # estimators check the arrays that they allocate
    if copies * _bound(recipe.model) <= SMALL_SHARE * available:
        return
    needed = copies * _network_bytes(recipe, preprocessor, components)
    if needed <= available:
        return
    settings = recipe.model.model_dump()
    name = next((name for name in SIZE_SETTINGS if isinstance(settings.get(name), int)), None)
    advice = "smaller sizes (saccade settings lists them)"
    purpose = f"a model of {_sizes(recipe.model)}"
    if name is not None:
        value = settings[name]
        while value > 1 and value % 2 == 0:
            value //= 2
            smaller = recipe.with_values(
                model=recipe.model.model_dump(exclude_unset=True) | {name: value}
            )
            if copies * _network_bytes(smaller, preprocessor, components) <= available:
                advice = f"--set model.{name}={value}"
                break
    check_memory(needed, purpose, advice)


def check_stored_values(
    recipe: Recipe,
    preprocessor: Any,
    components: Components[Any, Any, Any, Any],
    values: int,
    path: Path,
) -> None:
    """Raise a RunError if the weights in a file are far fewer than the settings ask for.

    A changed run.toml may ask for a model of any size; the file of its weights bounds it.
    """
    stored = values * WEIGHT_BYTES
    if components.objective is None or _bound(recipe.model) <= max(stored, 1 << 28):
        return
    expected = _network_bytes(recipe, preprocessor, components)
    if expected > 2 * stored:
        raise RunError(
            f"{path} does not fit the settings of its run: it has {stored:,} bytes of weights, and "
            f"a model of {_sizes(recipe.model)} has {expected:,}."
        )


def _integers(config: Config) -> dict[str, int]:
    """Return the sizes of a model: its integer settings by path, of lists the largest."""
    found = {}
    for path, value in flatten(config).items():
        values = value if isinstance(value, tuple | list) else [value]
        sizes = [size for size in values if isinstance(size, int) and not isinstance(size, bool)]
        if sizes:
            found[path] = max(sizes)
    return found


def _bound(config: Config) -> int:
    """Return more bytes than the weights have: every layer with matrices of the largest sizes."""
    sizes = _integers(config)
    depth = max(1, sizes.pop("depth", 1))
    rows = sum(max(1, sizes.pop(name, 1)) for name in TABLE_SETTINGS)
    width = max([1, *sizes.values()])
    return WEIGHT_BYTES * (MATRICES_PER_LAYER * depth * width * width + 2 * rows * width)


def _network_bytes(
    recipe: Recipe, preprocessor: Any, components: Components[Any, Any, Any, Any]
) -> int:
    """Return the bytes of the parameters and buffers, without allocating them."""
    import torch

    try:
        with torch.device("meta"):
            model = components.build_model(recipe, preprocessor)
    except RuntimeError as error:  # sizes whose product is no 64-bit integer
        raise ConfigError(
            f"got a model of {_sizes(recipe.model)}, which is larger than any memory ({error}); "
            "try smaller sizes."
        ) from None
    return sum(tensor.nbytes for tensor in (*model.parameters(), *model.buffers()))


def _sizes(config: Config) -> str:
    """Return the largest sizes of a model, in the form of --set."""
    sizes = sorted(_integers(config).items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"model.{path}={size}" for path, size in sizes)

r"""Weights of torchvision's image networks as safetensors files, in and out.

The parameter names of our networks are torchvision's, so a state dict needs no translation, with
two exceptions: its GoogLeNet has auxiliary classifiers (aux1, aux2), which ours leaves out, and its
files of DenseNet write `norm.1` for `norm1`. Torchvision publishes pickles, which are not opened
here; this makes safetensors of one:

    torch.load(FILE, weights_only=True) → safetensors.torch.save_file(tensors, FILE)

Names and shapes are compared with those of the network before a tensor is read.
"""

import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from saccade.config import Config, build_config
from saccade.errors import ConfigError, DataError, bullet_list
from saccade.interop.export_folder import check_export_folder, write_export
from saccade.interop.registry import ModelParts
from saccade.interop.weight_files import (
    MAX_DIFFERENCES,
    read_float_tensors,
    read_weights_header,
    wrong_tensor,
)
from saccade.io.memory import WEIGHT_BYTES, check_memory
from saccade.models.image_base import ImageNetwork
from saccade.models.image_config import ImageModelConfig
from saccade.models.registry import IMAGE_MODELS

TORCHVISION_NETWORKS = frozenset(
    name for name in IMAGE_MODELS if re.match("alexnet|vgg|googlenet|resnet|densenet", name)
)
TORCHVISION_FILES = frozenset({"model.safetensors"})
PUBLISHED_IMAGE = (3, 224)  # channels and side
AUXILIARY = ("aux1.", "aux2.")  # classifiers of GoogLeNet that are used in training only
BATCH_COUNTER = "num_batches_tracked"  # of batch norm, which does not use it
OLD_DENSE_LAYER = re.compile(r"(\.denselayer\d+\.(?:norm|conv))\.([12]\.)")
_TO_SAFETENSORS = (
    "try in Python: from safetensors.torch import save_file; "
    'save_file(torch.load(FILE, weights_only=True), "weights.safetensors").'
)


def load_torchvision_weights(
    model: ImageNetwork, name: str, path: Path, *, is_new_output: bool | None = False
) -> list[str]:
    """Copy the weights of a file into a network; return the tensors that were left out.

    Args:
        model: the network.
        name: its name, such as resnet18.
        path: a safetensors file with torchvision's names.
        is_new_output: keep the network's own output layer, for other classes than the file's;
            None: if their numbers differ.
    """
    if not path.exists():
        raise DataError(f"{path} is missing; expected torchvision's weights; {_TO_SAFETENSORS}")
    stored = read_weights_header(path, _TO_SAFETENSORS)
    names = {OLD_DENSE_LAYER.sub(r"\1\2", found): found for found in stored}
    own = {key: tensor for key, tensor in model.state_dict().items() if BATCH_COUNTER not in key}
    output = f"{model.output_name}."
    if is_new_output is None:
        theirs = stored.get(names.get(f"{output}weight", ""))
        is_new_output = theirs is not None and theirs.shape[:1] != own[f"{output}weight"].shape[:1]
    if is_new_output:
        own = {key: tensor for key, tensor in own.items() if not key.startswith(output)}
    left_out = [
        key
        for key in names
        if BATCH_COUNTER not in key
        and (key.startswith(AUXILIARY) or (is_new_output and key.startswith(output)))
    ]
    wrong = [
        f"{key}: {complaint}."
        for key, tensor in own.items()
        if (complaint := wrong_tensor(stored.get(names.get(key, "")), tuple(tensor.shape)))
    ]
    unknown = [key for key in names if BATCH_COUNTER not in key and key not in {*own, *left_out}]
    wrong += [f"{key}: it is not a tensor of {name}." for key in unknown]
    if wrong:
        hint = "try the weights of that network"
        if not is_new_output and all(line.startswith(output) for line in wrong):
            hint = "try a new output layer (is_new_output=True)"
        listed = bullet_list(wrong[:MAX_DIFFERENCES], "")
        raise DataError(f"{path} has no weights of this {name}: {listed}\n{hint}.")
    needed = WEIGHT_BYTES * sum(prod(stored[names[key]].shape) for key in own)
    check_memory(needed, f"{path}", "a smaller network")
    tensors = read_float_tensors(path, {key: names[key] for key in own})
    with torch.no_grad():
        for key, tensor in own.items():
            tensor.copy_(tensors[key])  # tensors of a state dict share the model's memory
    return left_out


# --- export ---------------------------------------------------------------------------------------


def export_parts_to_torchvision(parts: ModelParts, folder: Path, options: dict[str, Any]) -> None:
    """State dict of torchvision's networks: an image network of the published shape."""
    build_config(Config, options, "the export")  # it has no options
    export_torchvision(folder, parts.recipe.model, parts.weights)


def export_torchvision(
    folder: Path, config: ImageModelConfig, weights: Mapping[str, Tensor]
) -> None:
    """Write weights that torchvision's network of the same name and number of classes loads."""
    check_export_folder(folder, TORCHVISION_FILES)  # before the work
    if config.name not in TORCHVISION_NETWORKS:
        raise ConfigError(
            f"got {config.name}; expected a network that torchvision has; try "
            f"{', '.join(sorted(TORCHVISION_NETWORKS))}."
        )
    published = published_shapes(config)
    wrong = [
        f"{key}: {complaint}"
        for key, tensor in weights.items()
        if (complaint := _wrong_shape(tensor, published.get(key)))
    ]
    if wrong:
        listed = bullet_list([f"{line}." for line in wrong[:MAX_DIFFERENCES]], "")
        raise ConfigError(
            f"this {config.name} has not the shape of torchvision's: {listed}\ntry a run with the "
            "default sizes, colour images and model.stem=imagenet."
        )
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}

    def write(staging: Path) -> None:
        save_file(tensors, staging / "model.safetensors", metadata={"format": "pt"})

    write_export(folder, TORCHVISION_FILES, write)


def published_shapes(config: ImageModelConfig) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the published network with as many classes, which is not allocated."""
    channels, size = PUBLISHED_IMAGE
    entry = IMAGE_MODELS[config.name]
    sizes = {"classes": config.classes, "channels": channels, "image_size": size}
    published = build_config(entry.config_class, {"name": config.name, **sizes})
    with torch.device("meta"):
        network = entry.model_class(published)
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


def _wrong_shape(tensor: Tensor, expected: tuple[int, ...] | None) -> str:
    if expected is None:
        return "torchvision has no such tensor"
    found = tuple(tensor.shape)
    return "" if found == expected else f"got {found}; expected {expected}"

"""Small image networks with random weights, one for each family, for the tests."""

from typing import Any

import torch
from torch import nn

from saccade.models.registry import IMAGE_MODELS

SMALL: dict[str, dict[str, Any]] = {
    "airbench": {"width": 4, "image_size": 20},
    "alexnet": {"width": 8, "hidden": 12, "grid": 2, "image_size": 64},
    "attention_cnn": {"width": 4, "heads": 2, "image_size": 16},
    "densenet121": {"width": 8, "growth": 4, "image_size": 32},
    "efficientnet_lite0": {"width": 4, "image_size": 40, "pretrained": False},
    "googlenet": {"width": 8, "image_size": 32},
    "lenet": {"image_size": 20},
    "nin": {"width": 6, "image_size": 32},
    "resnet18": {"width": 4, "image_size": 64},
    "resnet50": {"width": 4, "image_size": 32},
    "vgg11": {"width": 4, "hidden": 12, "grid": 1, "image_size": 32},
    "vgg13_bn": {"width": 4, "hidden": 12, "grid": 2, "image_size": 32},
    "vit": {"width": 8, "depth": 2, "heads": 2, "hidden": 12, "image_size": 16},
}


def small_network(name: str, **changed: Any) -> Any:
    """Return a network in float64, for evaluation, with random norms and running statistics."""
    torch.manual_seed(3)
    entry = IMAGE_MODELS[name]
    values = {"classes": 5, "channels": 3, **SMALL[name], **changed}
    model = entry.model_class(entry.config_class(name=name, **values))
    for key, tensor in (*model.named_parameters(), *model.named_buffers()):
        if key.endswith("running_var"):
            nn.init.uniform_(tensor, 0.5, 2.0)
        elif key.endswith("running_mean") or key.endswith("bias"):
            nn.init.normal_(tensor, 0.0, 0.3)
        elif tensor.dim() == 1 and tensor.is_floating_point():
            nn.init.uniform_(tensor, 0.5, 1.5)
    return model.double().eval()


def random_images(model: Any, count: int = 3) -> torch.Tensor:
    """Return random images of the size of a network."""
    return torch.randn(count, *model.image_shape, dtype=torch.float64)

r"""Base class of the image networks: images (B, C, Y, X) in, a logit for each class out.

    grid = model.feature_grid(images)       (B, D, Y', X'): one vector for each region of the image
    logits = model.classify_grid(grid)      (B, V)
    vectors = model.embed(images)           (B, D): the inputs of the output layer

A network that is too deep for the image size is refused when it is built: its layers are run on
torch's meta device, which computes shapes and no values.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.models.caption_config import CaptionerConfig
from saccade.models.image_config import ImageModelConfig
from saccade.nn.convolution import global_mean_pool
from saccade.nn.meta import run_on_meta
from saccade.nn.norm_folding import fold_batch_norm
from saccade.types.limits import MAX_IMAGE_SIZE
from saccade.types.shapes import Images


class ImageNetwork(nn.Module, ABC):
    """An image classifier: a grid of features, then the logits of the grid."""

    def __init__(self, config: ImageModelConfig):
        super().__init__()
        self.image_shape = (config.channels, config.image_size, config.image_size)
        sizes = {n: getattr(config, n) for n in ("classes", "channels", "image_size")}
        unset = ", ".join(f"{name}=0" for name, size in sizes.items() if not size)
        if unset:
            raise ConfigError(
                f"{config.name}: got {unset}; expected 1 or more; try the sizes of the data, such "
                "as classes=10, channels=3, image_size=32."
            )

    @abstractmethod
    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the last grid of features, one vector for each region of the image."""

    @abstractmethod
    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""

    def forward(self, images: Images) -> Float[Tensor, "B V"]:
        """Return the logits of each image."""
        return self.classify_grid(self.feature_grid(images))

    def embed(self, images: Images) -> Float[Tensor, "B D"]:
        """Return one vector for each image: the input of the output layer, without dropout."""
        return self.embed_grid(self.feature_grid(images))

    def embed_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B D2"]:
        """Return one vector for each grid of features: its mean, if no dense layers follow."""
        return global_mean_pool(grid)

    @property
    def output_name(self) -> str:
        """Name of the output layer, the last dense one; the layers before it compute `embed`."""
        return [name for name, part in self.named_modules() if isinstance(part, nn.Linear)][-1]

    def folded(self) -> nn.Module:
        """Return a copy for inference, with batch norms folded into their convolutions."""
        return fold_batch_norm(self, meta_images(self, *self.image_shape))


class DenseHeadNetwork(ImageNetwork):
    """Convolutions (`features`), mean pooling to a grid of fixed size, dense layers on it."""

    features: nn.Sequential
    avgpool: nn.AdaptiveAvgPool2d
    classifier: nn.Sequential

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the last max pooling."""
        return self.features(images)

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.classifier(self.avgpool(grid).flatten(1))

    def embed_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B D2"]:
        """Return the output of the last hidden layer."""
        return self.classifier[:-1](self.avgpool(grid).flatten(1))


def meta_images(layers: nn.Module, *image_shape: int) -> Images:
    """Return one image without values, of the number format of the layers."""
    return torch.empty(1, *image_shape, dtype=next(layers.parameters()).dtype, device="meta")


def scale_channels(published: int, width: int, published_width: int) -> int:
    """Return the channels of a stage in a network whose first stage has `width` channels."""
    return max(1, round(published * width / published_width))


def init_convolutions(model: nn.Module) -> None:
    """Initialise convolutions for ReLU by their fan-out (He et al. 2015), with biases 0."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


def check_image_size(
    layers: nn.Module, config: ImageModelConfig | CaptionerConfig, name: str = ""
) -> tuple[int, ...]:
    """Return the shape of the output for one image, or raise a ConfigError if a layer has none.

    Args:
        layers: a network, or the part of it that reads the images.
        config: the settings of the network.
        name: the name of that part in the network.
    """
    shape, failed = _trace(layers, config.channels, config.image_size)
    if shape is not None:
        return shape

    def reaches_the_end(size: int) -> bool:
        return _trace(layers, config.channels, size)[0] is not None

    largest = config.image_size
    while not reaches_the_end(largest := min(2 * largest, MAX_IMAGE_SIZE)):
        if largest == MAX_IMAGE_SIZE:
            raise ConfigError(f"{config.name}: no image has the pixels for all of its layers.")
    smallest = bisect_left(range(largest), True, lo=config.image_size + 1, key=reaches_the_end)
    layer = ".".join(part for part in (name, failed) if part)
    kind = type(layers.get_submodule(failed)).__name__
    raise ConfigError(
        f"{config.name}: got image_size={config.image_size}, which leaves no pixel for the layer "
        f"{layer} ({kind}); expected at least {smallest}; try image_size={smallest}, or a network "
        "with fewer layers that shrink the image."
    )


def _trace(layers: nn.Module, channels: int, size: int) -> tuple[tuple[int, ...] | None, str]:
    """Return the shape of the output for one image, or None and the layer that failed."""
    entered = [""]

    def enter(module: nn.Module, inputs: Any, name: str) -> None:
        entered.append(name)

    handles = [
        module.register_forward_pre_hook(lambda m, x, name=name: enter(m, x, name))
        for name, module in layers.named_modules()
        if not list(module.children())
    ]
    was_training = layers.training
    layers.eval()  # batch norm of one image has no variance in training
    try:
        output = run_on_meta(layers, meta_images(layers, channels, size, size))
    except RuntimeError:  # torch's, when an output would have no pixels
        return None, entered[-1]
    finally:
        layers.train(was_training)
        for handle in handles:
            handle.remove()
    return tuple(output.shape[1:]), ""

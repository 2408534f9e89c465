r"""Vision Transformer (Dosovitskiy et al. 2021): an image as a sequence of patches.

    x_i = W patch_i + p_i                 a linear map of the pixels of a patch, learned positions
    x = block(x), `depth` times           pre-norm Transformer blocks with GELU
    logits = W mean_i(norm(x_i)) + b

The patches are averaged, where the paper reads a class token (its appendix D.3 finds the two equal
with their own learning rates), so that the last grid is what the logits are computed from.
"""

from collections.abc import Iterable

from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.models.image_base import ImageNetwork, check_image_size
from saccade.models.image_config import VisionTransformerConfig
from saccade.nn.convolution import global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.nn.feedforward import FeedForward
from saccade.nn.positional_encoding import LearnedPositions
from saccade.nn.transformer import EncoderBlock, MultiHeadAttention
from saccade.types.shapes import Images


class VisionTransformer(ImageNetwork):
    """Transformer blocks over the patches of an image, averaged."""

    def __init__(self, config: VisionTransformerConfig):
        super().__init__(config)
        if config.image_size % config.patch_size:
            sizes = [n for n in range(1, config.image_size + 1) if config.image_size % n == 0]
            nearest = min(sizes, key=lambda size: abs(size - config.patch_size))
            raise ConfigError(
                f"vit: got image_size={config.image_size} and patch_size={config.patch_size}; "
                f"expected a patch size that divides the image size; try patch_size={nearest}."
            )
        width = config.width
        self.patches = nn.Conv2d(config.channels, width, config.patch_size, config.patch_size)
        self.positions = LearnedPositions(width, (config.image_size // config.patch_size) ** 2)
        self.dropout = Dropout(config.dropout)
        self.blocks = nn.ModuleList(
            EncoderBlock(
                MultiHeadAttention(width, config.heads),
                FeedForward(width, config.hidden, "gelu_exact"),
                config.dropout,
            )
            for _ in range(config.depth)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, config.classes)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the normalised vectors of the patches as a grid."""
        grid = self.patches(images)
        x = grid.flatten(2).transpose(1, 2)  # (B, T, D)
        x = self.dropout(x + self.positions(0, x.shape[1]))
        blocks: Iterable[nn.Module] = self.blocks
        for block in blocks:
            x = block(x)
        return self.norm(x).transpose(1, 2).unflatten(2, grid.shape[2:])

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.head(global_mean_pool(grid))

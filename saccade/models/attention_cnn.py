r"""A convolutional network with a self-attention layer over its grid.

    stage       maxpool_2(relu(bn(conv_3(x)))), `depth` times, with twice the channels each time
    attention   x_i + W_o Σ_j softmax_j((W_q n_i)ᵀ W_k n_j / √K) W_v n_j,   n = layer norm of x
    output      W mean_i(x_i) + b

i and j are the cells of the grid: a cell attends to all others, however far away, where a
convolution reaches its neighbours only (the block of Zhang et al. 2019, SAGAN, with several heads
and a norm before it, and without the scale γ that starts at 0). `capture_attention` records a map
over the grid for each cell. With `attention` false the network is the same without that layer.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, check_image_size, init_convolutions
from saccade.models.image_config import AttentionCNNConfig
from saccade.nn.convolution import Conv2d, global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.nn.transformer import MultiHeadAttention
from saccade.types.shapes import Images


class GridAttention(nn.Module):
    """Self-attention over the cells of a grid, with a norm before and a residual around it."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.self_attention = MultiHeadAttention(width, heads)

    def forward(self, grid: Images) -> Images:
        """Return the grid with what each cell attended to added."""
        cells = grid.flatten(2).transpose(1, 2)  # (B, T, D)
        attended = self.self_attention(self.norm(cells))
        return grid + attended.transpose(1, 2).unflatten(2, grid.shape[2:])


class AttentionCNN(ImageNetwork):
    """Convolution stages, self-attention over the grid, global mean."""

    def __init__(self, config: AttentionCNNConfig):
        super().__init__(config)
        layers: list[nn.Module] = []
        inputs = config.channels
        for stage in range(config.depth):
            outputs = config.width * 2**stage
            layers += [
                Conv2d(inputs, outputs, 3, padding=1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.MaxPool2d(2),
            ]
            inputs = outputs
        self.features = nn.Sequential(*layers)
        init_convolutions(self)
        self.attention = GridAttention(inputs, config.heads) if config.attention else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.fc = nn.Linear(inputs, config.classes)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after self-attention."""
        return self.attention(self.features(images))

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.fc(self.dropout(global_mean_pool(grid)))

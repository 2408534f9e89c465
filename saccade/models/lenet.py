r"""LeNet (LeCun et al. 1998): two convolutions with pooling, then three dense layers.

    features     pool(f(conv_k(x))), twice; the first convolution is padded by k/2
    classifier   W_3 f(W_2 f(W_1 features + b_1) + b_2) + b_3

The paper has 6 and 16 channels, k = 5, dense layers of 120 and 84, a scaled tanh, trained pooling
weights, a partial connection of the second convolution and radial basis functions as its output.
Textbooks simplify it to sigmoid, mean pooling, full connection and a softmax (`activation`
"sigmoid", `pooling` "mean"); the default here is the same with ReLU and max pooling.
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, check_image_size, scale_channels
from saccade.models.image_config import LeNetConfig
from saccade.nn.activations import ActivationLayer
from saccade.nn.convolution import POOLINGS
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images

PUBLISHED_WIDTH = 6


class LeNet(ImageNetwork):
    """Two convolutions with pooling and three dense layers; 61,706 weights for 28 × 28 digits."""

    def __init__(self, config: LeNetConfig):
        super().__init__(config)
        first, second, hidden, last = (
            scale_channels(channels, config.width, PUBLISHED_WIDTH) for channels in (6, 16, 120, 84)
        )
        kernel, pooling = config.kernel_size, POOLINGS[config.pooling]
        self.features = nn.Sequential(
            nn.Conv2d(config.channels, first, kernel, padding=kernel // 2),
            ActivationLayer(config.activation),
            pooling(2),
            nn.Conv2d(first, second, kernel),
            ActivationLayer(config.activation),
            pooling(2),
        )
        channels, height, width = check_image_size(self.features, config, "features")
        self.classifier = nn.Sequential(
            nn.Linear(channels * height * width, hidden),
            ActivationLayer(config.activation),
            nn.Linear(hidden, last),
            ActivationLayer(config.activation),
            Dropout(config.dropout),
            nn.Linear(last, config.classes),
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.xavier_uniform_(layer.weight)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the second pooling."""
        return self.features(images)

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.classifier(grid.flatten(1))

    def embed_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B D2"]:
        """Return the output of the last hidden layer."""
        return self.classifier[:-1](grid.flatten(1))

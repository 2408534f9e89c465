r"""Residual networks (He et al. 2016): y = relu(F(x) + shortcut(x)).

    basic        F = bn(conv_3) ∘ relu ∘ bn(conv_3)                       resnet18, resnet34
    bottleneck   F = bn(conv_1) ∘ relu ∘ bn(conv_3) ∘ relu ∘ bn(conv_1)   resnet50 and deeper

The shortcut is the identity, or bn(conv_1) where a block changes channels or size. The block has
only to learn the difference from its input, and the gradient reaches it through the shortcut
unchanged. The stride of a bottleneck is in its 3 × 3 convolution, as in torchvision, whose
parameter names these are (the paper has it in the first 1 × 1).
"""

from jaxtyping import Float
from torch import Tensor, nn

from saccade.models.image_base import ImageNetwork, check_image_size, init_convolutions
from saccade.models.image_config import ResNetConfig
from saccade.nn.convolution import Conv2d, global_mean_pool
from saccade.nn.dropout import Dropout
from saccade.types.shapes import Images


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions and a shortcut around them."""

    expansion = 1

    def __init__(self, inputs: int, width: int, stride: int = 1):
        super().__init__()
        self.conv1 = Conv2d(inputs, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = make_shortcut(inputs, width, stride)

    def forward(self, x: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return relu(F(x) + shortcut(x))."""
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


class Bottleneck(nn.Module):
    """A 3 × 3 convolution between 1 × 1 ones that divide and multiply the channels by four."""

    expansion = 4

    def __init__(self, inputs: int, width: int, stride: int = 1):
        super().__init__()
        outputs = width * self.expansion
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.downsample = make_shortcut(inputs, outputs, stride)

    def forward(self, x: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return relu(F(x) + shortcut(x))."""
        y = self.bn1(self.conv1(x)).relu()
        y = self.bn2(self.conv2(y)).relu()
        y = self.bn3(self.conv3(y))
        return (y + (x if self.downsample is None else self.downsample(x))).relu()


def make_shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential | None:
    """Return a 1 × 1 convolution with batch norm; None (the identity) if the shapes agree."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))


RESNET_STAGES: dict[str, tuple[type[BasicBlock | Bottleneck], tuple[int, ...]]] = {
    "resnet18": (BasicBlock, (2, 2, 2, 2)),
    "resnet34": (BasicBlock, (3, 4, 6, 3)),
    "resnet50": (Bottleneck, (3, 4, 6, 3)),
    "resnet101": (Bottleneck, (3, 4, 23, 3)),
    "resnet152": (Bottleneck, (3, 8, 36, 3)),
}


class ResNet(ImageNetwork):
    """A stem and four stages of residual blocks; each stage after the first halves the image."""

    def __init__(self, config: ResNetConfig):
        super().__init__(config)
        block, depths = RESNET_STAGES[config.name]
        width = config.width
        if config.has_small_stem:
            self.conv1 = nn.Conv2d(config.channels, width, 3, padding=1, bias=False)
        else:
            self.conv1 = nn.Conv2d(config.channels, width, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.maxpool = nn.Identity() if config.has_small_stem else nn.MaxPool2d(3, 2, padding=1)
        inputs, stages = width, []
        for stage, depth in enumerate(depths):
            blocks = []
            for index in range(depth):
                stride = 2 if stage > 0 and index == 0 else 1
                blocks.append(block(inputs, width * 2**stage, stride))
                inputs = width * 2**stage * block.expansion
            stages.append(nn.Sequential(*blocks))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.dropout = Dropout(config.dropout)
        self.fc = nn.Linear(inputs, config.classes)
        init_convolutions(self)
        check_image_size(self, config)

    def feature_grid(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the grid after the last stage."""
        x = self.maxpool(self.bn1(self.conv1(images)).relu())
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))

    def classify_grid(self, grid: Float[Tensor, "B D Y2 X2"]) -> Float[Tensor, "B V"]:
        """Return the logits of a grid of features."""
        return self.fc(self.dropout(global_mean_pool(grid)))

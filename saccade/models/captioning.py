r"""Captioning networks: an image becomes a grid of cells, a decoder generates words from it.

    x_i = W f_i + row(i) + column(i)      f_i: the features of cell i, by a convolutional encoder

`RecurrentCaptioner` (Xu et al. 2015) is the decoder of `bahdanau` with the
x_i as annotations: it attends before each step from its previous state. Soft attention may be
trained with the penalty λ Σ_i (1 - Σ_t α_ti)² (doubly stochastic attention, eq. 14), hard attention
by the score function (`attention_paths`). Without attention c_t is the mean of the x_i (Vinyals et
al. 2015 read the image once, before the first word). `CaptionTransformer` is the decoder of
`transformer` with the x_i as memory.

The receptive field of `conv_stages` is small: of 32 × 32 pixels a cell covers 4 × 4 and depends on
14 × 14, so that a word that names an object of 8 × 8 has to attend to a cell on it.

Differs from the paper in the learned positions of the cells, which a small receptive field does not
have by itself, in the readout (that of `bahdanau`), and in that there is no gate of the context.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.models.bahdanau import AttentiveDecoder, BahdanauMemory
from saccade.models.caption_config import (
    CaptionerConfig,
    CaptionTransformerConfig,
    RecurrentCaptionerConfig,
)
from saccade.models.config import TransformerConfig
from saccade.models.efficientnet_lite import EfficientNetLite
from saccade.models.image_base import ImageNetwork, check_image_size, init_convolutions
from saccade.models.image_config import EfficientNetLiteConfig, ResNetConfig
from saccade.models.resnet import ResNet
from saccade.models.transformer import (
    TransformerDecoder,
    TransformerMemory,
    make_decoder_block,
)
from saccade.nn.convolution import Conv2d
from saccade.nn.dropout import Dropout
from saccade.nn.embedding import TokenEmbedding
from saccade.nn.kv_cache import KVCache
from saccade.nn.masks import Mask
from saccade.nn.norm import NORMS
from saccade.nn.positional_encoding import SinusoidalPositions
from saccade.nn.rnn import CELLS
from saccade.types.shapes import DecoderState, Hidden, Images, Lengths, TokenIds

# of the initial positions: with 0.02 attention learns much later which cell is left of which
POSITION_DEVIATION = 0.5


# --- the encoder ----------------------------------------------------------------------------------


class FeatureGrid(nn.Module):
    """A published network without its output layer."""

    def __init__(self, network: ImageNetwork):
        super().__init__()
        self.network = network
        del network.fc  # a grid needs no classes

    def forward(self, images: Images) -> Float[Tensor, "B D Y2 X2"]:
        """Return the last grid of features."""
        return self.network.feature_grid(images)


def make_feature_layers(config: CaptionerConfig) -> nn.Module:
    """Return the layers that turn images into a grid of features."""
    sizes = {"classes": 1, "channels": config.channels, "image_size": config.image_size}
    if config.encoder == "resnet18":
        settings = ResNetConfig(name="resnet18", width=config.encoder_channels, **sizes)
        return FeatureGrid(ResNet(settings))
    if config.encoder == "efficientnet_lite0":
        lite = EfficientNetLiteConfig(
            width=config.encoder_channels,
            pretrained=config.pretrained,
            frozen=config.frozen,
            **sizes,
        )
        return FeatureGrid(EfficientNetLite(lite))
    return conv_stages(config.channels, config.encoder_channels, config.encoder_stages)


def conv_stages(channels: int, width: int, depth: int) -> nn.Sequential:
    """Return `depth` stages of 3 × 3 convolutions and a pooling, then a 1 × 1 convolution.

    The first stage has one convolution, the others two, of twice the channels of the stage before.
    The 1 × 1 convolution is a further layer of features with the same receptive field.
    """
    layers: list[nn.Module] = []
    inputs, outputs = channels, width
    for stage in range(depth):
        for _ in range(1 if stage == 0 else 2):
            layers += _convolution(inputs, outputs, 3)
            inputs = outputs
        layers.append(nn.MaxPool2d(2))
        outputs *= 2
    features = nn.Sequential(*layers, *_convolution(inputs, outputs, 1))
    init_convolutions(features)
    return features


def _convolution(inputs: int, outputs: int, size: int) -> list[nn.Module]:
    conv = Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
    return [conv, nn.BatchNorm2d(outputs), nn.ReLU()]


class GridEncoder(nn.Module):
    """Features of the cells of a grid, projected, with learned positions added."""

    def __init__(self, config: CaptionerConfig):
        super().__init__()
        sizes = {name: getattr(config, name) for name in ("vocab_size", "channels", "image_size")}
        if unset := ", ".join(f"{name}=0" for name, size in sizes.items() if not size):
            raise ConfigError(
                f"{config.name}: got {unset}; expected 1 or more; try the sizes of the data, such "
                "as vocab_size=100, channels=3, image_size=64."
            )
        self.features = make_feature_layers(config)
        channels, height, width = check_image_size(self.features, config, "encoder.features")
        self.grid_shape = (channels, height, width)
        self.has_frozen_features = config.has_frozen_encoder
        self.project = nn.Linear(channels, config.width)
        self.rows = nn.Parameter(POSITION_DEVIATION * torch.randn(height, 1, config.width))
        self.columns = nn.Parameter(POSITION_DEVIATION * torch.randn(1, width, config.width))
        self.dropout = Dropout(config.dropout)

    def forward(self, images: Images) -> Float[Tensor, "B S D"]:
        """Return the cells of images, row by row.

        Of frozen features the argument may be their grid, which is recognised by its shape: it is
        computed once for each image, not in each epoch.
        """
        is_grid = self.has_frozen_features and images.shape[1:] == self.grid_shape
        grid = images if is_grid else self.features(images)
        cells = self.project(grid.flatten(2).transpose(1, 2))
        return self.dropout(cells + (self.rows + self.columns).flatten(0, 1))


class Captioner(nn.Module):
    """Mixin of the networks that generate a caption of an image."""

    encoder: GridEncoder


# --- recurrent decoder ----------------------------------------------------------------------------


class AttendedHidden(NamedTuple):
    """Hidden vectors of T steps, and the attention weights of each."""

    hidden: Hidden
    weights: Float[Tensor, "B T S"]


class RecurrentCaptioner(AttentiveDecoder, Captioner):
    """Recurrent decoder that attends to the cells of an image, or reads their mean."""

    def __init__(self, config: RecurrentCaptionerConfig):
        super().__init__()
        self.encoder = GridEncoder(config)
        self.target = TokenEmbedding(config.vocab_size, config.width, dropout=config.dropout)
        self.state_shape = config.depth, CELLS[config.cell].state_vectors * config.width
        bridge = config.width, self.state_shape[0] * self.state_shape[1]
        self.has_attention = config.attention != "none"
        self.doubly_stochastic = config.doubly_stochastic if config.attention == "soft" else 0.0
        self.init_decoder(config, config.vocab_size, config.width, bridge)

    def encode(self, source: Images, lengths: Lengths | None) -> BahdanauMemory:
        """Compute the cells, their keys and values, and the decoder's initial state."""
        cells = self.encoder(source)
        mean = cells.mean(1)
        start = self.bridge(mean).tanh().unflatten(1, self.state_shape)
        if self.has_attention:
            return self.remember(cells, None, start)
        values = self.values(mean)[:, None, None]
        return BahdanauMemory(KVCache(values, values, 1), None, start)

    def decode_hidden(self, ids: TokenIds, state: DecoderState) -> tuple[Hidden, DecoderState]:
        """Decode T tokens step by step; without attention the context is always the mean."""
        if self.has_attention:
            return super().decode_hidden(ids, state)
        return self.decode_with(_repeat_mean, ids, state)

    def attended_hidden(self, images: Images, target_in: TokenIds) -> AttendedHidden:
        """Return the hidden vectors of a target, with the attention weights of each step."""
        steps = []

        def attend(query: Tensor, memory: KVCache, mask: Mask) -> Tensor:
            keys, values = memory.filled()
            weights = self.attention.weights(query, keys, mask)
            steps.append(weights[:, 0])
            return weights @ values

        hidden, _ = self.decode_with(attend, target_in, self.init_state(self.encode(images, None)))
        return AttendedHidden(hidden, torch.cat(steps, dim=1))


def _repeat_mean(query: Tensor, memory: KVCache, mask: Mask) -> Tensor:
    """Return the mean of the grid for each hypothesis."""
    mean = memory.filled()[1]
    return mean.repeat_interleave(len(query) // len(mean), dim=0)


def coverage_loss(
    weights: Float[Tensor, "B T S"], is_real: Bool[Tensor, "B T"]
) -> Float[Tensor, ""]:
    r"""Return Σ_i (1 - Σ_t α_ti)², summed over the captions (Xu et al. 2015, eq. 14).

    The softmax makes the weights of a word sum to 1 over the cells i; this makes those of a cell
    sum to about 1 over the real words t.
    """
    received = (weights * is_real[:, :, None]).sum(1)
    return (1 - received).square().sum()


# --- Transformer ----------------------------------------------------------------------------------


class CaptionTransformer(TransformerDecoder, Captioner):
    """Transformer decoder with cross-attention to the cells of an image."""

    def __init__(self, config: CaptionTransformerConfig):
        super().__init__()
        self.encoder = GridEncoder(config)
        positions = SinusoidalPositions(config.width)
        self.target = TokenEmbedding(config.vocab_size, config.width, positions, config.dropout)
        block = TransformerConfig(
            width=config.width, heads=config.heads, hidden=config.hidden, dropout=config.dropout
        )
        self.decoder = nn.ModuleList(make_decoder_block(block) for _ in range(config.depth))
        self.norm = block.norm
        self.encoder_norm, self.decoder_norm = (NORMS[self.norm](config.width) for _ in range(2))

    def encode(self, source: Images, lengths: Lengths | None) -> TransformerMemory:
        """Compute the cells, and their keys and values for every decoder layer."""
        return self.remember(self.encoder_norm(self.encoder(source)), None)

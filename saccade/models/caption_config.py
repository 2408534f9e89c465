"""Settings of the captioning networks. Does not import torch."""

import math
from typing import Literal

from pydantic import Field

from saccade.config import Config
from saccade.models.config import MAX_SAMPLES, GradientEstimator
from saccade.models.image_config import (
    MAX_POOLED_STAGES,
    EfficientNetLiteConfig,
    PretrainedImages,
)
from saccade.types.limits import (
    MAX_CHANNELS,
    MAX_DEPTH,
    MAX_IMAGE_SIZE,
    MAX_VALUE,
    MAX_VOCABULARY,
    MAX_WIDTH,
)
from saccade.types.names import ScoreName

# of the encoder `conv`, if its depth is not set
MAX_GRID_SIDE, MIN_STAGES = 8, 2


class CaptionerConfig(Config):
    """Settings that every captioning network has: the encoder of the image, and sizes."""

    name: str
    vocab_size: int = Field(0, ge=0, le=MAX_VOCABULARY)
    """Size of the vocabulary; set from the data."""
    channels: int = Field(0, ge=0, le=MAX_CHANNELS)
    """Number of channels of an image; set from the data."""
    image_size: int = Field(0, ge=0, le=MAX_IMAGE_SIZE)
    """Side of the square images, in pixels; set from the data."""
    encoder: Literal["conv", "resnet18", "efficientnet_lite0"] = "conv"
    """Network that turns an image into a grid of features: stages of convolutions and a pooling, a
    residual network, or EfficientNet-Lite0."""
    encoder_width: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Channels of the first stage of the encoder; 16 of `conv`, otherwise 32 if not set, which the
    weights of EfficientNet-Lite0 need."""
    encoder_depth: int | None = Field(None, ge=1, le=MAX_POOLED_STAGES)
    """Encoder `conv`: number of stages, each of which halves the image and doubles the channels; if
    not set, as many as leave at most 8 × 8 cells, at least 2."""
    pretrained: bool = True
    """Encoder `efficientnet_lite0`: start from weights trained on ImageNet (extra
    vision-weights)."""
    frozen: bool = True
    """Pretrained encoder: keep its weights; the grid of each image is then computed once."""
    width: int = Field(96, ge=1, le=MAX_WIDTH)
    """Width of embeddings, hidden states and cells of the grid."""
    depth: int = Field(1, ge=1, le=MAX_DEPTH)
    """Number of layers of the decoder."""
    dropout: float = Field(0.2, ge=0, lt=1)
    """Dropout probability."""

    @property
    def encoder_channels(self) -> int:
        """Channels of the first stage of the encoder."""
        return self.encoder_width or (16 if self.encoder == "conv" else 32)

    @property
    def encoder_stages(self) -> int:
        """Number of stages of the encoder `conv`."""
        stages = math.ceil(math.log2(max(self.image_size, 1) / MAX_GRID_SIDE))
        return self.encoder_depth or min(max(stages, MIN_STAGES), MAX_POOLED_STAGES)

    @property
    def pretrained_images(self) -> PretrainedImages | None:
        """The form of images that pretrained weights expect; None: that of the data."""
        has_weights = self.encoder == "efficientnet_lite0" and self.pretrained
        return EfficientNetLiteConfig().pretrained_images if has_weights else None

    @property
    def has_frozen_encoder(self) -> bool:
        """True if the encoder keeps its pretrained weights."""
        return self.pretrained_images is not None and self.frozen


class RecurrentCaptionerConfig(CaptionerConfig):
    """Settings of a recurrent decoder that reads the grid before each step."""

    cell: Literal["gru", "lstm"] = "lstm"
    """Recurrent cell."""
    attention: Literal["soft", "hard", "none"] = "soft"
    """Context of a word: a weighted mean of all cells, one sampled cell, or the mean of the
    grid."""
    score: ScoreName = "additive"
    """Attention score function."""
    doubly_stochastic: float = Field(0.0, ge=0, le=MAX_VALUE)
    """Soft attention: weight λ of Σ_i (1 - Σ_t α_ti)², by which each cell i gets a weight of 1 in
    all words t together; 1 in the paper."""
    temperature: float = Field(1.0, gt=0, le=MAX_VALUE)
    """Hard attention, straight through: temperature of the softmax whose gradient is used."""
    estimator: GradientEstimator = "score_function"
    """Hard attention: gradient of the sampled cells, by the score function (REINFORCE) with the
    log-likelihood of sampled paths as their reward, or straight through a softmax (biased)."""
    samples: int = Field(4, ge=2, le=MAX_SAMPLES)
    """Hard attention, score function: paths sampled of each caption; the mean reward of the others
    is the baseline of each."""


class AttentiveCaptionerConfig(RecurrentCaptionerConfig):
    """Settings of the recurrent decoder with attention to the grid (Xu et al. 2015)."""

    name: Literal["recurrent"] = "recurrent"


class MeanCaptionerConfig(RecurrentCaptionerConfig):
    """Settings of the recurrent decoder without attention: the mean of the grid at each step."""

    name: Literal["recurrent_mean"] = "recurrent_mean"
    attention: Literal["none"] = "none"
    """Context of a word: the mean of the grid."""


class CaptionTransformerConfig(CaptionerConfig):
    """Settings of the Transformer decoder with attention to the grid."""

    name: Literal["transformer"] = "transformer"
    depth: int = Field(2, ge=1, le=MAX_DEPTH)
    """Number of layers of the decoder."""
    heads: int = Field(4, ge=1, le=MAX_WIDTH)
    """Number of attention heads; it divides the width."""
    hidden: int | None = Field(None, ge=1, le=MAX_WIDTH)
    """Width of the feed-forward; 4 · width if not set."""

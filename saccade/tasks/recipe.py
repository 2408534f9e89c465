"""What a recipe is: four things, the same for every family."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.parallel import PairsConfig
from saccade.models import (
    BahdanauConfig,
    ConvolutionalConfig,
    LuongConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from saccade.training.settings import TrainConfig

TranslatorConfig = Annotated[
    Seq2SeqConfig | BahdanauConfig | LuongConfig | ConvolutionalConfig | TransformerConfig,
    Field(discriminator="name"),
]


class TranslationRecipe(Config):
    """Pairs of texts in, a translator out."""

    task: Literal["translate"] = "translate"
    data: PairsConfig = PairsConfig()
    model: TranslatorConfig = BahdanauConfig()
    train: TrainConfig = TrainConfig()

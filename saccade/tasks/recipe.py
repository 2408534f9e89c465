"""What a recipe is: four things, the same for every family."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.parallel.load import PairsConfig
from saccade.models import (
    BahdanauConfig,
    ConvSeq2SeqConfig,
    LuongConfig,
    Seq2SeqConfig,
    TransformerConfig,
)
from saccade.training.config import TrainConfig

TranslatorConfig = Annotated[
    Seq2SeqConfig | BahdanauConfig | LuongConfig | ConvSeq2SeqConfig | TransformerConfig,
    Field(discriminator="name"),
]


class TranslationRecipe(Config):
    """Pairs of texts in, a translator out."""

    task: Literal["translate"] = "translate"
    data: PairsConfig = PairsConfig()
    model: TranslatorConfig = BahdanauConfig()
    train: TrainConfig = TrainConfig()

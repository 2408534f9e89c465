"""What a recipe is: four things, the same for every family."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.parallel import PairsConfig
from saccade.models import BahdanauConfig, Seq2SeqConfig, TransformerConfig
from saccade.training import TrainConfig

TranslatorConfig = Annotated[
    Seq2SeqConfig | BahdanauConfig | TransformerConfig, Field(discriminator="name")
]


class TranslationRecipe(Config):
    """Pairs of texts in, a translator out."""

    task: Literal["translate"] = "translate"
    data: PairsConfig = PairsConfig()
    model: TranslatorConfig = BahdanauConfig()
    train: TrainConfig = TrainConfig()


Recipe = TranslationRecipe  # a union, once there are more tasks

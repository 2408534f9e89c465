"""Settings of the tabular task."""

from typing import Annotated, Literal

from pydantic import Field

from saccade.config import Config
from saccade.data.tables.schema import TableConfig
from saccade.estimators.svm.config import SVMConfig, SVRConfig
from saccade.models.choice import ModelChoice
from saccade.models.config import MLPConfig
from saccade.models.registry import TABULAR_MODELS, ModelEntry
from saccade.tasks.base import Recipe
from saccade.training.config import TrainConfig
from saccade.types.limits import MAX_VALUE

# models that solve for support vectors instead of being trained by steps
SUPPORT_VECTOR_MODELS = {
    "svm": ModelEntry(SVMConfig, "saccade.estimators.svm.svm:SVM"),
    "svr": ModelEntry(SVRConfig, "saccade.estimators.svm.svr:SVR"),
}
TABLE_MODELS = {**TABULAR_MODELS, **SUPPORT_VECTOR_MODELS}


class TableTrainConfig(TrainConfig):
    """Training settings, with the loss and its regularisation."""

    loss: (
        Literal["absolute_error", "cross_entropy", "exponential", "hinge", "huber", "squared_error"]
        | None
    ) = None
    """Loss; squared_error for numbers and cross_entropy for classes if not set."""
    penalty: float = Field(0.0, ge=0, le=MAX_VALUE)
    """λ of the penalty λ/2 ‖W‖²; biases are not penalised."""
    online: bool = False
    """Predict each row, then train on it, once and in file order (`saccade finetune --online`)."""


class TableRecipe(Recipe):
    """Train a model that predicts one column of a table from the others."""

    task: Literal["table"] = "table"
    data: TableConfig = TableConfig()
    model: Annotated[Config, ModelChoice(TABLE_MODELS)] = MLPConfig()
    train: TableTrainConfig = TableTrainConfig()

"""Capabilities of the tabular task, by recipe."""

from typing import Any

from torch import nn

from saccade.data.tables.schema import TableSchema
from saccade.models.registry import TABULAR_MODELS
from saccade.tasks.base import Components
from saccade.tasks.neural import build_network
from saccade.tasks.tabular.config import SUPPORT_VECTOR_MODELS, TableRecipe
from saccade.tasks.tabular.data import TableSplit
from saccade.tasks.tabular.evaluate import TableEvaluator
from saccade.tasks.tabular.inspect import SVMInspector, TableInspector
from saccade.tasks.tabular.objective import OnlineObjective, TabularObjective
from saccade.tasks.tabular.predict import RowPredictor
from saccade.tasks.tabular.svm import SVMFit, SVMModel

TableComponents = Components[TableRecipe, TableSchema, Any, TableSplit]


def build_table_network(recipe: TableRecipe, schema: TableSchema) -> nn.Module:
    """Build the network of a recipe."""
    model_class: type[nn.Module] = TABULAR_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


NETWORK = TableComponents(
    build_model=build_table_network,
    predictor=RowPredictor,
    evaluator=TableEvaluator,
    inspector=TableInspector,
    objective=TabularObjective,
)
ONLINE = TableComponents(
    build_model=build_table_network,
    predictor=RowPredictor,
    evaluator=TableEvaluator,
    inspector=TableInspector,
    objective=OnlineObjective,
)
SUPPORT_VECTORS = TableComponents(
    build_model=SVMModel,
    predictor=RowPredictor,
    evaluator=TableEvaluator,
    inspector=SVMInspector,
    estimator=SVMFit,
)


def table_components(recipe: TableRecipe) -> TableComponents:
    """Return the capabilities of a recipe: network, online network, or support vectors."""
    if recipe.model_name in SUPPORT_VECTOR_MODELS:
        return SUPPORT_VECTORS
    return ONLINE if recipe.train.online else NETWORK

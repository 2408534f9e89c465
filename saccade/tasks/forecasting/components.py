"""Capabilities of the forecasting task, by recipe."""

from typing import Any

from saccade.data.series_splits import SeriesSplit
from saccade.models.forecasting import ForecastModel
from saccade.models.registry import FORECASTING_MODELS
from saccade.tasks.base import Components
from saccade.tasks.forecasting.config import ForecastRecipe
from saccade.tasks.forecasting.data import Standardizer
from saccade.tasks.forecasting.evaluate import ForecastEvaluator
from saccade.tasks.forecasting.inspect import ForecastInspector
from saccade.tasks.forecasting.objective import ForecastObjective
from saccade.tasks.forecasting.predict import ForecastPredictor
from saccade.tasks.neural import build_network


def build_forecaster(recipe: ForecastRecipe, standardizer: Standardizer) -> ForecastModel:
    """Build the model of a recipe."""
    model_class: type[Any] = FORECASTING_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


_COMPONENTS = Components[ForecastRecipe, Standardizer, ForecastModel, SeriesSplit](
    build_model=build_forecaster,
    predictor=ForecastPredictor,
    evaluator=ForecastEvaluator,
    inspector=ForecastInspector,
    objective=ForecastObjective,
)


def forecasting_components(
    recipe: ForecastRecipe,
) -> Components[ForecastRecipe, Standardizer, ForecastModel, SeriesSplit]:
    """Return the capabilities of a recipe."""
    return _COMPONENTS

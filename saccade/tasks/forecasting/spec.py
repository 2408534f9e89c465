"""The forecasting task."""

from typing import Any

from saccade.models.registry import FORECASTING_MODELS
from saccade.tasks.base import Components, TaskSpec
from saccade.tasks.forecasting.config import ForecastModel, ForecastRecipe
from saccade.tasks.forecasting.data import (
    SYNTHETIC_SERIES,
    SeriesSpan,
    Standardizer,
    load_span,
    prepare_series,
)
from saccade.tasks.forecasting.evaluate import ForecastEvaluator
from saccade.tasks.forecasting.inspect import ForecastInspector
from saccade.tasks.forecasting.objective import ForecastObjective
from saccade.tasks.forecasting.predict import ForecastPredictor
from saccade.tasks.neural import build_network


def build_forecaster(recipe: ForecastRecipe, standardizer: Standardizer) -> ForecastModel:
    """Build the model of a recipe."""
    model_class: type[Any] = FORECASTING_MODELS[recipe.model_name].model_class
    return build_network(recipe, lambda: model_class(recipe.model))


_COMPONENTS = Components[ForecastRecipe, Standardizer, ForecastModel, SeriesSpan](
    build_model=build_forecaster,
    predictor=ForecastPredictor,
    evaluator=ForecastEvaluator,
    inspector=ForecastInspector,
    objective=ForecastObjective,
)

FORECASTING = TaskSpec(
    name="forecast",
    summary="time series: predict the next values",
    recipe=ForecastRecipe,
    models=FORECASTING_MODELS,
    synthetic=SYNTHETIC_SERIES,
    datasets={},
    prepare=prepare_series,
    load_split=load_span,
    read_preprocessor=Standardizer.from_json,
    components=lambda recipe: _COMPONENTS,
    transferable_data_settings=("lags",),
)

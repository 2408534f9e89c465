"""The forecasting task. Does not import torch."""

from saccade.data.records.role_names import TASK_ROLES
from saccade.data.time_series import SYNTHETIC_SERIES
from saccade.models.registry import FORECASTING_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.forecasting.config import ForecastRecipe

FORECASTING: AnyTaskSpec = TaskSpec(
    name="forecast",
    summary="time series: predict the next values",
    recipe=ForecastRecipe,
    models=FORECASTING_MODELS,
    synthetic=SYNTHETIC_SERIES,
    datasets={},
    prepare=import_when_called("saccade.tasks.forecasting.data:prepare_series"),
    load_split=import_when_called("saccade.tasks.forecasting.data:load_series_split"),
    read_preprocessor=import_when_called("saccade.tasks.forecasting.data:Standardizer.from_json"),
    components=import_when_called("saccade.tasks.forecasting.components:forecasting_components"),
    roles=TASK_ROLES["forecast"],
    transferable_data_settings=("lags",),
)

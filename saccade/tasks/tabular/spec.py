"""The tabular task. Does not import torch."""

from saccade.data.records.role_names import TASK_ROLES
from saccade.data.synthetic.tables import SYNTHETIC_TABLES
from saccade.data.tables.schema import TableSchema
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.tabular.config import TABLE_MODELS, TableRecipe

TABULAR: AnyTaskSpec = TaskSpec(
    name="table",
    summary="tables: predict one column from the others",
    recipe=TableRecipe,
    models=TABLE_MODELS,
    synthetic=SYNTHETIC_TABLES,
    datasets={},
    prepare=import_when_called("saccade.tasks.tabular.data:prepare_table"),
    load_split=import_when_called("saccade.tasks.tabular.data:load_table_split"),
    model_sizes=TableSchema.model_sizes,
    read_preprocessor=TableSchema.from_json,
    components=import_when_called("saccade.tasks.tabular.components:table_components"),
    roles=TASK_ROLES["table"],
    transferable_data_settings=(
        "target_type",
        "categories",
        "ignore",
        "min_count",
        "target",
        "weight",
    ),
)

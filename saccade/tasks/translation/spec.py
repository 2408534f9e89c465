"""The translation task. Does not import torch."""

from saccade.data.datasets import PAIR_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.synthetic.registry import SYNTHETIC_PAIRS
from saccade.models.registry import TRANSLATION_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.translation.config import TranslationRecipe

TRANSLATION: AnyTaskSpec = TaskSpec(
    name="translate",
    summary="sequence to sequence: translate pairs of texts",
    recipe=TranslationRecipe,
    models=TRANSLATION_MODELS,
    synthetic=SYNTHETIC_PAIRS,
    datasets=PAIR_DATASETS,
    prepare=import_when_called("saccade.tasks.translation.data:prepare_pairs"),
    load_split=import_when_called("saccade.tasks.translation.data:load_pair_split"),
    model_sizes=import_when_called("saccade.tasks.translation.data:vocabulary_sizes"),
    read_preprocessor=import_when_called("saccade.tasks.translation.data:TokenizerPair.from_json"),
    components=import_when_called("saccade.tasks.translation.components:translation_components"),
    roles=TASK_ROLES["translate"],
    transferable_data_settings=("tokenizer",),
)

"""The language modelling task. Does not import torch."""

from saccade.data.datasets import TEXT_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.text.corpus import SYNTHETIC_TEXTS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.language_modeling.config import ALL_LANGUAGE_MODELS, LanguageRecipe

LANGUAGE_MODELING: AnyTaskSpec = TaskSpec(
    name="language",
    summary="language modelling: from n-grams to GPT",
    recipe=LanguageRecipe,
    models=ALL_LANGUAGE_MODELS,
    synthetic=SYNTHETIC_TEXTS,
    datasets=TEXT_DATASETS,
    prepare=import_when_called("saccade.tasks.language_modeling.data:prepare_text"),
    load_split=import_when_called("saccade.tasks.language_modeling.data:load_text"),
    model_sizes=lambda tokenizer: {"vocab_size": tokenizer.vocab_size},
    read_preprocessor=import_when_called("saccade.data.tokenizers:tokenizer_from_json"),
    components=import_when_called("saccade.tasks.language_modeling.components:language_components"),
    roles=TASK_ROLES["language"],
    transferable_data_settings=("tokenizer",),
)

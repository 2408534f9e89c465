"""The task of masked language modelling. Does not import torch."""

from saccade.data.datasets import TEXT_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.text.corpus import SYNTHETIC_TEXTS
from saccade.models.registry import BERT_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.masked_language_modeling.config import BertRecipe

MASKED_LANGUAGE_MODELING: AnyTaskSpec = TaskSpec(
    name="bert",
    summary="pretraining of BERT: masked tokens and next sentences",
    recipe=BertRecipe,
    models=BERT_MODELS,
    synthetic=SYNTHETIC_TEXTS,
    datasets=TEXT_DATASETS,
    prepare=import_when_called("saccade.tasks.masked_language_modeling.data:prepare_pretraining"),
    load_split=import_when_called("saccade.tasks.masked_language_modeling.data:load_stream"),
    model_sizes=lambda tokenizer: {"vocab_size": tokenizer.vocab_size},
    read_preprocessor=import_when_called("saccade.data.tokenizers:tokenizer_from_json"),
    components=import_when_called("saccade.tasks.masked_language_modeling.components:components"),
    roles=TASK_ROLES["bert"],
    transferable_data_settings=("tokenizer", "sequence_length", "pairs"),
)

"""The text classification task. Does not import torch."""

from saccade.data.records.role_names import TASK_ROLES
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec, Transfer
from saccade.tasks.text_classification.config import TEXT_CLASSIFIERS, ClassifyRecipe
from saccade.tasks.text_classification.data import (
    SYNTHETIC_LABELLED_TEXTS,
    load_texts,
    prepare_labelled_texts,
)
from saccade.tasks.text_classification.texts import LabelVocabulary

TEXT_CLASSIFICATION: AnyTaskSpec = TaskSpec(
    name="classify",
    summary="text classification: predict the label of a text",
    recipe=ClassifyRecipe,
    models=TEXT_CLASSIFIERS,
    synthetic=SYNTHETIC_LABELLED_TEXTS,
    datasets={},
    prepare=prepare_labelled_texts,
    load_split=load_texts,
    model_sizes=LabelVocabulary.model_sizes,
    read_preprocessor=LabelVocabulary.from_json,
    components=import_when_called("saccade.tasks.text_classification.components:text_components"),
    torch_free=lambda recipe: not recipe.is_network,
    roles=TASK_ROLES["classify"],
    transfers={
        "bert": Transfer(
            LabelVocabulary.from_tokenizer, (), ("dropout", "pooling"), models=("bert", "prompt")
        )
    },
)

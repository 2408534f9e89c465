"""The tagging task. Does not import torch."""

from saccade.data.datasets import TAGGED_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.models.registry import TAGGING_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec, Transfer
from saccade.tasks.tagging.config import TagRecipe
from saccade.tasks.tagging.data import SYNTHETIC_TAGGED, load_tagged, prepare_tagged
from saccade.tasks.tagging.sentences import TagVocabulary

TAGGING: AnyTaskSpec = TaskSpec(
    name="tag",
    summary="tagging: predict a tag for each token, such as names of people and places",
    recipe=TagRecipe,
    models=TAGGING_MODELS,
    synthetic=SYNTHETIC_TAGGED,
    datasets=TAGGED_DATASETS,
    prepare=prepare_tagged,
    load_split=load_tagged,
    model_sizes=TagVocabulary.model_sizes,
    read_preprocessor=TagVocabulary.from_json,
    components=import_when_called("saccade.tasks.tagging.components:tag_components"),
    roles=TASK_ROLES["tag"],
    transferable_data_settings=("min_count",),
    transfers={
        "bert": Transfer(TagVocabulary.from_tokenizer),
        "language": Transfer(TagVocabulary.empty, own_model_settings=("dropout",)),
    },
)

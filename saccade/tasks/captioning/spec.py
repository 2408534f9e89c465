"""The captioning task. Does not import torch."""

from saccade.data.datasets import CAPTION_DATASETS
from saccade.data.images.captions import SYNTHETIC_CAPTIONS
from saccade.data.records.role_names import TASK_ROLES
from saccade.models.registry import CAPTION_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.captioning.config import CaptionRecipe

CAPTIONING: AnyTaskSpec = TaskSpec(
    name="caption",
    summary="images: generate a caption",
    recipe=CaptionRecipe,
    models=CAPTION_MODELS,
    synthetic=SYNTHETIC_CAPTIONS,
    datasets=CAPTION_DATASETS,
    prepare=import_when_called("saccade.tasks.captioning.data:prepare_captions"),
    load_split=import_when_called("saccade.tasks.captioning.data:load_captions"),
    model_sizes=import_when_called("saccade.tasks.captioning.data:CaptionTransform.model_sizes"),
    read_preprocessor=import_when_called(
        "saccade.tasks.captioning.data:CaptionTransform.from_json"
    ),
    components=import_when_called("saccade.tasks.captioning.components:caption_components"),
    roles=TASK_ROLES["caption"],
    transferable_data_settings=("fit", "image", "caption"),
    scratch_name="images",
)

"""The task of contrastive learning. Does not import torch."""

from functools import partial

from saccade.data.datasets import IMAGE_DATASETS
from saccade.data.images.published import SYNTHETIC_IMAGES
from saccade.data.images.transform import ImageTransform
from saccade.data.records.role_names import TASK_ROLES
from saccade.models.registry import IMAGE_MODELS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.contrastive.data import prepare_contrastive
from saccade.tasks.image_classification.data import load_images

CONTRASTIVE: AnyTaskSpec = TaskSpec(
    name="contrastive",
    summary="images: learn features without labels (SimCLR)",
    recipe=ContrastiveRecipe,
    models=IMAGE_MODELS,
    synthetic=SYNTHETIC_IMAGES,
    datasets=IMAGE_DATASETS,
    prepare=prepare_contrastive,
    load_split=load_images,
    model_sizes=ImageTransform.pixel_sizes,
    read_preprocessor=partial(ImageTransform.from_json, min_labels=0),
    components=import_when_called("saccade.tasks.contrastive.components:contrastive_components"),
    roles=TASK_ROLES["contrastive"],
    transferable_data_settings=("fit", "image", "label"),
    scratch_name="images",
)

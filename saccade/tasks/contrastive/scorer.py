"""Features and projections of images by a contrastive network. Keeps no state."""

from saccade.data.images.transform import ImageTransform
from saccade.models.contrastive import ContrastiveNetwork
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.image_classification.scorer import ImageEncoder


class ContrastiveScorer(ImageEncoder):
    """A contrastive network with the preprocessor of its images."""

    def __init__(
        self, recipe: ContrastiveRecipe, model: ContrastiveNetwork, transform: ImageTransform
    ):
        super().__init__(recipe, model.encoder, transform)
        self.settings, self.augment, self.model = recipe.train, recipe.data.augment, model

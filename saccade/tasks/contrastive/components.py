"""Capabilities of contrastive learning."""

from saccade.data.images.transform import ImageTransform
from saccade.models.contrastive import ContrastiveNetwork
from saccade.tasks.base import Components
from saccade.tasks.contrastive.config import ContrastiveRecipe
from saccade.tasks.contrastive.evaluate import ContrastiveEvaluator
from saccade.tasks.contrastive.inspect import ContrastiveInspector
from saccade.tasks.contrastive.network import build_contrastive_network
from saccade.tasks.contrastive.objective import ContrastiveObjective
from saccade.tasks.contrastive.predict import FeaturePredictor
from saccade.tasks.contrastive.scorer import ContrastiveScorer
from saccade.tasks.image_classification.data import ImageSplit

ContrastiveComponents = Components[
    ContrastiveRecipe, ImageTransform, ContrastiveNetwork, ImageSplit
]

CONTRASTIVE_NETWORK = ContrastiveComponents(
    build_model=build_contrastive_network,
    predictor=lambda *given: FeaturePredictor(ContrastiveScorer(*given)),
    evaluator=lambda *given: ContrastiveEvaluator(ContrastiveScorer(*given)),
    inspector=lambda *given: ContrastiveInspector(ContrastiveScorer(*given)),
    objective=ContrastiveObjective,
)


def contrastive_components(recipe: ContrastiveRecipe) -> ContrastiveComponents:
    """Return the capabilities of a recipe: all models are networks."""
    return CONTRASTIVE_NETWORK

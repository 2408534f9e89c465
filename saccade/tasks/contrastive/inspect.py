"""Map of the features, filters, feature maps, and invariance checks."""

from collections.abc import Mapping

from saccade.errors import ConfigError
from saccade.inspection.attention_map import AttentionMap
from saccade.inspection.figures import Figure
from saccade.tasks.base import AttentionKey
from saccade.tasks.contrastive.predict import FeaturePredictor
from saccade.tasks.contrastive.scorer import ContrastiveScorer
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.inspect import ImageFeatureInspector


class ContrastiveInspector(ImageFeatureInspector):
    """Shows the features of images."""

    def __init__(self, scorer: ContrastiveScorer):
        super().__init__(scorer, FeaturePredictor(scorer))

    def attention_maps(
        self, text: str, answer: str | None = None
    ) -> dict[AttentionKey, AttentionMap]:
        """Refuse an image: there is no class whose regions could be shown."""
        raise ConfigError(
            "got an image for features without classes; expected --embedding, --filters or "
            "--features LAYER; try a run of the task image that starts from this one (saccade "
            "train image --init-from RUN)."
        )

    def figures(self, splits: Mapping[str, ImageSplit]) -> dict[str, Figure]:
        """Return the map of the features of the test split."""
        return {"embedding.png": self.embedding_map(splits["test"])}

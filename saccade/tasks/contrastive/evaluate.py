"""Loss, alignment and uniformity of views; linear probe and nearest neighbours of the features."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from saccade.data.images.transform import ImageTransform
from saccade.data.samplers import evenly_spaced_rows
from saccade.errors import ConfigError
from saccade.estimators.baselines import majority_class
from saccade.estimators.logistic_regression import fit_logistic
from saccade.estimators.nearest_neighbours import classify_by_neighbours
from saccade.metrics.classification import accuracy
from saccade.nn.contrastive import alignment, nt_xent_of_views, uniformity
from saccade.seeding import generator
from saccade.tasks.base import Evaluator
from saccade.tasks.contrastive.network import build_contrastive_network
from saccade.tasks.contrastive.objective import ViewMaker
from saccade.tasks.contrastive.scorer import ContrastiveScorer
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.evaluate import small_pixels
from saccade.tasks.neural import device_of
from saccade.types.arrays import FloatArray, IntArray
from saccade.types.progress import Progress, ignore_progress
from saccade.types.results import ComparisonMetric, Evaluation

MAX_REFERENCE_IMAGES = 5000  # labelled training images of the probe and the neighbours
PROBE_STEPS = 300
NEIGHBOURS = 20
NO_LABELS = "the images have no labels"
NO_REFERENCE = "the labelled training images are not given with other data"


class ContrastiveEvaluator(Evaluator[ImageSplit]):
    """Loss of two views of each image, and what the frozen features know of the labels."""

    headline = ("loss", "linear_probe", "knn_accuracy", "alignment", "uniformity")

    def __init__(self, scorer: ContrastiveScorer):
        self.scorer = scorer
        if scorer.labels:
            self.metric = ComparisonMetric("linear_probe", higher_is_better=True, factor=100.0)

    def evaluate(
        self,
        split: ImageSplit,
        *,
        limit: int | None = None,
        options: Mapping[str, Any] | None = None,
        on_progress: Progress = ignore_progress,
    ) -> Evaluation:
        """Return the metrics of a split; those of labels where there are some."""
        self.refuse_options(options, "the features of an image are computed, not searched for")
        some = split.take(limit)
        if len(some) < 2:
            raise ConfigError("got one image; expected two or more, which the loss compares.")
        metrics, conventions = self._compare_views(some)
        omitted: dict[str, str] = {}
        reason = _why_not_probed(some, self.scorer.labels)
        if reason is None:
            found = probe(self.scorer, some, limit, on_progress)
            metrics |= found
            conventions |= _probe_conventions(some)
        else:
            omitted = dict.fromkeys(("linear_probe", "knn_accuracy"), reason)
        metrics["examples"] = float(len(some))
        return Evaluation(metrics, conventions, omitted=omitted, notes=split.notes)

    @torch.no_grad()
    def _compare_views(self, split: ImageSplit) -> tuple[dict[str, float], dict[str, str]]:
        """Return loss, alignment and uniformity of the projections, over batches of equal size."""
        scorer, settings = self.scorer, self.scorer.settings
        maker = ViewMaker(scorer.augment, scorer.transform, settings.seed)
        order = generator(settings.seed, "order of the evaluation").permutation(len(split))
        count = -(-len(split) // settings.batch_tokens)
        model, device = scorer.model, device_of(scorer.model)
        was_training = model.training
        model.eval()
        sums = np.zeros(4)
        for step, rows in enumerate(np.array_split(order, count)):
            views = torch.cat(maker.views(split.pixels_at(rows), step)).to(device)
            one, two = model(views).double().chunk(2)
            found = nt_xent_of_views(one, two, settings.temperature)
            even = uniformity(one) if len(one) > 1 else one.new_zeros(())
            values = (found.each.mean(), found.correct / len(views), alignment(one, two), even)
            sums += len(rows) * np.array([float(value) for value in values])
        model.train(was_training)
        loss, correct, aligned, even_ = (sums / len(split)).tolist()
        size = -(-len(split) // count)
        metrics = {
            "loss": loss,
            "pair_accuracy": correct,
            "alignment": aligned,
            "uniformity": even_,
        }
        conventions = {
            "loss": f"mean NT-Xent of two views, in batches of {size} images, "
            f"temperature {settings.temperature:g}",
            "pair_accuracy": f"views whose other view is nearest among {2 * size - 1}",
            "alignment": "mean squared distance of two views on the sphere; 0 is best",
            "uniformity": "log mean exp(-2 d²) of different images on the sphere; lower is more "
            "even",
        }
        return metrics, conventions

    def floors(self, train: ImageSplit, split: ImageSplit) -> dict[str, dict[str, float]]:
        """Return the probes of the most frequent class, an untrained network, and of pixels."""
        if _why_not_probed(split, self.scorer.labels) is not None:
            return {}
        known = train.classes[train.classes >= 0]
        majority = majority_class(known, split.classes, unknown=-1).metrics["accuracy"]
        recipe, transform = self.scorer.recipe, self.scorer.transform
        return {
            "majority class": {"linear_probe": majority, "knn_accuracy": majority},
            "same network, untrained": probe(_untrained(recipe, transform), split),
            "pixels": _probe_pixels(split, len(self.scorer.labels)),
        }

    def inputs(self, split: ImageSplit) -> list[Any]:
        """Return the decoded images."""
        return list(split.pixels_at(np.arange(len(split))))


def _untrained(recipe: Any, transform: ImageTransform) -> ContrastiveScorer:
    return ContrastiveScorer(recipe, build_contrastive_network(recipe, transform), transform)


def _why_not_probed(split: ImageSplit, labels: list[str]) -> str | None:
    """Return the reason why features cannot be compared with labels; None: they can."""
    if len(labels) < 2 or not (split.classes >= 0).any():
        return NO_LABELS
    return NO_REFERENCE if split.reference is None else None


def _probe_conventions(split: ImageSplit) -> dict[str, str]:
    trained = "" if split.is_held_out else "; on images that were trained on"
    known = f"of up to {MAX_REFERENCE_IMAGES:,} labelled training images{trained}"
    return {
        "linear_probe": f"accuracy of logistic regression on the frozen features {known}",
        "knn_accuracy": f"accuracy of a vote of the {NEIGHBOURS} nearest {known}",
    }


def labelled_reference(split: ImageSplit, limit: int | None = None) -> ImageSplit:
    """Return labelled training images, evenly spread, of which the classes are learned."""
    assert split.reference is not None
    reference = split.reference
    rows = np.flatnonzero(reference.classes >= 0)
    count = min(limit or MAX_REFERENCE_IMAGES, MAX_REFERENCE_IMAGES)
    rows = rows[evenly_spaced_rows(len(rows), count)]
    return ImageSplit(
        reference.pixels,
        reference.rows[rows],
        reference.classes[rows],
        [reference.names[row] for row in rows.tolist()],
    )


def probe(
    scorer: ContrastiveScorer,
    split: ImageSplit,
    limit: int | None = None,
    on_progress: Progress = ignore_progress,
) -> dict[str, float]:
    """Return the accuracies of a linear probe and of nearest neighbours on the features."""
    reference = labelled_reference(split, limit)
    return probe_vectors(
        scorer.split_features(reference, on_progress),
        reference.classes,
        scorer.split_features(split, on_progress),
        split.classes,
        len(scorer.labels),
    )


def _probe_pixels(split: ImageSplit, num_classes: int) -> dict[str, float]:
    reference = labelled_reference(split)
    return probe_vectors(
        small_pixels(reference, np.arange(len(reference))),
        reference.classes,
        small_pixels(split, np.arange(len(split))),
        split.classes,
        num_classes,
    )


def probe_vectors(
    known: FloatArray,
    known_classes: IntArray,
    vectors: FloatArray,
    classes: IntArray,
    num_classes: int,
) -> dict[str, float]:
    """Return how well vectors predict classes: linearly, standardised, and by neighbours."""
    mean, deviation = known.mean(0), known.std(0)
    scale = np.where(deviation > 1e-8, deviation, 1.0)
    model = fit_logistic((known - mean) / scale, known_classes, num_classes, max_steps=PROBE_STEPS)
    linear = model.logits((vectors - mean) / scale).argmax(1)
    near = classify_by_neighbours(vectors, known, known_classes, num_classes, count=NEIGHBOURS)
    return {
        "linear_probe": accuracy(classes, linear),
        "knn_accuracy": accuracy(classes, near),
    }

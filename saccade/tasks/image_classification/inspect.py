"""Maps of the regions that led to a class, contact sheets, filters, and invariance checks."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from saccade.errors import ConfigError
from saccade.inspection.attention import capture_attention, has_attention
from saccade.inspection.checks import BATCH_INVARIANCE, RELOAD_CONSISTENCY, CheckResult
from saccade.inspection.figures import ConfusionMatrix, Figure
from saccade.inspection.image_figures import EmbeddingMap, ImageGrid, ImageMap, ImageMaps
from saccade.inspection.image_maps import (
    attention_grid,
    enlarge_map,
    grad_cam,
    occlusion_map,
)
from saccade.inspection.invariants import LOGIT_TOLERANCE
from saccade.inspection.projection import project_pca, spread_rows
from saccade.nn.hooks import thread_hooks
from saccade.registry import lookup
from saccade.tasks.base import Inspector
from saccade.tasks.image_classification.data import ImageSplit
from saccade.tasks.image_classification.evaluate import score_images
from saccade.tasks.image_classification.predict import ImagePredictor, ImageReader
from saccade.tasks.image_classification.scorer import ImageEncoder, ImageScorer
from saccade.types.arrays import FloatArray

SHEET_IMAGES = 25  # of a contact sheet
MAX_TILES = 64  # filters or feature maps of a picture
OCCLUDED_SHARE = 4  # a square of a quarter of the side
OCCLUSION_STEPS = 16  # squares along a side, about
MAX_MATRIX_CLASSES = 2000
MAX_EMBEDDED_IMAGES = 2000
THUMBNAILS = 24  # of a map of features


class ImageFeatureInspector(Inspector[ImageSplit]):
    """Shows filters, feature maps and the features of the images of a split."""

    has_attention = False

    def __init__(self, scorer: ImageEncoder, predictor: ImageReader):
        self.scorer, self.network, self.predictor = scorer, scorer.network, predictor

    def example_input(self, split: ImageSplit) -> str:
        """Return the name of a held-out image."""
        return split.names[0] if len(split) else ""

    def views(self) -> dict[str, str]:
        """Return the map of the features, filters and feature maps."""
        return {
            "--embedding": "the features of the held-out images in two dimensions",
            "--filters": "the kernels of the first convolution",
            "IMAGE --features LAYER": "the feature maps of a layer",
        }

    def embedding_map(self, split: ImageSplit) -> EmbeddingMap:
        """Return the features of at most 2,000 images of a split, projected by PCA."""
        some = split.take(MAX_EMBEDDED_IMAGES)
        projection = project_pca(self.scorer.split_features(some))
        drawn = spread_rows(projection.coordinates, THUMBNAILS)
        return EmbeddingMap(
            projection.coordinates,
            projection.variance_ratios,
            some.classes,
            self.scorer.labels,
            some.names,
            drawn,
            list(some.pixels_at(drawn)),
        )

    # --- filters and features ---------------------------------------------------------------------

    def filters(self) -> ImageGrid:
        """Return the kernels of the first convolution."""
        return first_filters(self.network, self.scorer.recipe.model_name)

    def feature_maps(self, raw: Any, layer: str) -> ImageGrid:
        """Return the channels that a layer computes of an image."""
        images = self.scorer.inputs(self.predictor.pixels(raw)[None])
        return layer_channels(self.network, layer, lambda: self.network.eval()(images))

    # --- checks -----------------------------------------------------------------------------------

    def checks(self, split: ImageSplit, count: int) -> Iterator[CheckResult]:
        """Check that the outputs of an image do not depend on the others of its batch."""
        pixels = split.take(count).pixels_at(np.arange(min(count, len(split))))
        together = self.scorer.outputs(pixels)
        alone = np.concatenate([self.scorer.outputs(image[None]) for image in pixels])
        yield _compare(BATCH_INVARIANCE, together, alone)

    def compare_reloaded(self, other: Any, split: ImageSplit, count: int) -> CheckResult:
        """Check that the reloaded model gives the same outputs."""
        pixels = split.take(count).pixels_at(np.arange(min(count, len(split))))
        reloaded = type(self.scorer)(self.scorer.recipe, other, self.scorer.transform)
        return _compare(RELOAD_CONSISTENCY, self.scorer.outputs(pixels), reloaded.outputs(pixels))


class ImageInspector(ImageFeatureInspector):
    """Shows which regions of an image led to its class."""

    def __init__(self, scorer: ImageScorer):
        super().__init__(scorer, ImagePredictor(scorer))
        self.classifier, self.model = scorer, scorer.model
        self.image_methods: tuple[str, ...] = ("grad_cam", "occlusion")
        if has_attention(scorer.model):
            self.image_methods = (*self.image_methods, "attention")

    def views(self) -> dict[str, str]:
        """Return maps of an image, and those of all image networks."""
        return {"IMAGE": "the regions that led to the class", **super().views()}

    # --- maps of one image ------------------------------------------------------------------------

    def image_maps(
        self, raw: Any, method: str | None = None, output: str | None = None
    ) -> ImageMaps:
        """Return maps of one image for its class, or for `output`, by one method or by all."""
        pixels = self.predictor.pixels(raw)
        probabilities = self.classifier.probabilities(pixels[None])[0]
        chosen = int(probabilities.argmax())
        if output is not None:
            chosen = lookup(self.scorer.transform.label_ids, output, "class")
        methods = self.image_methods
        if method is not None:
            lookup(dict.fromkeys(methods), method, "map of this model")
            methods = (method,)
        image = self.scorer.inputs(pixels[None])[0]
        maps = [self._map(name, image, chosen) for name in methods]
        return ImageMaps(
            pixels,
            self.scorer.labels[chosen],
            float(probabilities[chosen]),
            [found for found in maps if found is not None],
            self.predictor.parse(raw, 1).name,
        )

    def _map(self, method: str, image: Tensor, output: int) -> ImageMap | None:
        model, size = self.model.eval(), (image.shape[1], image.shape[2])
        if method == "grad_cam":
            found = grad_cam(model.feature_grid, model.classify_grid, image, output)
            values = enlarge_map(found, size)
            return ImageMap("Grad-CAM", _array(values), "weighted sum of the last features")
        if method == "occlusion":
            side = max(1, size[0] // OCCLUDED_SHARE)

            def probability(images: Tensor) -> Tensor:
                return model(images).softmax(1)[:, output]

            stride = max(1, size[0] // OCCLUSION_STEPS)
            values = occlusion_map(probability, image, side, stride)
            description = f"drop of the probability without {side} × {side} pixels"
            return ImageMap("Occlusion", _array(values), description, is_signed=True)
        with torch.no_grad(), capture_attention(model) as captured:
            model(image[None])
        for name in reversed(captured.names()):
            grid = attention_grid(captured.weights(name)[0])
            if grid is not None:
                return ImageMap("Attention", _array(enlarge_map(grid, size)), f"layer {name}")
        return None

    # --- report -----------------------------------------------------------------------------------

    def figures(self, splits: Mapping[str, ImageSplit]) -> dict[str, Figure]:
        """Return the confusion matrix and the most confident mistakes of the test split."""
        scored = score_images(self.classifier, splits["test"])
        figures: dict[str, Figure] = {}
        if len(scored.labels) <= MAX_MATRIX_CLASSES:
            figures["confusion.png"] = ConfusionMatrix(scored.confusion, scored.labels)
        rows = scored.mistakes(SHEET_IMAGES)
        if len(rows):
            captions = [
                f"{found['true']}\n→ {found['probability']:.0%} {found['predicted']}"
                for found in scored.describe_mistakes(SHEET_IMAGES)
            ]
            tiles = list(scored.split.pixels_at(rows))
            figures["mistakes.png"] = ImageGrid(
                tiles, captions, "True class → most confident mistake"
            )
        return figures


@torch.no_grad()
def layer_channels(model: nn.Module, layer: str, compute: Callable[[], object]) -> ImageGrid:
    """Return the channels that a layer of a network computes when `compute` is called."""
    names = dict(model.named_modules())
    kinds = (nn.Conv2d, nn.modules.pooling._MaxPoolNd, nn.modules.pooling._AvgPoolNd)
    grids = [name for name, part in names.items() if name and isinstance(part, kinds)]
    if layer not in names or not layer:
        lookup(dict.fromkeys(grids), layer, "layer")
    outputs: list[Tensor] = []

    def record(name: str, module: Any, inputs: Any, output: Tensor) -> None:
        outputs.append(output)

    with thread_hooks({layer: names[layer]}, record):
        compute()
    if not outputs or not isinstance(outputs[0], Tensor) or outputs[0].dim() != 4:
        raise ConfigError(
            f"got the layer {layer}, whose output is no grid of features; try one of "
            f"{', '.join(grids)}."
        )
    channels = outputs[0][0].double().cpu().numpy()
    tiles = list(channels[:MAX_TILES])
    captions = [str(number) for number in range(1, len(tiles) + 1)]
    return ImageGrid(tiles, captions, f"{len(tiles)} of {len(channels)} channels of {layer}")


def first_filters(model: nn.Module, model_name: str) -> ImageGrid:
    """Return the kernels of the first convolution of a network."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Conv2d):
            kernels = layer.weight.detach().double().cpu().numpy()
            tiles = [_kernel_tile(kernel) for kernel in kernels[:MAX_TILES]]
            captions = [str(number) for number in range(1, len(tiles) + 1)]
            title = f"{len(tiles)} of {len(kernels)} filters of {name}"
            return ImageGrid(tiles, captions, title)
    raise ConfigError(f"got {model_name}, which has no convolution; try saccade look RUN IMAGE.")


def _array(values: Tensor) -> FloatArray:
    return values.detach().double().cpu().numpy()


def _kernel_tile(kernel: FloatArray) -> FloatArray:
    """Return a kernel (C, Y, X) as a picture: of 3 channels in colour, of others their mean."""
    return kernel.transpose(1, 2, 0) if len(kernel) == 3 else kernel.mean(0)


def _compare(invariant: str, one: FloatArray, two: FloatArray) -> CheckResult:
    difference = float(np.abs(one - two).max(initial=0.0))
    scale = max(1.0, float(np.abs(one).max(initial=0.0)))
    return CheckResult(invariant, len(one), difference / scale, LOGIT_TOLERANCE[torch.float32])

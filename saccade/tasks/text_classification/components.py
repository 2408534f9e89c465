"""The capabilities of each kind of text classifier. Does not import torch."""

from collections.abc import Callable, Mapping
from typing import Any

from saccade.registry import LazyRegistry
from saccade.tasks.base import Components
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.evaluate import LabelEvaluator
from saccade.tasks.text_classification.inspect import LabelInspector
from saccade.tasks.text_classification.predict import LabelPredictor
from saccade.tasks.text_classification.scorer import Calibration, LabelScorer, fit_calibration
from saccade.tasks.text_classification.texts import LabelVocabulary, TextSplit

TextComponents = Components[ClassifyRecipe, LabelVocabulary, Any, TextSplit]
MakeScorer = Callable[[ClassifyRecipe, Any, LabelVocabulary], LabelScorer]

# by model; other networks have one kind
_KINDS: LazyRegistry[TextComponents] = LazyRegistry(
    {
        "bert": "saccade.tasks.text_classification.bert:BERT_CLASSIFIER",
        "fasttext": "saccade.tasks.text_classification.fasttext:FASTTEXT",
        "ngrams": "saccade.tasks.text_classification.ngrams:NGRAMS",
        "prompt": "saccade.tasks.text_classification.prompt:PROMPT_CLASSIFIER",
        "network": "saccade.tasks.text_classification.neural:TEXT_NETWORK",
    }
)


def text_components(recipe: ClassifyRecipe) -> TextComponents:
    """Return the capabilities of a recipe."""
    has_own = recipe.model_name in _KINDS
    return _KINDS[recipe.model_name if has_own else "network"]


def make_components(
    make_scorer: MakeScorer,
    set_calibration: Callable[[Any, Calibration], None] | None,
    **parts: Any,
) -> TextComponents:
    """Return the capabilities that follow from a scorer, with those of training in `parts`.

    `set_calibration` sets the calibration of a trained model; None: training does it itself.
    """

    def calibrate(
        recipe: ClassifyRecipe,
        model: Any,
        vocabulary: LabelVocabulary,
        splits: Mapping[str, TextSplit],
    ) -> None:
        assert set_calibration is not None
        scorer = make_scorer(recipe, model, vocabulary)
        set_calibration(model, fit_calibration(scorer, splits["dev"]))

    return TextComponents(
        predictor=lambda *given: LabelPredictor(make_scorer(*given)),
        evaluator=lambda *given: LabelEvaluator(make_scorer(*given)),
        inspector=lambda *given: LabelInspector(make_scorer(*given)),
        calibrate=None if set_calibration is None else calibrate,
        **parts,
    )


def keep_calibration(model: Any, calibration: Calibration) -> None:
    """Set the calibration of a model that fits itself."""
    model.calibration = calibration

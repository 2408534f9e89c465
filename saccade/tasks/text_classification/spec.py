"""The text classification task."""

from saccade.data.records.role_names import TASK_ROLES
from saccade.estimators.fasttext_classifier import FastTextClassifier
from saccade.tasks.base import Components, TaskSpec
from saccade.tasks.text_classification.config import ClassifyRecipe
from saccade.tasks.text_classification.data import (
    SYNTHETIC_LABELLED_TEXTS,
    EncodedTexts,
    LabelVocabulary,
    load_texts,
    prepare_labelled_texts,
)
from saccade.tasks.text_classification.evaluate import LabelEvaluator
from saccade.tasks.text_classification.inspect import LabelInspector
from saccade.tasks.text_classification.model import ClassifierFit, TextClassifier
from saccade.tasks.text_classification.predict import LabelPredictor

_COMPONENTS = Components[ClassifyRecipe, LabelVocabulary, TextClassifier, EncodedTexts](
    build_model=TextClassifier,
    predictor=LabelPredictor,
    evaluator=LabelEvaluator,
    inspector=LabelInspector,
    estimator=ClassifierFit,
)

TEXT_CLASSIFICATION = TaskSpec(
    name="classify",
    summary="text classification: predict the label of a text",
    recipe=ClassifyRecipe,
    models={"fasttext": FastTextClassifier},
    synthetic=SYNTHETIC_LABELLED_TEXTS,
    datasets={},
    prepare=prepare_labelled_texts,
    load_split=load_texts,
    read_preprocessor=LabelVocabulary.from_json,
    components=lambda recipe: _COMPONENTS,
    roles=TASK_ROLES["classify"],
    torch_free=True,
)

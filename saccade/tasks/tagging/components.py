"""Capabilities of the tagging task."""

from typing import Any

import torch

from saccade.data.tagging.schemes import allowed_moves
from saccade.models.bert_tagger import BertTagger
from saccade.models.elmo_tagger import ElmoTagger, copy_elmo
from saccade.models.registry import TAGGING_MODELS
from saccade.models.taggers import Tagger, WordTagger
from saccade.models.tagging_config import WordTaggerConfig
from saccade.tasks.base import Components
from saccade.tasks.neural import build_network
from saccade.tasks.tagging.config import TagRecipe
from saccade.tasks.tagging.evaluate import TagEvaluator
from saccade.tasks.tagging.inspect import TagInspector
from saccade.tasks.tagging.objective import TagObjective
from saccade.tasks.tagging.predict import TagPredictor
from saccade.tasks.tagging.scorer import TagScorer
from saccade.tasks.tagging.sentences import TaggedSplit, TagVocabulary
from saccade.tasks.tagging.vectors import read_static_vectors
from saccade.types.word_ids import FIRST_WORD

TagComponents = Components[TagRecipe, TagVocabulary, Tagger, TaggedSplit]


def build_tagger(recipe: TagRecipe, vocabulary: TagVocabulary) -> Tagger:
    """Build the network of a recipe; its CRF allows the moves that BIO tags can have."""
    model_class: type[Tagger] = TAGGING_MODELS[recipe.model_name].model_class

    def make() -> Tagger:
        model = model_class(recipe.model)
        if model.crf is not None:
            allowed = allowed_moves(vocabulary.tags, vocabulary.is_bio)
            model.crf.allow_only(*map(torch.from_numpy, allowed))
        return model

    return build_network(recipe, make)


def load_word_vectors(recipe: TagRecipe, model: Tagger, vocabulary: TagVocabulary) -> str | None:
    """Copy the vectors of the file that the settings name into the network of a new run."""
    config = recipe.model
    if not isinstance(config, WordTaggerConfig) or config.vectors is None:
        return None
    assert isinstance(model, WordTagger)
    vectors = read_static_vectors(config.vectors)
    ids = {word: number for number, word in enumerate(vocabulary.words, FIRST_WORD)}
    rows = torch.tensor([ids[word] for word in vectors.words])
    with torch.no_grad():
        model.words.weight[rows] = torch.from_numpy(vectors.rows)
    return config.vectors


def copy_pretrained(model: Tagger, other: Any) -> None:
    """Copy the encoder of a run of another task: BERT or ELMo."""
    if isinstance(model, ElmoTagger):
        copy_elmo(model, other)
    else:
        assert isinstance(model, BertTagger)
        weights, own = other.encoder.state_dict(), model.encoder.state_dict()
        model.encoder.load_state_dict({name: weights[name] for name in own})


def _inspector(*given: Any) -> TagInspector:
    scorer = TagScorer(*given)
    return TagInspector(scorer, TagPredictor(scorer))


TAGGER = TagComponents(
    build_model=build_tagger,
    predictor=lambda *given: TagPredictor(TagScorer(*given)),
    evaluator=lambda *given: TagEvaluator(TagScorer(*given)),
    inspector=_inspector,
    objective=TagObjective,
    initialise=load_word_vectors,
    transfer_weights=copy_pretrained,
)


def tag_components(recipe: TagRecipe) -> TagComponents:
    """Return the capabilities of a recipe."""
    return TAGGER

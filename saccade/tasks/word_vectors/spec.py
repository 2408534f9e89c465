"""The word vector task. Does not import torch."""

from saccade.data.datasets import TEXT_DATASETS
from saccade.data.records.role_names import TASK_ROLES
from saccade.data.text.corpus import SYNTHETIC_TEXTS
from saccade.registry import import_when_called
from saccade.tasks.base import AnyTaskSpec, TaskSpec
from saccade.tasks.word_vectors.config import WORD_MODELS, VectorsRecipe

WORD_VECTORS: AnyTaskSpec = TaskSpec(
    name="vectors",
    summary="word vectors: word2vec, GloVe, fastText and baselines",
    recipe=VectorsRecipe,
    models=WORD_MODELS,
    synthetic=SYNTHETIC_TEXTS,
    datasets=TEXT_DATASETS,
    prepare=import_when_called("saccade.tasks.word_vectors.data:prepare_words"),
    load_split=import_when_called("saccade.tasks.word_vectors.data:load_benchmark"),
    read_preprocessor=import_when_called("saccade.data.text.word_corpus:WordVocabulary.from_json"),
    components=import_when_called("saccade.tasks.word_vectors.components:word_vector_components"),
    torch_free=lambda recipe: True,
    roles=TASK_ROLES["vectors"],
)

"""Formats to export to and import from, and inference engines, by name.

The tables are lazy: looking up a name imports its module.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from saccade.registry import LazyRegistry
from saccade.types.progress import Progress
from saccade.types.results import Prediction


class ModelParts(NamedTuple):
    """The parts of a trained model that an export needs."""

    recipe: Any  # settings: task, data, model, train
    preprocessor: Any  # tokenizers or words, as the task holds them
    model: Any  # the model with its weights loaded
    weights: Mapping[str, Any]  # tensors, or arrays for models without torch
    checksum: str  # of the weights, stored with the export to detect stale ones


class ImportedModel(Protocol):
    """A model that was read from another tool's format."""

    @property
    def recipe(self) -> dict[str, Any]:
        """Settings as plain values."""
        ...

    @property
    def vocabulary(self) -> Any:
        """Tokenizers or words, as the task holds them."""
        ...

    @property
    def weights(self) -> dict[str, Any]:
        """Tensors or arrays by name."""
        ...


class InferenceEngine(Protocol):
    """An export opened for inference."""

    def predict(
        self,
        texts: Sequence[str],
        *,
        first: int = 1,
        on_progress: Progress = ...,
        **options: Any,
    ) -> list[Prediction]:
        """Return a prediction for each text, in order."""
        ...

    def truncate(self, text: str) -> str:
        """Return the longest prefix of a text that the model takes."""
        ...


ExportFunction = Callable[[ModelParts, Path, dict[str, Any]], None]  # parts, output path, options
ImportFunction = Callable[[Path], ImportedModel]

EXPORTS: LazyRegistry[ExportFunction] = LazyRegistry(
    {
        "ctranslate2": "saccade.interop.ctranslate2.export:export_parts_to_ctranslate2",
        "fasttext": "saccade.interop.word_vectors:export_fasttext",
        "glove": "saccade.interop.word_vectors:export_glove",
        "huggingface": "saccade.interop.huggingface_gpt2:export_parts_to_huggingface",
        "torchvision": "saccade.interop.torchvision:export_parts_to_torchvision",
        "word2vec": "saccade.interop.word_vectors:export_word2vec",
        "word2vec-binary": "saccade.interop.word_vectors:export_word2vec_binary",
    }
)
IMPORTS: LazyRegistry[ImportFunction] = LazyRegistry(
    {
        "bert": "saccade.interop.bert_import:import_bert",
        "fasttext": "saccade.interop.word_vectors:import_fasttext_vectors",
        "glove": "saccade.interop.word_vectors:import_text_vectors",
        "gpt1": "saccade.interop.gpt2_import:import_gpt1",
        "gpt2": "saccade.interop.gpt2_import:import_gpt2",
        "sentence-transformers": "saccade.interop.sentence_transformers:import_sentence_bert",
        "word2vec": "saccade.interop.word_vectors:import_text_vectors",
        "word2vec-binary": "saccade.interop.word_vectors:import_binary_vectors",
    }
)
# for a process that has not imported torch; arguments: run folder, whether scores are needed
ENGINES: LazyRegistry[Callable[[Path, bool], InferenceEngine]] = LazyRegistry(
    {"ctranslate2": "saccade.interop.ctranslate2.engine:CTranslate2Engine"}
)
# the same in a process of its own, for a program that has imported torch; argument: run folder
SUBPROCESS_ENGINES: LazyRegistry[Any] = LazyRegistry(
    {"ctranslate2": "saccade.interop.ctranslate2.subprocess:SubprocessEngine"}
)

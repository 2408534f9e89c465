"""Semantic search: the sentences of a file that are nearest to a query.

The vectors of the file are computed once and stored in the folder `index` of the run, with a
fingerprint of the sentences and of the weights; they are computed again if one of them changes.
"""

import json
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple

from saccade.data.records.base import ReadOptions
from saccade.data.task_records import RoleOptions
from saccade.data.text.sentences import open_sentences
from saccade.errors import ConfigError, RunError
from saccade.estimators.vector_index import (
    MAX_EXACT_VECTORS,
    ExactIndex,
    GraphIndex,
    VectorIndex,
    build_index,
)
from saccade.io.atomic import write_atomically
from saccade.io.tensors import read_arrays, write_arrays
from saccade.tasks.embedding.scorer import SentenceScorer
from saccade.types.progress import Progress, ignore_progress

INDEX_FOLDER = "index"
FINGERPRINT_CHARS = 16  # of the names of the files of an index


class SearchableSentences(NamedTuple):
    """The sentences of a file, and the index of their vectors."""

    texts: list[str]
    vectors: VectorIndex
    is_new: bool  # False: it was read


def read_corpus(path: str | Path, options: ReadOptions | None = None) -> list[str]:
    """Return the different sentences of a file, in its order."""
    if not Path(path).exists():
        raise ConfigError(f"got no file {path} to search in; expected a text or a table.")
    opened = open_sentences(path, options or RoleOptions(), is_other=True)
    texts = list(dict.fromkeys(row.text for row in opened))
    if not texts:
        raise ConfigError(f"{path}: got no sentence to search in; expected one in each line.")
    return texts


def open_index(
    scorer: SentenceScorer,
    path: str | Path,
    folder: Path | None,
    on_progress: Progress = ignore_progress,
    max_exact: int = MAX_EXACT_VECTORS,
) -> SearchableSentences:
    """Return the sentences of a file with their index, read from the run or built.

    Args:
        scorer: encoder of the sentences.
        path: the file.
        folder: of the run, where the index is kept; None: it is not kept.
        max_exact: number of sentences above which the search is approximate.
    """
    texts = read_corpus(path)
    key = {"sentences": _hash(texts), "weights": weights_fingerprint(scorer)}
    name = blake2b(str(Path(path).resolve()).encode(errors="surrogatepass"), digest_size=8)
    stored = None if folder is None else folder / INDEX_FOLDER / name.hexdigest()
    if stored is not None and (index := _read_index(stored, key, len(texts))) is not None:
        return SearchableSentences(texts, index, is_new=False)
    index = build_index(scorer.vectors(texts, on_progress), max_exact)
    if stored is not None:
        with suppress(OSError):  # a folder that cannot be written to
            _write_index(stored, key, index)
    return SearchableSentences(texts, index, is_new=True)


def weights_fingerprint(scorer: SentenceScorer) -> str:
    """Return a short hash of what vectors depend on: weights, tokenizer, settings of the model."""
    digest = blake2b(scorer.recipe.model.model_dump_json().encode(), digest_size=16)
    digest.update(json.dumps(scorer.tokenizer.to_json(), sort_keys=True).encode())
    for name, tensor in sorted(scorer.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _hash(texts: list[str]) -> str:
    digest = blake2b(digest_size=16)
    for text in texts:
        digest.update(text.encode(errors="surrogatepass") + b"\n")
    return digest.hexdigest()


def _read_index(stored: Path, key: dict[str, str], count: int) -> VectorIndex | None:
    """Return the stored index; None if there is none, or it is of other sentences or weights."""
    path = stored.with_suffix(".safetensors")
    if not path.exists():
        return None
    try:
        arrays, found = read_arrays(path)
        if found.get("key") != key:
            return None
        graph = stored.with_suffix(".usearch")
        index = GraphIndex.load(graph) if found["is_graph"] else ExactIndex(arrays["vectors"])
    except (RunError, KeyError, OSError):  # damaged: it is built again
        return None
    return index if len(index) == count else None


def _write_index(stored: Path, key: dict[str, str], index: VectorIndex) -> None:
    stored.parent.mkdir(parents=True, exist_ok=True)
    metadata: dict[str, Any] = {"key": key, "is_graph": isinstance(index, GraphIndex)}
    arrays = {"vectors": index.vectors} if isinstance(index, ExactIndex) else {}
    if isinstance(index, GraphIndex):
        temporary = stored.with_suffix(".tmp")
        index.save(temporary)
        write_atomically(stored.with_suffix(".usearch"), temporary.read_bytes())
        temporary.unlink()
    write_arrays(stored.with_suffix(".safetensors"), arrays, metadata)

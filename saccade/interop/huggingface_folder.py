"""Files of a folder that Hugging Face's `save_pretrained` wrote: JSON, vocabularies, weights."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from saccade.config import short_repr
from saccade.errors import DataError
from saccade.io.documents import parse_json
from saccade.io.file_kinds import check_regular_file
from saccade.types.limits import MAX_VOCABULARY

PICKLE_NAMES = ("pytorch_model.bin", "*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
SHARD_INDEX = "model.safetensors.index.json"
SAVE_ADVICE = "try save_pretrained of transformers, which writes model.safetensors."
FROM_TRANSFORMERS = "try the folder that save_pretrained of transformers wrote."

Refuse = Callable[[str], DataError]  # reason → error


def read_document(path: Path, title: str) -> str:
    """Return the text of a file; `title` names the model of the folder."""
    check_regular_file(path)
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise DataError(
            f"{path} is missing. Is {path.parent} the folder of a {title}? {FROM_TRANSFORMERS}"
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(f"{path} could not be read: {error}.") from None


def read_json_object(path: Path, title: str) -> dict[str, Any]:
    """Return a JSON object; `title` names the model of the folder."""
    try:
        values = parse_json(read_document(path, title))
    except ValueError as error:
        raise DataError(f"{path} is not JSON: {error}; {FROM_TRANSFORMERS}") from None
    if not isinstance(values, dict):
        raise DataError(f"{path}: got {short_repr(values)}; expected a JSON object.")
    return values


def check_vocabulary(found: Any, refuse: Refuse) -> dict[str, int]:
    """Return a vocabulary if it maps tokens to ids; else raise what `refuse` returns."""
    if not isinstance(found, dict):
        raise refuse(f"its vocabulary is {short_repr(found)}")
    for token, id in found.items():
        if type(id) is not int or not 0 <= id <= MAX_VOCABULARY:
            raise refuse(f"the id of {short_repr(token)} is {short_repr(id)}; expected an integer")
    return found


def added_tokens(values: dict[str, Any], refuse: Refuse) -> dict[str, int]:
    """Return the tokens that a tokenizer.json adds to its vocabulary."""
    listed = values.get("added_tokens") or []
    try:
        return check_vocabulary({token["content"]: token["id"] for token in listed}, refuse)
    except (KeyError, TypeError) as error:
        raise refuse(f"its added_tokens have another structure ({error})") from None


def check_weights_exist(path: Path, title: str) -> None:
    """Raise a DataError with the reason if there are no weights as one safetensors file."""
    if not path.exists():
        pickles = [found.name for name in PICKLE_NAMES for found in path.parent.glob(name)]
        reason = f"expected {title}'s weights as safetensors"
        if pickles:
            reason = (
                f"got {pickles[0]}, a pickle, which may execute code when it is opened; expected "
                "safetensors"
            )
        elif (path.parent / SHARD_INDEX).exists():
            reason = "got weights in several files; expected one; save with max_shard_size='10GB'"
        raise DataError(f"{path} is missing: {reason}; {SAVE_ADVICE}")

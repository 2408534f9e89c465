"""Tokenizers of BERT and RoBERTa in Hugging Face's layout: only tokens and settings are read."""

from pathlib import Path
from typing import Any, NamedTuple

from saccade.config import short_repr
from saccade.data.byte_pieces import BytePieceTokenizer
from saccade.data.wordpiece import (
    BERT_SPECIAL_TOKENS,
    CONTINUATION,
    MAX_WORD_CHARS,
    WordPieceTokenizer,
)
from saccade.errors import DataError
from saccade.interop.huggingface_folder import (
    FROM_TRANSFORMERS,
    added_tokens,
    check_vocabulary,
    read_document,
    read_json_object,
)

_BERT = "BERT"
_TOKENIZER_VALUES: dict[str, tuple[Any, ...]] = {  # that the model of tokenizer.json may have
    "type": ("WordPiece",),
    "unk_token": ("[UNK]",),
    "continuing_subword_prefix": (CONTINUATION,),
    "max_input_chars_per_word": (MAX_WORD_CHARS,),
}
_ROBERTA = "RoBERTa"
_ROBERTA_SPECIAL_TOKENS = ("<pad>", "<s>", "</s>", "<unk>", "<mask>")  # in the order of ours


class BertTokens(NamedTuple):
    """A tokenizer, and the row of the embeddings for each of its ids."""

    tokenizer: WordPieceTokenizer
    rows: list[int]


# --- tokenizer ------------------------------------------------------------------------------------


def read_bert_tokenizer(folder: Path) -> BertTokens:
    """Return the WordPiece tokenizer of tokenizer.json, or without it of vocab.txt."""
    path = folder / "tokenizer.json"
    if not path.exists():
        return _read_vocabulary_lines(folder)

    def refuse(reason: str) -> DataError:
        return DataError(
            f"{path} is not a WordPiece tokenizer like BERT's ({reason}); {FROM_TRANSFORMERS}"
        )

    values = read_json_object(path, _BERT)
    model, normaliser = values.get("model"), values.get("normalizer")
    if not isinstance(model, dict):
        raise refuse(f"its model is {short_repr(model)}")
    for name, allowed in _TOKENIZER_VALUES.items():
        # files of old versions do not name the type
        if model.get(name, allowed[0] if name == "type" else None) not in allowed:
            raise refuse(f"its {name} is {short_repr(model.get(name))}")
    if not isinstance(normaliser, dict) or normaliser.get("type") != "BertNormalizer":
        raise refuse(f"its normalizer is {short_repr(normaliser)}")
    if values.get("pre_tokenizer") != {"type": "BertPreTokenizer"}:
        raise refuse(f"its pre-tokenizer is {short_repr(values.get('pre_tokenizer'))}")
    settings = {
        "lowercase": normaliser.get("lowercase", True),
        "strip_accents": normaliser.get("strip_accents"),
        "split_chinese": normaliser.get("handle_chinese_chars", True),
    }
    if normaliser.get("clean_text", True) is not True:
        raise refuse("its normalizer keeps control characters")
    for name, value in settings.items():
        if value not in (True, False) and not (name == "strip_accents" and value is None):
            raise refuse(f"{name} of its normalizer is {short_repr(value)}")
    vocabulary = check_vocabulary(model.get("vocab"), refuse) | added_tokens(values, refuse)
    return _make_tokenizer(path, vocabulary, settings)


def _read_vocabulary_lines(folder: Path) -> BertTokens:
    """Return the tokenizer of a vocab.txt, with one token per line."""
    path = folder / "vocab.txt"
    lines = [line.removesuffix("\r") for line in read_document(path, _BERT).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    vocabulary = {token: id for id, token in enumerate(lines)}
    if len(vocabulary) < len(lines):
        repeated = next(token for id, token in enumerate(lines) if vocabulary[token] != id)
        raise DataError(
            f"{path}: got the token {short_repr(repeated)} twice; expected distinct tokens."
        )
    settings_path = folder / "tokenizer_config.json"
    given = read_json_object(settings_path, _BERT) if settings_path.exists() else {}
    settings = {
        "lowercase": given.get("do_lower_case", True),
        "strip_accents": given.get("strip_accents"),
        "split_chinese": given.get("tokenize_chinese_chars", True),
    }
    for name, value in settings.items():
        if value not in (True, False) and not (name == "strip_accents" and value is None):
            raise DataError(
                f"{settings_path}: got {short_repr(value)} for {name}; expected a bool."
            )
    return _make_tokenizer(path, vocabulary, settings)


def _make_tokenizer(path: Path, vocabulary: dict[str, int], settings: dict[str, Any]) -> BertTokens:
    """Return the tokenizer with the special tokens first, and the rows of its tokens."""
    missing = [token for token in BERT_SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise DataError(
            f"{path}: got no token {', '.join(missing)}; expected BERT's special tokens "
            f"{', '.join(BERT_SPECIAL_TOKENS)}; {FROM_TRANSFORMERS}"
        )
    if len({*vocabulary.values()}) < len(vocabulary):
        raise DataError(f"{path}: got two tokens with one id; expected an id for each token.")
    others = sorted(vocabulary.keys() - {*BERT_SPECIAL_TOKENS}, key=vocabulary.__getitem__)
    try:
        tokenizer = WordPieceTokenizer(others, **settings)
    except (ValueError, UnicodeError) as error:
        raise DataError(f"{path}: {error}") from None
    return BertTokens(tokenizer, [vocabulary[token] for token in tokenizer.tokens])


def read_roberta_tokenizer(folder: Path) -> BertTokens:
    """Return the byte-level BPE of tokenizer.json, or without it of vocab.json and merges.txt."""
    path = folder / "tokenizer.json"
    if not path.exists():
        path = folder / "vocab.json"

    def refuse(reason: str) -> DataError:
        return DataError(
            f"{path} is not a byte-level tokenizer like RoBERTa's ({reason}); {FROM_TRANSFORMERS}"
        )

    values = read_json_object(path, _ROBERTA)
    if path.name == "vocab.json":
        lines = read_document(folder / "merges.txt", _ROBERTA).split("\n")
        merges: Any = [line for line in lines if line and not line.startswith("#version")]
        vocabulary = check_vocabulary(values, refuse)
    else:
        model, splits = values.get("model"), values.get("pre_tokenizer")
        if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
            raise refuse(f"its model is {short_repr(model)}")
        if values.get("normalizer") is not None:
            raise refuse(f"its normalizer is {short_repr(values['normalizer'])}")
        if not isinstance(splits, dict) or splits.get("type") != "ByteLevel":
            raise refuse(f"its pre-tokenizer is {short_repr(splits)}")
        if splits.get("add_prefix_space") or splits.get("use_regex", True) is not True:
            raise refuse("its pre-tokenizer has add_prefix_space, or no use_regex")
        merges = model.get("merges")
        vocabulary = check_vocabulary(model.get("vocab"), refuse) | added_tokens(values, refuse)
    if not isinstance(merges, list):
        raise refuse(f"its merges are {short_repr(merges)}")
    pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
    if wrong := [p for p in pairs if not isinstance(p, list) or [type(x) for x in p] != [str] * 2]:
        raise refuse(f"got the merge {short_repr(wrong[0])}; expected two tokens")
    missing = [token for token in _ROBERTA_SPECIAL_TOKENS if token not in vocabulary]
    if missing:
        raise refuse(f"got no token {', '.join(missing)}")
    if len({*vocabulary.values()}) < len(vocabulary):
        raise refuse("got two tokens with one id")
    others = vocabulary.keys() - {*_ROBERTA_SPECIAL_TOKENS}
    tokens = sorted(others, key=vocabulary.__getitem__)
    try:
        tokenizer = BytePieceTokenizer(tokens, [(left, right) for left, right in pairs])
    except (ValueError, UnicodeError) as error:
        raise DataError(f"{path}: {error}") from None
    rows = [vocabulary[token] for token in (*_ROBERTA_SPECIAL_TOKENS, *tokens)]
    return BertTokens(tokenizer, rows)

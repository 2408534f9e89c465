"""A text as ids, in memory and in a file: the same, whole, and closed line by line."""

import numpy as np
import pytest

from saccade.data.special_tokens import EOS
from saccade.data.text.token_store import (
    LineRange,
    encode_corpus,
    read_corpora,
    token_file,
    write_corpus,
    write_corpus_index,
)
from saccade.data.tokenizers import train_tokenizer
from saccade.errors import RunError

LINES = ["a cat sat", "", "a mat , a cat", "sat sat mat ,"]


@pytest.mark.parametrize("kind", ["character", "word", "bpe"])
def test_encode_corpus_ends_each_line_with_eos(kind):
    tokenizer = train_tokenizer(kind, LINES)
    progress = []
    corpus = encode_corpus(tokenizer, LINES, progress.append)
    expected = [EOS] + [id for line in LINES for id in [*tokenizer.encode(line), EOS]]
    assert corpus.ids.tolist() == expected and corpus.ids.dtype == np.uint16 and sum(progress) == 4
    assert corpus.characters == len("\n".join(LINES)) + 1
    assert corpus.words == sum(len(line.split()) for line in LINES) + len(LINES)


def test_encode_corpus_of_no_lines(tmp_path):
    tokenizer = train_tokenizer("word", ["a b a b"])
    assert encode_corpus(tokenizer, []).ids.tolist() == [EOS]
    assert write_corpus(tmp_path / "none.ids", tokenizer, []).ids.tolist() == [EOS]


def test_write_corpus_equals_encode_corpus_and_is_mapped(tmp_path):
    lines = [f"{n} {n * n}" for n in range(5000)]  # several chunks
    tokenizer = train_tokenizer("character", lines)
    held = encode_corpus(tokenizer, lines)
    written = write_corpus(token_file(tmp_path, "train"), tokenizer, iter(lines))
    assert isinstance(written.ids, np.memmap)
    assert np.array_equal(held.ids, written.ids) and held[1:] == written[1:]
    write_corpus_index(tmp_path, {"train": written})
    again = read_corpora(tmp_path, tokenizer.vocab_size)["train"]
    assert np.array_equal(held.ids, again.ids) and held[1:] == again[1:]
    assert not again.ids.flags.writeable


def test_write_corpus_uses_four_bytes_for_large_vocabularies(tmp_path):
    lines = [" ".join(f"w{n}" for n in range(70_000))]
    tokenizer = train_tokenizer("word", lines, size=80_000)
    written = write_corpus(token_file(tmp_path, "train"), tokenizer, lines)
    assert written.ids.itemsize == 4 and written.ids.tolist() == [
        EOS,
        *tokenizer.encode(lines[0]),
        EOS,
    ]
    write_corpus_index(tmp_path, {"train": written})
    assert read_corpora(tmp_path, tokenizer.vocab_size)["train"].ids.itemsize == 4


def test_read_corpora_rejects_truncated_and_missing_files(tmp_path):
    tokenizer = train_tokenizer("character", LINES)
    write_corpus_index(
        tmp_path, {"train": write_corpus(token_file(tmp_path, "train"), tokenizer, LINES)}
    )
    file = token_file(tmp_path, "train")
    file.write_bytes(file.read_bytes()[:-2])
    with pytest.raises(RunError, match="train.ids is damaged: it has 78 bytes, 39 ids of 40"):
        read_corpora(tmp_path, tokenizer.vocab_size)
    file.unlink()
    with pytest.raises(RunError, match="train.ids is damaged: it is missing"):
        read_corpora(tmp_path, tokenizer.vocab_size)


def test_line_range_reads_again_at_each_iteration():
    lines = LineRange(lambda: iter("abcdef"), 1, 4)
    assert len(lines) == 3 and list(lines) == list(lines) == ["b", "c", "d"]

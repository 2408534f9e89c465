"""Words of Chinese among the tokens of BERT, by a word list and by jieba."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.text.chinese_words import (
    chinese_splitter,
    join_chinese_words,
    longest_matches,
)
from saccade.data.wordpiece import SEP, WordPieceTokenizer
from saccade.errors import DataError

SENTENCE = "使用语言模型来预测下一个词的probability。"
# the example of Cui et al. 2019, table 1
WORDS = ["使用", "语言", "模型", "来", "预测", "下", "一个", "词", "的"]


@pytest.fixture
def word_list(tmp_path: Path) -> str:
    path = tmp_path / "words.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return str(path)


def words_of(splitter: str, lines: list[str]) -> list[list[str]]:
    tokenizer = WordPieceTokenizer.fit([SENTENCE, *lines] * 3, 200)
    ids = np.array([id for line in lines for id in (*tokenizer.encode(line), SEP)])
    starts = join_chinese_words(
        ids, ~tokenizer.is_continuation[ids], tokenizer.tokens, chinese_splitter(splitter)
    )
    words: list[list[str]] = []
    for id, is_start in zip(ids.tolist(), starts.tolist(), strict=True):
        token = tokenizer.tokens[id].removeprefix("##")
        words.append([token]) if is_start else words[-1].append(token)
    return [["".join(word)] for word in words]


def test_characters_of_a_listed_word_are_joined(word_list: str) -> None:
    found = [word for (word,) in words_of(word_list, [SENTENCE])]
    assert found == [*WORDS, "probability", "。", "[SEP]"]


def test_words_end_at_line_ends(word_list: str) -> None:
    found = [word for (word,) in words_of(word_list, ["语", "言模型"])]
    assert found == ["语", "[SEP]", "言", "模型", "[SEP]"]


def test_jieba_gives_the_words() -> None:
    pytest.importorskip("jieba")
    found = [word for (word,) in words_of("jieba", ["我来到北京清华大学"])]
    assert found == ["我", "来到", "北京", "清华大学", "[SEP]"]  # the example of its README


@given(st.text("abc", max_size=12), st.sets(st.text("abc", min_size=1, max_size=3), min_size=1))
def test_longest_matches_by_loops(text: str, words: set[str]) -> None:
    longest = max(map(len, words))
    spans = longest_matches(text, frozenset(words), longest)
    assert "".join(text[a:b] for a, b in spans) == text
    for start, end in spans:
        longer = [text[start:e] for e in range(end + 1, len(text) + 1)]
        assert not words & {*longer} and (end == start + 1 or text[start:end] in words)


def test_an_empty_list_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("\n\n")
    with pytest.raises(DataError, match="got no words; expected one on each line"):
        chinese_splitter(str(path))

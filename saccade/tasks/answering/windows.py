r"""Questions and contexts as windows: [CLS] question [SEP] part of the context [SEP]. No torch.

Windows of a long context start every `stride` tokens. An answer may start only at tokens which have
the most context in that window, min(tokens before, tokens after) + 0.01 · tokens of the window
(Devlin et al. 2019, official code), so that each span is scored once. Answers are whole words.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from saccade.data.answering.config import QuestionsConfig
from saccade.data.answering.readers import Answer, Question
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.types.arrays import IntArray
from saccade.types.bags import Bags, make_bags

WINDOW_SPECIAL_TOKENS = 3  # [CLS] and two [SEP]
LENGTH_WEIGHT = 0.01  # of the tokens of a window, when its context is compared


class WindowTable(NamedTuple):
    """The windows of some questions."""

    ids: Bags
    may_start: Bags  # 1 for a token at which an answer may start; as `ids`
    may_end: Bags  # 1 for the last token of a word of the context; as `ids`
    context: IntArray  # (W,) position of the first token of the context
    first: IntArray  # (W,) index in the context of that token
    owners: IntArray  # (W,) the question of each window
    targets: IntArray  # (W, 2) positions of the first and last token of the first answer; 0: none
    spans: list[IntArray]  # of each question, (tokens, 2) the characters of the context's tokens

    def characters(self, window: int, start: int, end: int) -> tuple[int, int]:
        """Return the characters of the context from a position of a window to another."""
        spans = self.spans[self.owners[window]]
        offset = int(self.first[window] - self.context[window])
        return int(spans[start + offset, 0]), int(spans[end + offset, 1])


class CutContext(NamedTuple):
    """The tokens of a context."""

    ids: list[int]
    characters: IntArray  # (tokens, 2)
    is_start: NDArray[np.bool_]  # (tokens,) True for the first token of a word


class WindowEncoder:
    """Encodes questions and contexts as windows for a BERT."""

    def __init__(self, tokenizer: WordPieceTokenizer, data: QuestionsConfig, max_length: int):
        self.tokenizer, self.data = tokenizer, data
        self.window = min(data.window, max_length)

    def encode(self, questions: Iterable[Question]) -> WindowTable:
        """Return the windows of some questions; each different context is cut once."""
        contexts: dict[str, CutContext] = {}
        questions = list(questions)
        ids: list[list[int]] = []
        may_start: list[list[int]] = []
        may_end: list[list[int]] = []
        spans: list[IntArray] = []
        positions: list[tuple[int, int, int]] = []
        targets: list[tuple[int, int]] = []
        asked = self.tokenizer.encode_many([question.question for question in questions])
        for number, (question, words) in enumerate(zip(questions, asked, strict=True)):
            if question.context not in contexts:
                contexts[question.context] = self._pieces(question.context)
            pieces, characters, is_start = contexts[question.context]
            spans.append(characters)
            head = [CLS, *words[: self._question_limit()], SEP]
            answer = (
                token_span(characters, is_start, question.answers[0]) if question.answers else None
            )
            starts, size = self._starts(len(pieces), len(head))
            is_end = np.append(is_start[1:], True)[: len(pieces)]
            is_owner = window_owners(starts, size, len(pieces))
            for window, start in enumerate(starts):
                part = pieces[start : start + size]
                ids.append([*head, *part, SEP])
                may = (is_owner == window) & is_start
                for masks, mask in ((may_start, may), (may_end, is_end)):
                    of_part = mask[start : start + size].astype(int).tolist()
                    masks.append([*[0] * len(head), *of_part, 0])
                positions.append((len(head), start, number))
                targets.append(_target(answer, start, len(part), len(head)))
        context, first, owners = np.array(positions, np.int64).reshape(-1, 3).T
        of_answers = np.array(targets, np.int64).reshape(-1, 2)
        bags = make_bags(ids), make_bags(may_start), make_bags(may_end)
        return WindowTable(*bags, context, first, owners, of_answers, spans)

    def _pieces(self, context: str) -> CutContext:
        found = self.tokenizer.encode_pieces(context)
        characters = np.array(found.spans, np.int64).reshape(-1, 2)
        return CutContext(found.ids, characters, np.array(found.is_start, bool))

    def _question_limit(self) -> int:
        """Return the tokens of the longest question: half of a window is for the context."""
        return min(self.data.max_question, (self.window - WINDOW_SPECIAL_TOKENS) // 2)

    def _starts(self, tokens: int, head: int) -> tuple[list[int], int]:
        """Return the first token of each window, and the tokens of the context in one."""
        size = self.window - head - 1
        stride = min(self.data.stride, max(1, size // 2))
        count = 1 + max(0, -(-(tokens - size) // stride))
        return [window * stride for window in range(count)], size


def window_owners(starts: Sequence[int], size: int, tokens: int) -> IntArray:
    """Return the window in which each token of a context has the most context."""
    at = np.arange(tokens) - np.array(starts)[:, None]
    sizes = np.minimum(size, tokens - np.array(starts))[:, None]
    room = np.minimum(at, sizes - 1 - at)
    scores = np.where(room >= 0, room + LENGTH_WEIGHT * sizes, -np.inf)
    owners: IntArray = scores.argmax(0)
    return owners


def token_span(
    characters: IntArray, is_start: NDArray[np.bool_], answer: Answer
) -> tuple[int, int] | None:
    """Return the first and last token of the words of an answer; None if it has no tokens."""
    start = int(np.searchsorted(characters[:, 1], answer.start, side="right"))
    end = int(np.searchsorted(characters[:, 0], answer.start + len(answer.text))) - 1
    if start > end:
        return None
    firsts = np.flatnonzero(is_start)  # of words
    word, after = np.searchsorted(firsts, [start, end], side="right")
    last = int(firsts[after]) - 1 if after < len(firsts) else len(characters) - 1
    return int(firsts[word - 1]), last


def _target(answer: tuple[int, int] | None, start: int, count: int, head: int) -> tuple[int, int]:
    """Return the positions of an answer in a window; 0 if it is not in it as a whole."""
    if answer is None or answer[0] < start or answer[1] >= start + count:
        return 0, 0
    return answer[0] - start + head, answer[1] - start + head

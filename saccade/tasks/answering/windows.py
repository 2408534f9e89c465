r"""Questions and contexts as windows: [CLS] question [SEP] part of the context [SEP]. No torch.

Windows of a long context start every `stride` tokens. An answer may start only at tokens which have
the most context in that window, min(tokens before, tokens after) + 0.01 · tokens of the window
(Devlin et al. 2019, official code), so that each span is scored once.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

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


class WindowEncoder:
    """Encodes questions and contexts as windows for a BERT."""

    def __init__(self, tokenizer: WordPieceTokenizer, data: QuestionsConfig, max_length: int):
        self.tokenizer, self.data = tokenizer, data
        self.window = min(data.window, max_length)

    def encode(self, questions: Iterable[Question]) -> WindowTable:
        """Return the windows of some questions; each different context is cut once."""
        contexts: dict[str, tuple[list[int], IntArray]] = {}
        questions = list(questions)
        ids, may_start, spans = [], [], []
        positions: list[tuple[int, int, int]] = []
        targets: list[tuple[int, int]] = []
        asked = self.tokenizer.encode_many([question.question for question in questions])
        for number, (question, words) in enumerate(zip(questions, asked, strict=True)):
            if question.context not in contexts:
                contexts[question.context] = self._pieces(question.context)
            pieces, characters = contexts[question.context]
            spans.append(characters)
            head = [CLS, *words[: self._question_limit()], SEP]
            answer = token_span(characters, question.answers[0]) if question.answers else None
            starts, size = self._starts(len(pieces), len(head))
            is_owner = window_owners(starts, size, len(pieces))
            for window, start in enumerate(starts):
                part = pieces[start : start + size]
                ids.append([*head, *part, SEP])
                may = is_owner[start : start + size] == window
                may_start.append([*[0] * len(head), *may.astype(int).tolist(), 0])
                positions.append((len(head), start, number))
                targets.append(_target(answer, start, len(part), len(head)))
        context, first, owners = np.array(positions, np.int64).reshape(-1, 3).T
        of_answers = np.array(targets, np.int64).reshape(-1, 2)
        bags = make_bags(ids), make_bags(may_start)
        return WindowTable(*bags, context, first, owners, of_answers, spans)

    def _pieces(self, context: str) -> tuple[list[int], IntArray]:
        found = self.tokenizer.encode_pieces(context)
        return found.ids, np.array(found.spans, np.int64).reshape(-1, 2)

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


def token_span(characters: IntArray, answer: Answer) -> tuple[int, int] | None:
    """Return the first and the last token of an answer; None if it has no tokens."""
    start = int(np.searchsorted(characters[:, 1], answer.start, side="right"))
    end = int(np.searchsorted(characters[:, 0], answer.start + len(answer.text))) - 1
    return (start, end) if start <= end else None


def _target(answer: tuple[int, int] | None, start: int, count: int, head: int) -> tuple[int, int]:
    """Return the positions of an answer in a window; 0 if it is not in it as a whole."""
    if answer is None or answer[0] < start or answer[1] >= start + count:
        return 0, 0
    return answer[0] - start + head, answer[1] - start + head

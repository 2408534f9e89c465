"""Readers of SQuAD's JSON, JSON lines and tables of questions."""

import json
from pathlib import Path
from typing import Any

import pytest

from saccade.data.answering.config import QuestionsConfig
from saccade.data.answering.readers import Answer, read_question_rows, read_questions
from saccade.data.answering.synthetic import generate_questions
from saccade.data.datasets import ANSWER_DATASETS, fetch_dataset, is_local
from saccade.errors import DataError

CONTEXT = "Ada sang in Rome. Ben sang in Oslo."
CONFIG = QuestionsConfig()


def squad(*questions: dict[str, Any]) -> dict[str, Any]:
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    return {"version": "2.0", "data": [{"title": "Songs", "paragraphs": [paragraph]}]}


def asked(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "question": "Where?", "answers": [], **more}


def test_squad_file(tmp_path: Path) -> None:
    given = squad(
        asked(
            "q1", answers=[{"text": "Rome", "answer_start": 12}, {"text": "in", "answer_start": 9}]
        ),
        asked("q2", is_impossible=True, plausible_answers=[{"text": "Oslo", "answer_start": 30}]),
        asked("q3", answers=[{"text": "sang in Oslo"}]),
    )
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(given))
    one, two, three = read_questions(path, CONFIG)
    assert one[:4] == ("q1", "Where?", CONTEXT, (Answer("Rome", 12), Answer("in", 9)))
    assert (two.answers, three.answers) == ((), (Answer("sang in Oslo", 22),))
    assert {q.article for q in (one, two, three)} == {"Songs"}


def test_json_lines_have_answers_as_two_lists(tmp_path: Path) -> None:
    rows = [
        {"question": "Who?", "context": CONTEXT, "answers": {"text": ["Ada"], "answer_start": [0]}},
        {"question": "When?", "context": CONTEXT, "answers": {"text": [], "answer_start": []}},
    ]
    path = tmp_path / "questions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n\n" for row in rows))
    found = read_questions(path, CONFIG)
    assert [q.answers for q in found] == [(Answer("Ada", 0),), ()]
    assert found == read_questions(rows, CONFIG)
    assert [q.article for q in found] == [CONTEXT, CONTEXT]


def test_questions_without_answers_are_read_from_a_table(tmp_path: Path) -> None:
    path = tmp_path / "asked.csv"
    path.write_text(f'id,context,question\nq7,"{CONTEXT}",Who?\n')
    [found] = read_question_rows(str(path), CONFIG)
    assert found.id == "q7"
    assert (found.question, found.context, found.answers) == ("Who?", CONTEXT, ())


@pytest.mark.parametrize(
    ("question", "message"),
    [
        (
            asked("q7", answers=[{"text": "Rome", "answer_start": 13}]),
            "q7: got the answer 'Rome', which is not in its context at character 13: there is "
            "'ome.'; the text is at 12",
        ),
        (
            asked("q7", answers=[{"text": "Paris", "answer_start": 90}]),
            "q7: got the answer 'Paris', which is not in its context at character 90: there is ''",
        ),
        (asked("q7", answers=[{"text": "Paris"}]), "q7: got the answer 'Paris', which is not in"),
        (asked("q7", answers=[{"text": " "}]), "q7: got an answer without a text"),
        (asked("q7", answers=[{"text": "Ada", "answer_start": "0"}]), "got answer_start '0'"),
        ({"id": "q7", "question": "Where?"}, "q7: got no list 'answers'"),
        ({"id": "q7", "question": ""}, "q7: got no question; expected a text"),
    ],
)
def test_bad_questions_are_named_by_their_id(question: dict[str, Any], message: str) -> None:
    rows = [{**question, "context": CONTEXT}]
    with pytest.raises(DataError) as caught:
        read_questions(rows, CONFIG)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "got"),
        ("[]", "got no questions"),
        ("3", "got a int"),
        ('{"data": 3}', "without a list 'data'"),
        ('{"data": [{"paragraphs": [4]}]}', "a int in place of an object"),
    ],
)
def test_other_json_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(DataError, match="expected SQuAD's JSON") as caught:
        read_questions(path, CONFIG)
    assert message in str(caught.value)


def test_generated_questions_have_their_answers_in_the_context() -> None:
    questions = generate_questions()
    assert questions == generate_questions()
    for question in questions:
        for answer in question.answers:
            assert question.context.startswith(answer.text, answer.start)
    share = sum(not question.answers for question in questions) / len(questions)
    assert 0.15 < share < 0.25


@pytest.mark.skipif(not is_local(ANSWER_DATASETS["xquad"]), reason="XQuAD is not here")
def test_published_set_is_read_whole() -> None:
    paths = fetch_dataset(ANSWER_DATASETS["xquad"]).paths
    for language in ("en", "de", "zh"):
        questions = read_questions(paths[f"xquad.{language}.json"], CONFIG)
        assert len(questions) == 1190 and all(question.answers for question in questions)
        assert len({question.article for question in questions}) == 48

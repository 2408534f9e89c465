"""Roles of columns: by given names, by usual names, by contents; and what is refused."""

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from saccade.data.records.base import RecordChunk, Records
from saccade.data.records.profile import profile_records
from saccade.data.records.role_names import (
    LABEL_ROLE,
    SERIES_ROLE,
    SOURCE_ROLE,
    TABLE_TARGET_ROLE,
    TARGET_ROLE,
    TEXT_ROLE,
    TIME_ROLE,
    Role,
    is_language_name,
)
from saccade.data.records.roles import resolve_roles
from saccade.data.records.suggest import suggest_task
from saccade.errors import DataError

PAIR = (SOURCE_ROLE, TARGET_ROLE)
CLASSIFY = (TEXT_ROLE, LABEL_ROLE)

ROWS = 60
TEXTS = [f"the {n} guests found the food {['cold', 'good', 'late'][n % 3]}" for n in range(ROWS)]
OTHERS = [f"die {n} Gäste fanden das Essen {['kalt', 'gut', 'spät'][n % 3]}" for n in range(ROWS)]
TITLES = [f"visit {n}" for n in range(ROWS)]
STARS = [str(1 + n % 5) for n in range(ROWS)]
CLASSES = [["bad", "good"][n % 2] for n in range(ROWS)]
IDS = [str(1000 + n) for n in range(ROWS)]
PRICES = [str(10 + n * 0.37) for n in range(ROWS)]
DAYS = [f"2024-{1 + n // 28:02d}-{1 + n % 28:02d}" for n in range(ROWS)]


def records_of(
    columns: Mapping[str, Sequence[str | None]],
    name: str = "data.csv",
    has_header: bool = True,
    delimiter: str | None = ",",
) -> Records:
    rows = len(next(iter(columns.values())))

    def read(names: tuple[str, ...]):  # type: ignore[no-untyped-def]
        cells = {name: list(columns[name]) for name in names}
        yield RecordChunk(cells, np.arange(rows) + 1 + has_header)

    return Records(name, "csv", tuple(columns), read, has_header, delimiter=delimiter)


def headerless(*columns: Sequence[str], name: str = "data.tsv") -> Records:
    named = {f"column {number}": cells for number, cells in enumerate(columns, start=1)}
    return records_of(named, name, has_header=False, delimiter="\t")


def chosen(
    records: Records, roles: Sequence[Role], task: str, **given: str | None
) -> dict[str, str]:
    return {c.role: c.column for c in resolve_roles(records, roles, given, task)}


def reasons(records: Records, roles: Sequence[Role], task: str) -> dict[str, str]:
    return {c.role: c.reason for c in resolve_roles(records, roles, {}, task)}


def refusal(records: Records, roles: Sequence[Role], task: str, **given: str | None) -> str:
    with pytest.raises(DataError) as error:
        resolve_roles(records, roles, given, task)
    return str(error.value)


# --- names ----------------------------------------------------------------------------------------

NAMED_PAIRS = [
    ("source", "target"),
    ("src", "tgt"),
    ("SRC", "Target"),
    ("input", "output"),
    ("question", "answer"),
    ("prompt", "completion"),
    ("article", "summary"),
    ("sourceText", "targetText"),
    ("data.src", "data.tgt"),
]


@pytest.mark.parametrize("source, target", NAMED_PAIRS)
def test_usual_names_of_pairs(source: str, target: str) -> None:
    columns = {"id": IDS, target: OTHERS, "note": TITLES, source: TEXTS}
    found = chosen(records_of(columns), PAIR, "translate")
    assert found == {"source": source, "target": target}


NAMED_LABELS = [
    ("text", "label"),
    ("Review", "Sentiment"),
    ("sentence", "class"),
    ("content", "category"),
    ("comment", "stars"),
    ("text_a", "label"),
    ("review_body", "polarity"),
    ("tweet", "airline_sentiment"),
    ("utterance", "intent"),
    ("评论", "标签"),
    ("текст", "класс"),
]


@pytest.mark.parametrize("text, label", NAMED_LABELS)
def test_usual_names_of_labelled_texts(text: str, label: str) -> None:
    columns = {"id": IDS, label: STARS, "city": CLASSES, text: TEXTS}
    found = chosen(records_of(columns), CLASSIFY, "classify")
    assert found == {"text": text, "label": label}
    assert reasons(records_of(columns), CLASSIFY, "classify")["label"] == f"named {label!r}"


def test_many_or_decimal_classes_are_labels_by_name() -> None:
    intents = [str(n % 150) for n in range(600)]
    texts = [f"the request number {n} of a user" for n in range(600)]
    found = chosen(records_of({"query": texts, "intent": intents}), CLASSIFY, "classify")
    assert found == {"text": "query", "label": "intent"}
    stars = [f"{1 + n % 5}.0" for n in range(600)]
    assert chosen(headerless(texts, stars), CLASSIFY, "classify")["label"] == "column 2"


def test_given_names_come_first() -> None:
    columns = {"text": TEXTS, "label": STARS, "other": OTHERS, "city": CLASSES}
    records = records_of(columns)
    found = chosen(records, CLASSIFY, "classify", text="other", label="city")
    assert found == {"text": "other", "label": "city"}
    [text, label] = resolve_roles(records, CLASSIFY, {"label": "city"}, "classify")
    assert text == ("text", "text", "named 'text'") and label == ("label", "city", "given")


def test_columns_can_be_given_by_position() -> None:
    records = headerless(IDS, TEXTS, STARS, CLASSES)
    found = chosen(records, CLASSIFY, "classify", label="4")
    assert found == {"text": "column 2", "label": "column 4"}


def test_a_given_name_that_does_not_exist_is_refused() -> None:
    columns = {"review": TEXTS, "stars": STARS}
    message = refusal(records_of(columns), CLASSIFY, "classify", text="reviews")
    assert "no column 'reviews'. Did you mean 'review'?" in message
    message = refusal(records_of(columns), CLASSIFY, "classify", text="9")
    assert "no column '9'" in message


def test_one_column_cannot_have_two_roles() -> None:
    columns = {"a": TEXTS, "b": OTHERS}
    message = refusal(records_of(columns), PAIR, "translate", source="a", target="a")
    assert "got the column 'a' for source and target" in message and "'b'" in message


@pytest.mark.parametrize(
    "name", ["en", "DE", "zh_CN", "pt-BR", "text_fr", "translation.en", "eng_Latn", "English"]
)
def test_names_of_languages(name: str) -> None:
    assert is_language_name(name)


@pytest.mark.parametrize("name", ["text", "label", "id_user", "content", "", "score"])
def test_other_names_are_no_languages(name: str) -> None:
    assert not is_language_name(name)


def test_columns_of_two_languages_are_a_pair_in_their_order() -> None:
    columns = {"id": IDS, "translation.de": OTHERS, "note": TITLES, "translation.en": TEXTS}
    records = records_of(columns)
    assert chosen(records, PAIR, "translate") == {
        "source": "translation.de",
        "target": "translation.en",
    }
    assert "named after languages" in reasons(records, PAIR, "translate")["source"]
    reversed_roles = chosen(records, PAIR, "translate", source="translation.en")
    assert reversed_roles["target"] == "translation.de"


def test_a_dataset_of_three_languages_is_ambiguous() -> None:
    columns = {"en": TEXTS, "de": OTHERS, "fr": TITLES}
    message = refusal(records_of(columns), PAIR, "translate")
    assert message.endswith("try saccade train translate --data data.csv --source en --target de")
    found = chosen(records_of(columns), PAIR, "translate", source="de", target="fr")
    assert found == {"source": "de", "target": "fr"}


# --- contents -------------------------------------------------------------------------------------


def test_two_columns_without_names_are_a_pair() -> None:
    assert chosen(headerless(OTHERS, TEXTS), PAIR, "translate") == {
        "source": "column 1",
        "target": "column 2",
    }
    numerals = headerless([f"{n:b}" for n in range(ROWS)], [str(n) for n in range(ROWS)])
    assert chosen(numerals, PAIR, "translate")["target"] == "column 2"


def test_ids_and_attributions_are_no_side_of_a_pair() -> None:
    attribution = [f"CC-BY 2.0 (France) Attribution: tatoeba.org #{n}" for n in range(ROWS)]
    found = chosen(headerless(TEXTS, OTHERS, attribution), PAIR, "translate")
    assert found == {"source": "column 1", "target": "column 2"}
    found = chosen(headerless(IDS, TEXTS, OTHERS), PAIR, "translate")
    assert found == {"source": "column 2", "target": "column 3"}


@pytest.mark.parametrize("labels", [STARS, CLASSES])
def test_label_and_text_are_told_apart_by_contents(labels: list[str]) -> None:
    for records, text, label in (
        (headerless(labels, TEXTS), "column 2", "column 1"),
        (headerless(TEXTS, labels), "column 1", "column 2"),
        (headerless(IDS, TEXTS, labels), "column 2", "column 3"),
        (records_of({"a": labels, "b": PRICES, "c": TEXTS}), "c", "a"),
    ):
        assert chosen(records, CLASSIFY, "classify") == {"text": text, "label": label}


def test_the_reason_has_the_figures() -> None:
    found = reasons(headerless(STARS, TEXTS), CLASSIFY, "classify")
    assert found["label"] == "the only column of classes (5 values in 60 rows)"
    assert re.fullmatch(r"the only text \(median of \d+ characters\)", found["text"])


def test_a_column_of_splits_is_no_label() -> None:
    parts = [["train", "train", "validation", "test"][n % 4] for n in range(ROWS)]
    found = chosen(headerless(parts, TEXTS, CLASSES), CLASSIFY, "classify")
    assert found == {"text": "column 2", "label": "column 3"}


def test_the_longest_of_several_texts_is_the_text() -> None:
    bodies = [text * 3 for text in TEXTS]
    records = headerless(STARS, TEXTS, bodies)
    assert chosen(records, CLASSIFY, "classify") == {"text": "column 3", "label": "column 1"}
    assert "the longest of the texts" in reasons(records, CLASSIFY, "classify")["text"]
    named = records_of({"Class Index": STARS, "Title": TITLES, "Description": TEXTS})
    assert chosen(named, CLASSIFY, "classify") == {"text": "Description", "label": "Class Index"}


def test_a_file_sorted_by_class_shows_one_class_first() -> None:
    records = headerless(["good"] * 6000, [f"text number {n} of many" for n in range(6000)])
    assert chosen(records, CLASSIFY, "classify")["label"] == "column 1"


def test_a_few_rows_are_judged_by_their_words() -> None:
    records = headerless(["what a fine day", "so much rain today"], ["good", "bad"])
    assert chosen(records, CLASSIFY, "classify") == {"text": "column 1", "label": "column 2"}
    tie = headerless(["good", "bad"], ["sun", "rain"])
    assert chosen(tie, CLASSIFY, "classify") == {"text": "column 2", "label": "column 1"}


def test_of_two_columns_of_words_the_label_has_fewer_values() -> None:
    words = [f"word{n % 17}x" for n in range(ROWS)]
    assert chosen(headerless(words, CLASSES), CLASSIFY, "classify")["label"] == "column 2"
    assert chosen(headerless(CLASSES, words), CLASSIFY, "classify")["label"] == "column 1"


def test_optional_roles_are_taken_only_if_given() -> None:
    columns = {"time": DAYS, "x": PRICES, "label": STARS}
    roles = (TABLE_TARGET_ROLE, TIME_ROLE)
    assert chosen(records_of(columns), roles, "table") == {"target": "label"}
    assert chosen(records_of(columns), roles, "table", time="time")["time"] == "time"
    named = TIME_ROLE._replace(aliases=("date",))
    assert chosen(records_of(columns), (TABLE_TARGET_ROLE, named), "table")["time"] == "time"


def test_the_only_column_is_the_text() -> None:
    records = records_of({"column 1": ["a", "b", "a"]}, "book.txt", has_header=False)
    assert chosen(records, (TEXT_ROLE,), "language") == {"text": "column 1"}


def test_the_only_number_is_the_series() -> None:
    found = chosen(records_of({"date": DAYS, "sales_eur": PRICES}), (SERIES_ROLE,), "forecast")
    assert found == {"target": "sales_eur"}


# --- refused --------------------------------------------------------------------------------------


def test_two_columns_of_classes_are_ambiguous() -> None:
    columns = {"review": TEXTS, "a": STARS, "b": CLASSES}
    message = refusal(records_of(columns, "my data.csv"), CLASSIFY, "classify")
    assert "2 columns that may be the label ('a', 'b')" in message
    assert message.endswith(
        "try saccade train classify --data 'my data.csv' --text review --label a"
    )


def test_an_ambiguous_column_is_asked_for() -> None:
    columns = {"review": TEXTS, "a": STARS, "b": CLASSES}
    asked = []

    def ask(question: str, candidates: Sequence[str]) -> str:
        asked.append((question, list(candidates)))
        return "b"

    found = resolve_roles(records_of(columns), CLASSIFY, {}, "classify", ask)
    assert asked == [("Which column is the label?", ["a", "b"])]
    assert found[1] == ("label", "b", "answered")
    with pytest.raises(DataError, match="may be the label"):
        resolve_roles(records_of(columns), CLASSIFY, {}, "classify", lambda *question: None)


def test_swapped_columns_are_refused() -> None:
    records = records_of({"label": TEXTS, "text": CLASSES})
    message = refusal(records, CLASSIFY, "classify")
    assert "60 distinct values in 60 rows of 'label'" in message and "swapped" in message
    assert message.endswith("try saccade train classify --data data.csv --text label --label text")
    given = refusal(
        records_of({"a": TEXTS, "b": CLASSES}), CLASSIFY, "classify", label="a", text="b"
    )
    assert given.endswith("--text a --label b")


def test_unique_labels_are_refused() -> None:
    message = refusal(records_of({"text": TEXTS, "label": IDS, "k": STARS}), CLASSIFY, "classify")
    assert "60 distinct values in 60 rows of 'label', the label" in message
    assert message.endswith("--text text --label k")
    message = refusal(headerless(TEXTS, OTHERS), CLASSIFY, "classify")
    assert message.endswith(
        "saccade train translate --data data.tsv --source 'column 1' --target 'column 2'"
    )


def test_a_single_class_is_refused() -> None:
    records = records_of({"text": TEXTS, "label": ["good"] * ROWS, "stars": STARS})
    message = refusal(records, CLASSIFY, "classify")
    assert "the same value ('good') in all 60 rows of 'label'" in message
    assert message.endswith("--text text --label stars")


def test_a_header_read_as_a_row_is_refused() -> None:
    records = headerless(["label", *CLASSES], ["review", *TEXTS])
    message = refusal(records, CLASSIFY, "classify")
    assert message.startswith("data.tsv, line 1: got 'label', 'review'")
    assert message.endswith("try --set data.header=true")


def test_a_row_read_as_the_header_is_refused() -> None:
    records = records_of({"good": CLASSES, TEXTS[0]: TEXTS})
    message = refusal(records, CLASSIFY, "classify")
    assert "in the header" in message and message.endswith("try --set data.header=false")
    numbers = records_of({"5.1": PRICES, "3.5": PRICES})
    assert "in the header" in refusal(numbers, (TABLE_TARGET_ROLE,), "table")
    # names of frames without names, and of files that cannot lack a header
    chosen(records_of({"0": PRICES, "1": PRICES}), (TABLE_TARGET_ROLE,), "table", target="1")
    chosen(records_of({"good": CLASSES, "x": TEXTS}, delimiter=None), CLASSIFY, "classify")


def test_labelled_texts_are_no_pairs() -> None:
    message = refusal(records_of({"label": CLASSES, "review": TEXTS}), PAIR, "translate")
    assert "2 distinct values in 60 rows of 'label'" in message
    assert "saccade train classify --data data.csv --text review --label label" in message
    topics = [f"topic {n % 25}" for n in range(300)]
    news = [f"the {n} ministers met in the town of the talks" for n in range(300)]
    assert "classify" in refusal(headerless(topics, news), PAIR, "translate")
    # short texts may have few answers
    sums = headerless([f"{n} + {n % 25}" for n in range(300)], [str(n % 25) for n in range(300)])
    chosen(sums, PAIR, "translate")
    # a user may still ask for it
    columns = {"label": CLASSES, "review": TEXTS}
    chosen(records_of(columns), PAIR, "translate", source="review", target="label")
    chosen(records_of({"source": TEXTS, "target": CLASSES}), PAIR, "translate")


def test_no_column_for_a_role_names_the_task_that_fits() -> None:
    message = refusal(records_of({"x": PRICES, "date": DAYS}), CLASSIFY, "classify")
    assert "no column that may be the text of classify" in message
    assert "saccade train forecast --data data.csv" in message
    message = refusal(records_of({"text": TEXTS}), PAIR, "translate")
    assert "saccade train language --data data.csv" in message


def test_the_target_of_a_table_is_asked_for() -> None:
    message = refusal(records_of({"a": PRICES, "b": STARS}), (TABLE_TARGET_ROLE,), "table")
    assert "expected the column to predict" in message
    assert message.endswith("try saccade train table --data data.csv --target b")


# --- suggestions ----------------------------------------------------------------------------------

SUGGESTIONS = [
    ({"en": TEXTS, "de": OTHERS}, "translate", {"source": "en", "target": "de"}),
    ({"a": TEXTS, "b": OTHERS}, "translate", {"source": "a", "target": "b"}),
    ({"review": TEXTS, "stars": STARS}, "classify", {"text": "review", "label": "stars"}),
    ({"id": IDS, "label": CLASSES, "t": TEXTS}, "classify", {"text": "t", "label": "label"}),
    # texts of one word, and very few texts, are texts where the columns say so
    ({"text": CLASSES, "label": STARS}, "classify", {"text": "text", "label": "label"}),
    (
        {"text": ["a film", "no film", "film"], "label": ["p", "n", "p"]},
        "classify",
        {"text": "text", "label": "label"},
    ),
    ({"line": TEXTS}, "language", {"text": "line"}),
    ({"text": TEXTS, "price": PRICES}, "language", {"text": "text"}),
    ({"date": DAYS, "sales": PRICES}, "forecast", {"target": "sales"}),
    ({"x": PRICES}, "forecast", {"target": "x"}),
    ({"age": STARS, "price": PRICES}, "table", {"target": "price"}),
    ({"label": CLASSES, "price": PRICES, "n": STARS}, "table", {"target": "label"}),
]


@pytest.mark.parametrize("columns, task, roles", SUGGESTIONS)
def test_suggested_task(columns: dict[str, list[str]], task: str, roles: dict[str, str]) -> None:
    records = records_of(columns)
    suggestion = suggest_task(profile_records(records.head()), records)
    assert suggestion is not None
    assert (suggestion.task, suggestion.roles) == (task, roles)
    assert suggestion.command.startswith(f"saccade train {task} --data data.csv")


def test_no_task_for_a_file_without_values() -> None:
    records = records_of({"a": ["", ""], "b": ["x", "x"]})
    assert suggest_task(profile_records(records.head()), records) is None

"""Answering questions: windows, spans by enumeration, training, reload, resume, bad input."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.data.answering.config import QuestionsConfig
from saccade.data.answering.readers import Answer, Question
from saccade.data.answering.synthetic import generate_questions
from saccade.data.wordpiece import CLS, SEP, WordPieceTokenizer
from saccade.errors import ConfigError, DataError
from saccade.models.answer_config import BertAnswererConfig
from saccade.models.bert_answerer import ALWAYS_ANSWER, BertAnswerer, best_spans
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.answering.components import choose_threshold
from saccade.tasks.answering.data import QuestionSplit, divide_questions
from saccade.tasks.answering.objective import window_inputs
from saccade.tasks.answering.scorer import AnswerScorer
from saccade.tasks.answering.windows import WindowEncoder, WindowTable, window_owners

SMALL = {
    "model.width": 64,
    "model.hidden": 64,
    "model.depth": 2,
    "model.dropout": 0.0,
    "train.threads": 1,
    "train.learning_rate": 2e-3,
    "train.batch_tokens": 512,
    "train.steps": 360,
    "train.evaluate_every": 120,
    "data.window": 48,
    "data.stride": 8,
    "data.max_answer": 12,
}
LONG = "word " * 30 + "Ada paid 30 euros. " + "other " * 30


def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer.fit([LONG, "Who paid? How much?"])


def encoder(window: int = 24, stride: int = 6) -> WindowEncoder:
    return WindowEncoder(tokenizer(), QuestionsConfig(window=window, stride=stride), 512)


def paid(number: str = "1") -> Question:
    return Question(number, "How much?", LONG, (Answer("30 euros", LONG.index("30")),), "a")


def settings_of(**more: Any) -> dict[str, Any]:
    return SMALL | {name.replace("__", "."): value for name, value in more.items()}


def train(folder: Path, data: str | None = None, **more: Any) -> Run:
    recipe = resolve_recipe("answer", data=data, changes=settings_of(**more)).recipe
    train_recipe(recipe, folder, TrainOptions())
    return load_run(folder)


@pytest.fixture(scope="module")
def facts_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run, trained on some of the generated questions."""
    folder = tmp_path_factory.mktemp("runs")
    rows = [
        {
            "question": q.question,
            "context": q.context,
            "answers": [answer._asdict() | {"answer_start": answer.start} for answer in q.answers],
        }
        for q in generate_questions()[:600]
    ]
    (folder / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return train(folder / "facts", str(folder / "facts.jsonl")).folder


# --- windows --------------------------------------------------------------------------------------


@given(st.integers(8, 40), st.integers(1, 40), st.integers(0, 40))
def test_windows_cover_each_token_and_own_it_once(window: int, stride: int, words: int) -> None:
    context = " ".join(["word", *["other"] * words])
    question = Question("1", "Who paid?", context, (), "a")
    table = encoder(window, stride).encode([question])
    [spans] = table.spans
    covered, owned = np.zeros(len(spans), int), np.zeros(len(spans), int)
    for row in range(table.ids.size):
        ids = table.ids.rows[table.ids.starts[row] : table.ids.starts[row + 1]]
        may = table.may_start.rows[table.ids.starts[row] : table.ids.starts[row + 1]]
        head, first = int(table.context[row]), int(table.first[row])
        assert len(ids) <= window and ids[0] == CLS and ids[-1] == ids[head - 1] == SEP
        assert not may[:head].any() and not may[-1]
        count = len(ids) - head - 1
        covered[first : first + count] += 1
        owned[first : first + count] += may[head:-1]
        for at in range(head, len(ids) - 1):
            a, b = table.characters(row, at, at)
            assert tokenizer().encode(context[a:b])
    assert (covered >= 1).all()
    starts = np.array([a == 0 or context[a - 1] == " " for a, _ in spans.tolist()])
    assert (owned == starts).all()


def test_owner_is_the_window_with_most_context() -> None:
    """The rule of the official code: min(before, after) + 0.01 · tokens, the first at a tie."""
    starts, size, tokens = [0, 4, 8], 10, 17
    for token, owner in enumerate(window_owners(starts, size, tokens)):
        best, score = -1, -1.0
        for number, start in enumerate(starts):
            count = min(size, tokens - start)
            if start <= token < start + count:
                found = min(token - start, start + count - 1 - token) + 0.01 * count
                if found > score:
                    best, score = number, found
        assert owner == best


def test_targets_are_the_tokens_of_the_answer() -> None:
    table = encoder().encode([paid(), paid("2")._replace(answers=())])
    texts = [
        LONG[slice(*table.characters(row, *table.targets[row].tolist()))]
        if table.targets[row].any()
        else ""
        for row in range(table.ids.size)
    ]
    answered = [text for text, owner in zip(texts, table.owners, strict=True) if owner == 0]
    assert set(answered) == {"", "30 euros"}
    assert not any(text for text, owner in zip(texts, table.owners, strict=True) if owner == 1)


# --- model ----------------------------------------------------------------------------------------


def network(vocab_size: int) -> BertAnswerer:
    torch.manual_seed(0)
    config = BertAnswererConfig(vocab_size=vocab_size, width=16, heads=2, depth=1, dropout=0.0)
    return BertAnswerer(config).double().eval()


def some_windows() -> tuple[BertAnswerer, WindowTable, Any]:
    given = encoder()
    table = given.encode([paid(), Question("2", "Who paid?", "Ada paid euros.", (), "b")])
    inputs = window_inputs(table, np.arange(table.ids.size))
    return network(given.tokenizer.vocab_size), table, inputs


def test_loss_equals_a_loop_over_windows() -> None:
    model, table, inputs = some_windows()
    targets = torch.from_numpy(table.targets)
    logits = model(inputs).detach()
    for smoothing in (0.0, 0.2):
        total = 0.0
        for row in range(len(targets)):
            possible = [0, *range(int(inputs.context[row]), int(inputs.lengths[row]) - 1)]
            for side in range(2):
                log_p = logits[row, possible, side].log_softmax(0)
                at = possible.index(int(targets[row, side]))
                total += float(-(1 - smoothing) * log_p[at] - smoothing * log_p.mean()) / 2
        assert float(model.loss(inputs, targets, smoothing).detach()) == pytest.approx(total)


def test_gradient_of_the_loss() -> None:
    model, table, inputs = some_windows()
    targets = torch.from_numpy(table.targets)
    x = model.embed(inputs).detach()[:2, :, :].requires_grad_()
    two = type(inputs)(*(part[:2] for part in inputs))

    def loss(embedded: torch.Tensor) -> torch.Tensor:
        model.embed = lambda given: embedded  # type: ignore[method-assign]
        return model.loss(two, targets[:2], 0.1).double()

    assert loss(x).requires_grad
    [gradient] = torch.autograd.grad(loss(x), x)
    step = torch.zeros_like(x)
    step[0, 3, 5] = 1e-3
    slope = float((loss(x + step) - loss(x - step)).detach()) / 2e-3
    assert float(gradient[0, 3, 5]) == pytest.approx(slope, rel=1e-2, abs=1e-5)


def test_best_spans_by_enumeration() -> None:
    model, _, inputs = some_windows()
    with torch.no_grad():
        logits = model(inputs)
    best = best_spans(logits, inputs, 3, 5)
    for row in range(len(logits)):
        scores = {}
        context = range(int(inputs.context[row]), int(inputs.lengths[row]) - 1)
        for i in context:
            for j in range(i, min(i + 3, context.stop)):
                if inputs.may_start[row, i] and inputs.may_end[row, j]:
                    scores[i, j] = float(logits[row, i, 0] + logits[row, j, 1])
        ranked = sorted(scores, key=lambda span: -scores[span])[:5]
        found = zip(best.starts[row].tolist(), best.ends[row].tolist(), strict=True)
        assert [*found][: len(ranked)] == ranked
        assert best.scores[row, : len(ranked)].tolist() == pytest.approx(
            [scores[span] for span in ranked]
        )
        assert (best.scores[row, len(ranked) :] == -torch.inf).all()
        assert float(best.total[row].exp()) == pytest.approx(sum(map(np.exp, scores.values())))
        assert float(best.no_answer[row]) == pytest.approx(float(logits[row, 0].sum()))


# --- runs -----------------------------------------------------------------------------------------


def test_training_is_above_the_floors(facts_run: Path) -> None:
    found = load_run(facts_run).evaluate()
    assert found["f1"] > max(floor["f1"] for floor in found.floors.values())
    assert {*found.floors} == {"sentence with most words of the question", "never an answer"}
    assert found["best_f1"] >= found["f1"] - 1e-9
    assert {*found.conventions} < {*found.metrics}
    run = load_run(facts_run)
    split = run.split("test")
    each = run.evaluator.score_each(split, run.predict(run.evaluator.inputs(split)))
    assert each is not None and float(each.mean()) == pytest.approx(100 * found["f1"])


def test_prediction_has_the_span_of_its_text(facts_run: Path) -> None:
    run = load_run(facts_run)
    question = next(q for q in run.split("test").questions if q.answers)
    found = run.predict((question.question, question.context), n_best=4)
    ranked = [found, *found.alternatives]
    assert len(ranked) == 4 and len({other.text for other in ranked}) > 1
    for other in ranked:
        assert other.score is not None and 0 <= other.score <= 1
        for span in other.spans or ():
            assert question.context[span["start"] : span["end"]] == span["text"] == other.text
            around = question.context[span["start"] - 1 : span["start"]]
            assert not around.isalnum() or not span["text"][0].isalnum()
    same = run.predict(f"{question.question} {question.context}")
    assert same.text == found.text == run.predict(f"{question.question}\t{question.context}").text
    with pytest.raises(ConfigError, match="got 1 texts; expected a question and its context"):
        run.predict("Who sang")
    with pytest.raises(ConfigError, match="got an empty one"):
        run.predict(("Who sang?", " "))
    with pytest.raises(ConfigError, match="got a int|got beam"):
        run.predict("Who? Ada.", beam=3)


def test_checks_pass_and_maps_are_drawn(facts_run: Path, tmp_path: Path) -> None:
    run = load_run(facts_run)
    results = {r.invariant: r for r in run.check(inputs=4)}
    assert all(r.passed for r in results.values() if r.num_inputs), results
    maps = run.look("Who paid? " + LONG).maps
    assert {kind for kind, _ in maps} == {"spans", "saliency"}
    spans = maps["spans", 1]
    assert spans.columns[0] == "[CLS]" and (spans.values.sum(1) <= 1 + 1e-5).all()
    run.look("Who paid? Ada paid.").save(tmp_path / "map.png")
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_windows_do_not_change_a_short_context(facts_run: Path) -> None:
    """A question with windows next to it, or padding, has the same answers and probabilities."""
    run = load_run(facts_run)
    short = ("Who paints the walls?", "Ada Berg paints the walls of the hall.")
    alone = run.predict(short)
    beside, _ = run.predict([short, ("Who paid?", LONG)])
    assert alone.text == beside.text
    assert alone.score == pytest.approx(beside.score, abs=1e-5)


def test_threshold_is_the_best_on_dev(facts_run: Path) -> None:
    run = load_run(facts_run)
    assert float(run.model.threshold) < ALWAYS_ANSWER
    splits = run.data().splits
    found = run.evaluator.evaluate(splits["dev"])
    assert found["f1"] == pytest.approx(found["best_f1"])
    answered = [q for q in splits["train"].questions if q.answers]
    only = QuestionSplit(answered, splits["train"].encoder)
    run.model.threshold.fill_(ALWAYS_ANSWER)
    choose_threshold(run.recipe, run.model, run.preprocessor, {**splits, "train": only})
    assert float(run.model.threshold) == ALWAYS_ANSWER
    scorer = AnswerScorer(run.recipe, run.model, run.preprocessor)
    found_answers = scorer.find(splits["dev"].take(5).table, 3)
    for some in found_answers:
        probabilities, none = scorer.probabilities(some)
        assert none == 0 and sum(probabilities) <= 1 + 1e-6 and not scorer.is_unanswered(some)


def test_resumed_training_has_the_same_bits(
    tmp_path: Path, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    settings = {"train__steps": 8, "train__evaluate_every": 4, "train__checkpoint_seconds": 0}
    train(tmp_path / "whole", **settings)

    class Interrupted(Exception):
        """Ends a training as a kill would."""

    def interrupt(event: Any) -> None:
        if event.step == 5:
            raise Interrupted

    recipe = resolve_recipe("answer", changes=settings_of(**settings)).recipe
    with pytest.raises(Interrupted):
        train_recipe(recipe, tmp_path / "part", TrainOptions(on_event=interrupt))
    resume(tmp_path / "part", {}, TrainOptions())
    assert outcome_of(tmp_path / "part") == outcome_of(tmp_path / "whole")


def test_pretrained_encoder_is_the_start(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    contexts = dict.fromkeys(q.context for q in generate_questions()[:90])
    text.write_text("\n".join(contexts))
    changes = {"model.width": 16, "model.depth": 1, "train.steps": 2, "train.threads": 1}
    recipe = resolve_recipe("bert", data=str(text), changes=changes).recipe
    train_recipe(recipe, tmp_path / "bert", TrainOptions())
    start = tmp_path / "bert"
    changes = {"train.steps": 1, "train.threads": 1, "train.learning_rate": 1e-9}
    recipe = resolve_recipe("answer", changes=changes, init_from=start).recipe
    train_recipe(recipe, tmp_path / "answer", TrainOptions(init_from=start))
    old, new = load_run(tmp_path / "bert"), load_run(tmp_path / "answer")
    assert new.preprocessor.tokens == old.preprocessor.tokens
    for name, value in new.model.encoder.state_dict().items():
        assert torch.allclose(value, old.model.encoder.state_dict()[name], atol=1e-6), name


# --- data -----------------------------------------------------------------------------------------


def test_articles_are_in_one_split() -> None:
    questions = [paid(str(n))._replace(article=str(n // 3), context=f"{n} a") for n in range(60)]
    splits, _ = divide_questions(questions, {}, QuestionsConfig())
    articles = [{q.article for q in some} for some in splits.values()]
    assert [len(some) for some in articles] == [16, 2, 2]
    assert not articles[0] & articles[1] and not articles[0] & articles[2]
    given = {"test": questions[:3]}
    splits, notes = divide_questions(questions, given, QuestionsConfig(dev_share=0.0))
    assert len(splits["train"]) == 57 and "held out in another split" in notes[0]


def test_data_without_answers_or_of_another_script_is_refused(
    facts_run: Path, tmp_path: Path
) -> None:
    row = {"question": "Who?", "context": "Ada sang.", "answers": []}
    path = tmp_path / "none.jsonl"
    path.write_text(json.dumps(row) + "\n")
    with pytest.raises(DataError, match="none with an answer"):
        train(tmp_path / "run", str(path))
    chinese = "黑豹队的防守只丢了308分"
    row = {"question": "多少分?", "context": chinese, "answers": [{"text": "308"}]}
    path.write_text(json.dumps(row) + "\n")
    recipe = resolve_recipe("answer", data=str(path), init_from=facts_run).recipe
    with pytest.raises(DataError, match="are not in the vocabulary of the encoder"):
        train_recipe(recipe, tmp_path / "run", TrainOptions(init_from=facts_run))

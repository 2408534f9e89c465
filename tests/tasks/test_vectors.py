"""Word vectors: fitting, resuming, neighbours, benchmarks, rejected data."""

import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from saccade.cli.main import run as saccade
from saccade.errors import ConfigError, DataError
from saccade.estimators.word_vectors import word2vec
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import Choice
from saccade.tasks.word_vectors.models import MAX_ONE_HOT_WORDS
from tests.hanging import HANG_SECONDS

MODELS = ("cbow", "fasttext", "glove", "one_hot", "skipgram", "svd")
SMALL = {
    "cbow": {"model.width": 16, "model.epochs": 2},
    "fasttext": {"model.width": 16, "model.epochs": 1},
    "glove": {"model.width": 16, "model.epochs": 3},
    "one_hot": {},
    "skipgram": {"model.width": 16, "model.epochs": 2},
    "svd": {"model.width": 16},
}
LONG = {"model.epochs": 40, "model.subsample": 0}  # enough for distinct vectors


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sentences in which cat and dog share their verbs, and sun and moon theirs."""
    random = np.random.default_rng(1)
    lines = []
    for _ in range(1500):
        nouns = [("cat", "dog"), ("sun", "moon")][int(random.integers(2))]
        verbs = {"cat": ("eats", "runs", "sleeps"), "sun": ("shines", "rises", "sets")}[nouns[0]]
        noun = nouns[int(random.integers(2))]
        lines.append(f"the {noun} {verbs[int(random.integers(3))]} today .")
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def fit_vectors(corpus: Path, folder: Path, model: str, **more: object) -> Run:
    """Fit a run with one thread."""
    changes = {"train.threads": 1, **SMALL[model], **more}
    recipe = resolve_recipe("vectors", data=str(corpus), model=model, changes=changes).recipe
    return train_recipe(recipe, folder, TrainOptions()).run


@pytest.fixture(scope="module")
def fitted(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Return a function that fits a model once; its runs are read and never written to."""
    root = tmp_path_factory.mktemp("fitted")
    runs: dict[str, Run] = {}

    def fit_once(model: str, **more: object) -> Run:
        name = "-".join([model, *(f"{key}={value}" for key, value in more.items())])
        if name not in runs:
            runs[name] = fit_vectors(corpus, root / name, model, **more)
        return runs[name]

    return fit_once


@pytest.mark.parametrize("model", MODELS)
def test_word_vectors_are_saved_and_queried(model: str, fitted: Callable[..., Run]) -> None:
    run = fitted(model)
    again = load_run(run.folder)
    assert np.array_equal(run.model.unit_vectors, again.model.unit_vectors)
    assert np.allclose(np.linalg.norm(run.model.unit_vectors, axis=1), 1, atol=1e-5)
    best = again.predict("cat", n_best=3)
    assert len((best, *best.alternatives)) == 3 and "cat" not in best.text
    assert (run.folder / "report" / "words.png").exists() or len(run.preprocessor.words) < 103
    assert all(result.passed for result in again.check() if result.num_inputs)


@pytest.mark.parametrize("model", ["cbow", "fasttext", "glove", "skipgram", "svd"])
def test_word_vectors_of_words_in_same_contexts_are_similar(
    model: str, fitted: Callable[..., Run]
) -> None:
    more = {"model.epochs": 40} if model != "svd" else {}
    if model in ("cbow", "skipgram", "fasttext"):
        more = LONG
    vectors = fitted(model, **more).model
    [[cat_dog, cat_sun, _], [_, sun_moon, _]] = [
        [float(vectors.similarities(pair)[0, 1]) for pair in pairs]
        for pairs in (
            (("cat", "dog"), ("cat", "sun"), ("dog", "moon")),
            (("cat", "moon"), ("sun", "moon"), ("dog", "sun")),
        )
    ]
    margin = 0 if model == "glove" else 0.1  # its vectors have much in common on so small a text
    assert cat_dog > cat_sun + margin and sun_moon > cat_sun + margin


@pytest.mark.parametrize("model", ["cbow", "fasttext", "skipgram"])
def test_word_vectors_are_determined_by_seed_and_loss_falls(
    model: str, corpus: Path, tmp_path: Path, fitted: Callable[..., Run]
) -> None:
    first = fitted(model)
    second = fit_vectors(corpus, tmp_path / "second", model)
    assert np.array_equal(first.model.unit_vectors, second.model.unit_vectors)
    other = fit_vectors(corpus, tmp_path / "other", model, **{"train.seed": 2})
    assert not np.array_equal(first.model.unit_vectors, other.model.unit_vectors)
    longer = fit_vectors(corpus, tmp_path / "longer", model, **{"model.epochs": 20})
    losses = [run.evaluate(split="dev")["loss"] for run in (longer, first)]
    assert losses[0] < losses[1] < 6 * np.log(2)


@pytest.mark.parametrize("model", ["glove", "skipgram"])
def test_word_vectors_resumed_after_kill_have_same_bits(
    model: str,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_once_saved: Callable[[Callable[[], object]], int],
) -> None:
    monkeypatch.setattr(word2vec, "WORDS_PER_BLOCK", 256)
    monkeypatch.setattr(word2vec, "REPORT_INTERVAL_SECONDS", 0.01)
    more = {"model.epochs": 150 if model == "skipgram" else 12}
    whole = fit_vectors(corpus, tmp_path / "whole", model, **more)
    folder = tmp_path / "killed"
    assert killed_once_saved(lambda: fit_vectors(corpus, folder, model, **more)) > 0
    assert not (folder / "model.safetensors").exists()
    resumed = resume(folder, {}, TrainOptions()).run
    assert np.array_equal(whole.model.unit_vectors, resumed.model.unit_vectors)
    assert not (folder / "checkpoint" / "fitting.safetensors").exists()


def test_log_of_a_resumed_fit_has_every_line_once(
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    killed_once_saved: Callable[[Callable[[], object]], int],
) -> None:
    # a report is at 5.6 ms, which is logged as 0.01 s, and the checkpoint after it at 5.7 ms
    times = itertools.chain([0.0], itertools.count(0.0056, 0.0001))
    clock = SimpleNamespace(monotonic=lambda: next(times))
    monkeypatch.setattr("saccade.training.fit_session.time", clock)
    folder = tmp_path / "killed"
    killed_once_saved(lambda: fit_vectors(corpus, folder, "glove"))
    resumed = resume(folder, {}, TrainOptions()).run
    whole = fit_vectors(corpus, tmp_path / "whole", "glove")
    losses = [[line.get("loss") for line in run.metrics()] for run in (resumed, whole)]
    assert losses[0] == losses[1]


def test_glove_reports_a_loss_on_held_out_pairs(corpus: Path, tmp_path: Path) -> None:
    run = fit_vectors(corpus, tmp_path / "run", "glove", **{"model.dev_share": 0.2})
    logged = [line["dev_loss"] for line in run.metrics()]
    assert len(logged) == SMALL["glove"]["model.epochs"] + 1 and logged[-1] == logged[-2]
    again = load_run(run.folder)
    evaluation = again.evaluate()
    assert evaluation["loss"] == pytest.approx(logged[-1], rel=1e-6)
    assert "weighted squared error" in evaluation.conventions["loss"]
    assert np.array_equal(run.model.word_vectors(), again.model.word_vectors())
    none = fit_vectors(corpus, tmp_path / "none", "glove", **{"model.dev_share": 0})
    assert list(none.model.state_dict()) == ["rows"]
    assert "loss" not in none.evaluate()


def test_wrong_arrays_of_held_out_pairs_are_refused(corpus: Path, tmp_path: Path) -> None:
    run = fit_vectors(corpus, tmp_path / "run", "glove", **{"model.dev_share": 0.2})
    state = run.model.state_dict()
    for name, wrong in {
        "held_out_first": state["held_out_first"] + 1000,
        "held_out_second": state["held_out_second"] - 1000,
        "held_out_weight": -state["held_out_weight"],
        "biases": state["biases"][:1],
        "vectors": state["vectors"].astype(np.float64),
    }.items():
        with pytest.raises(RuntimeError, match="expected"):
            run.model.load_state_dict({**state, name: wrong})


@pytest.mark.parametrize("model", ["cbow", "fasttext", "skipgram"])
def test_power_of_negatives_is_chosen_from_the_size_of_the_text(
    model: str, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words, expected in ((10**9, 0.75), (1, 0.5)):
        monkeypatch.setattr(word2vec, "LARGE_CORPUS_WORDS", words)
        chosen: list[Choice] = []
        recipe = resolve_recipe(
            "vectors", data=str(corpus), model=model, changes={"train.threads": 1, **SMALL[model]}
        ).recipe
        folder = tmp_path / str(words)
        run = train_recipe(recipe, folder, TrainOptions(on_choices=chosen.extend)).run
        assert [(choice.path, choice.value) for choice in chosen] == [("model.power", expected)]
        assert load_run(folder).recipe.model.power == expected
        given = fit_vectors(corpus, tmp_path / f"{words}-given", model, **{"model.power": expected})
        assert np.array_equal(run.model.unit_vectors, given.model.unit_vectors)


def test_fasttext_builds_vectors_of_unknown_words(fitted: Callable[..., Run]) -> None:
    run = fitted("fasttext")
    assert run.predict(["eatsruns"])[0].text
    with pytest.raises(DataError, match="got 'xqzw', which has no vector"):
        run.predict(["xqzw"])


def test_word_vectors_are_scored_on_similarity_and_analogies(
    tmp_path: Path, fitted: Callable[..., Run]
) -> None:
    run = load_run(fitted("skipgram", **LONG).folder)
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("# a comment\ncat\tdog\t9.5\ncat\tsun\t1\ncat\txqzw\t1\n")
    scores = run.evaluate(pairs)
    assert scores["pairs"] == pytest.approx(1) and scores["pairs_covered"] == pytest.approx(2 / 3)
    questions = tmp_path / "questions.txt"
    questions.write_text(": beasts\ncat dog sun moon\nCat Dog Sun xqzw\n: all\ncat dog moon sun\n")
    scores = run.evaluate(questions)
    assert scores["questions_covered"] == pytest.approx(2 / 3)
    assert set(scores) >= {"questions", "questions beasts", "questions all"}


def test_benchmarks_without_coverage_are_left_out(
    tmp_path: Path, fitted: Callable[..., Run]
) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("katze\thund\t9\nsonne\tmond\t8\nbrot\twein\t3\n")
    questions = tmp_path / "questions.txt"
    questions.write_text(": paare\nkatze hund sonne mond\n")
    # fastText builds a vector of any string, which does not make it a word of the text
    for run in (fitted("skipgram"), fitted("fasttext")):
        for path in (pairs, questions):
            found = load_run(run.folder).evaluate(path)
            assert not found.metrics
            assert found.omitted[path.stem].startswith("fewer than 10% of its words are in the voc")
    partly = tmp_path / "partly.txt"
    partly.write_text("cat dog sun mond\ncat hund sun moon\n")
    found = load_run(fitted("skipgram").folder).evaluate(partly)
    assert found.omitted == {"partly": "no question has all its words in the vocabulary"}
    equal = tmp_path / "equal.tsv"
    equal.write_text("cat\tdog\t9\nsun\tmoon\t8\ncat\tsun\t3\n")
    found = load_run(fitted("one_hot").folder).evaluate(equal)  # all cosines are 0
    assert found.omitted == {"equal": "all cosines or all ratings are equal"}


def test_vectors_of_a_text_without_spaces_are_of_characters(tmp_path: Path) -> None:
    text = tmp_path / "chinese.txt"
    text.write_text("今天天气很好，我们去公园散步。\n酒店的服务很好，房间也很干净。\n" * 60)
    changes = {"train.threads": 1, **SMALL["svd"]}
    recipe = resolve_recipe("vectors", data=str(text), model="svd", changes=changes).recipe
    logged, choices = [], []
    options = TrainOptions(log=logged.append, on_choices=choices.extend)
    run = train_recipe(recipe, tmp_path / "run", options).run
    assert any("each character is a token and gets a vector" in line for line in logged)
    [choice] = [choice for choice in choices if choice.path == "data.split"]
    assert choice.reason == "each character is a token"
    example = run.inspector.example_input(run.split("test"))
    assert len(example) == 1 and example.isalpha()
    with pytest.raises(DataError, match=r"Each character is a token here; try '很 \+ 好'"):
        run.predict("很好")
    assert run.predict("很 + 好").text


def test_word_map_has_the_neighbours_of_each_word(fitted: Callable[..., Run]) -> None:
    run = load_run(fitted("skipgram", **LONG).folder)
    found = run.inspector.word_map(["cat", "sun", "cat"], 2)
    assert found.words == ["cat", "sun"] and len(found.vectors) == len(found.all_words)
    for near in found.neighbors:
        one, other = run.model.unit_vectors_of([near.of, near.word])
        assert near.cosine == pytest.approx(float(one @ other), abs=1e-6)
    nearest = run.predict("cat", n_best=2)
    expected = [nearest.text, *(other.text for other in nearest.alternatives)]
    assert [near.word for near in found.neighbors if near.of == "cat"] == expected


def test_look_prints_and_draws_neighbours(
    fitted: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(fitted("skipgram", **LONG).folder)
    assert saccade(["look", folder, "cat", "--save", str(tmp_path / "cat.png")]) == 0
    assert "nearest" in capsys.readouterr().out and (tmp_path / "cat.png").exists()
    assert saccade(["look", folder, "cat", "sun", "--json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert value["words"] == ["cat", "sun"] and len(value["neighbors"]) == 6
    assert saccade(["look", folder]) == 2
    assert "expected one or more" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "0 words"),
        ("one one one one one one\n", "1 different"),
        ("a b c d e f\n", "fewer than 2 occur 5 times"),
    ],
)
def test_word_vectors_reject_tiny_texts(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        fit_vectors(path, tmp_path / "run", "skipgram")


def test_word_vectors_reject_malformed_analogies(fitted: Callable[..., Run]) -> None:
    run = fitted("skipgram")
    for text, message in (
        ("catt", "Did you mean 'cat'"),
        ("cat dog", "without a sign before 'dog'"),
        ("cat -", "expected a word after the last sign"),
        ("", "got an empty text; expected a word"),
    ):
        with pytest.raises(DataError, match=message):
            run.predict([text])


def test_one_hot_vectors_reject_large_vocabularies(tmp_path: Path) -> None:
    many = tmp_path / "many.txt"
    many.write_text(" ".join(f"w{number}" for number in range(MAX_ONE_HOT_WORDS + 1)))
    with pytest.raises(ConfigError, match="one-hot"):
        fit_vectors(many, tmp_path / "many", "one_hot", **{"data.min_count": 1})


def test_commands_of_word_vectors_and_classifiers_load_no_torch(
    corpus: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    code = (
        "import sys, json\n"
        "from saccade.cli.main import app\n"
        "from typer.testing import CliRunner\n"
        "for args in json.loads(sys.argv[1]):\n"
        "    assert CliRunner().invoke(app, args).exit_code == 0, args\n"
        "assert 'torch' not in sys.modules\n"
    )
    words = ["--data", str(corpus), "--set", "model.epochs=1"]
    labelled = tmp_path / "labelled.tsv"
    labelled.write_text("".join(f"{'ab'[n % 2]}\t{'xy'[n % 2]} and {n}\n" for n in range(80)))
    commands = [
        ["train", "vectors", *words, "--out", str(folder)],
        ["predict", str(folder), "cat"],
        ["evaluate", str(folder)],
        ["look", str(folder), "cat", "dog", "--save", str(tmp_path / "map.png")],
        ["export", str(folder), "--to", "word2vec", "--out", str(tmp_path / "out.txt")],
        ["train", "classify", "--data", str(labelled), "--out", str(tmp_path / "classify")],
        ["predict", str(tmp_path / "classify"), "x and 7"],
    ]
    subprocess.run(
        [sys.executable, "-c", code, json.dumps(commands)], check=True, timeout=HANG_SECONDS
    )
    assert (tmp_path / "map.png").exists()


def test_ngrams_of_fasttext_add_up_to_the_cosine(
    fitted: Callable[..., Run], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fitted("fasttext")
    model = run.model.vectors
    word, other = [word for word in run.preprocessor.words if len(word) > 3][:2]
    found = run.explain(word, answer=other).attribution
    assert found.parts[0] == word and f"<{word[:2]}" in found.parts
    cosine = float(run.model.similarities([word, other])[0, 1])
    assert found.value == pytest.approx(cosine, abs=1e-6)
    assert found.scores.sum() == pytest.approx(cosine, abs=1e-5)
    unit = run.model.unit_vector(other).astype(np.float64)
    bag = model.bags[1][model.bags[0][run.model.ids[word]] : model.bags[0][run.model.ids[word] + 1]]
    rows = model.vectors.word_vectors[bag].astype(np.float64)  # as they are summed in training
    length = np.linalg.norm(rows.mean(0))
    np.testing.assert_allclose(found.scores, rows @ unit / len(rows) / length, atol=1e-6)
    unknown = run.explain(word + "zz").attribution  # outside the vocabulary: only its n-grams
    assert word + "zz" not in unknown.parts and unknown.residual == pytest.approx(0, abs=1e-5)
    assert (
        saccade(
            [
                "look",
                str(run.folder),
                word,
                "--method",
                "contributions",
                "--save",
                str(tmp_path / "grams.png"),
            ]
        )
        == 0
    )
    assert "cosine" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="no attributions"):
        fitted("skipgram").explain(word)

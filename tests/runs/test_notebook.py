"""Display in notebooks, and short representations."""

from pathlib import Path

import numpy as np
import pytest

from saccade.errors import ConfigError
from saccade.runs.run import Run, load_run
from saccade.types.html import html_image, html_table
from saccade.types.results import Evaluation, Prediction


@pytest.fixture(scope="module")
def run(trained_runs: dict[str, Path]) -> Run:
    return load_run(trained_runs["transformer"])


def test_run_is_shown_with_scores_and_settings(run: Run) -> None:
    shown = run._repr_html_()
    assert "transformer" in shown and "<td>model.width</td><td>8</td><td>128</td>" in shown
    assert "<th>dev</th>" in shown and "data fingerprint" in shown
    assert repr(run) == f"Run({str(run.folder)!r}, task='translate', model='transformer')"


def test_predict_returns_one_or_a_list(run: Run) -> None:
    one = run.predict("abc")
    assert one == run.predict(["abc"])[0] and isinstance(one, Prediction)
    assert run.predict(text for text in ("abc", "b")) == run.predict(["abc", "b"])


def test_prediction_shows_its_answers_only() -> None:
    found = Prediction("a<b", score=-0.5, alternatives=(Prediction("c", score=-1.25),))
    assert repr(found) == "Prediction(text='a<b', score=-0.5, alternatives=1)"
    assert "<td>a&lt;b</td><td>-0.5</td>" in found._repr_html_()
    assert "<td>c</td><td>-1.25</td>" in found._repr_html_()
    classes = Prediction("x", probabilities={"y": 0.25, "x": 0.75})._repr_html_()
    assert classes.index("<td>x</td><td>0.75</td>") < classes.index("<td>y</td><td>0.25</td>")


def test_evaluation_shows_metrics_baselines_and_confusion() -> None:
    found = Evaluation(
        {"accuracy": 0.9}, {"accuracy": "share"}, floors={"majority": {"accuracy": 0.5}}
    )
    assert repr(found) == "Evaluation(accuracy=0.9)"
    row = "<tr><td>accuracy</td><td>0.9</td><td>0.5</td><td>share</td></tr>"
    assert row in found._repr_html_()
    tables = {"confusion": {"classes": ["a", "b"], "counts": [[3, 1], [0, 4]]}}
    shown = Evaluation({}, tables=tables)._repr_html_()
    assert "<tr><td>a</td><td>3</td><td>1</td></tr>" in shown


def test_attention_maps_are_a_picture(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    maps = run.look("abc")
    assert maps._repr_png_().startswith(b"\x89PNG") and "cross" in repr(maps)
    maps.show()
    assert "a" in capsys.readouterr().out


def test_vector_is_that_of_the_word(run: Run, tmp_path: Path) -> None:
    import saccade

    text = tmp_path / "text.txt"
    text.write_text("the king and the queen\n" * 30)
    settings = {"data.min_count": 1, "model.width": 4, "model.window": 2}
    vectors = saccade.train(
        "vectors", data=text, model="svd", set=settings, out=tmp_path / "run", progress=False
    )
    words = vectors.preprocessor.words
    expected = vectors.model.word_vectors()[words.index("king")]
    assert np.array_equal(vectors.vector("king"), expected)
    with pytest.raises(ConfigError, match="task translate; expected one of vectors"):
        run.vector("king")


def test_html_escapes_everything() -> None:
    assert "<script>" not in html_table(["<script>"], [["<script>"]])
    assert html_table(["", ""], [[1, 2]]).startswith("<table><tbody>")
    assert html_image(b"x", '"a"') == '<img alt="&quot;a&quot;" src="data:image/png;base64,eA==">'

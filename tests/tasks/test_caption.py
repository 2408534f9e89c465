"""The captioning task through the run folder: training, resume, prediction, evaluation, maps."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import saccade
from saccade.cli.main import run as run_command
from saccade.data.images.scenes import Region
from saccade.errors import ConfigError, DataError
from saccade.inspection.checks import skipped
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.image_explanation import ImageExplanation
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.captioning import inspect
from saccade.tasks.captioning.data import prepare_captions
from saccade.tasks.captioning.evaluate import constant_caption
from saccade.tasks.captioning.objective import CaptionObjective
from saccade.tasks.registry import task_spec_for

COLOURS = {"red": (230, 30, 30), "green": (30, 220, 30), "blue": (30, 60, 240)}
SMALL = {
    "model.width": 16,
    "model.encoder_width": 6,
    "model.encoder_depth": 2,
    "model.dropout": 0.0,
    "train.steps": 160,
    "train.evaluate_every": 80,
    "train.batch_tokens": 24,
    "train.learning_rate": 0.01,
    "train.threads": 1,
}


def draw(colour: str, side: str, seed: int) -> Image.Image:
    """Return a square of a colour in the left or right half of a dark image."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 50, (16, 16, 3), np.uint8)
    x = 1 + int(random.integers(0, 3)) + (8 if side == "right" else 0)
    y = int(random.integers(1, 11))
    pixels[y : y + 4, x : x + 4] = COLOURS[colour]
    return Image.fromarray(pixels)


def write_captions(folder: Path, count: int = 40) -> Path:
    """Write images with two captions each; the rows of an image are not next to each other."""
    folder.mkdir(parents=True, exist_ok=True)
    first, second = [], []
    for number in range(count):
        colour, side = [*COLOURS][number % 3], ("left", "right")[number // 3 % 2]
        draw(colour, side, number).save(folder / f"{number}.png")
        first.append(f"{number}.png\tA {colour} square on the {side}.\n")
        second.append(f"{number}.png\tthere is a {colour} square\n")
    path = folder / "captions.tsv"
    path.write_text("".join(first + second), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_captions(tmp_path_factory.mktemp("data") / "squares")


def make_recipe(table: Path, model: str | None = None, **changes: Any) -> Any:
    settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe("caption", data=str(table), model=model, changes=settings).recipe


@pytest.fixture(scope="module")
def trained(table: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that is trained on the squares."""
    folder = tmp_path_factory.mktemp("runs") / "squares"
    train_recipe(make_recipe(table), folder, TrainOptions())
    return folder


@pytest.fixture
def run(trained: Path) -> Run:
    return load_run(trained)


# --- data and training ----------------------------------------------------------------------------


def test_all_captions_of_an_image_are_in_one_split(run: Run) -> None:
    splits = [run.split(name) for name in ("train", "dev", "test")]
    names = [name for split in splits for name in split.names]
    assert len(names) == len({*names}) == 40
    assert all(len(texts) == 2 for split in splits for texts in split.captions)
    assert [len(split) for split in splits] == [32, 4, 4]
    assert "a" in run.preprocessor.words and "." not in run.preprocessor.words


def test_task_is_inferred_from_paths_and_texts(tmp_path: Path) -> None:
    table = tmp_path / "captions.tsv"
    lines = (
        f"{number}.png\tthe photo of a person with the number {number}" for number in range(30)
    )
    table.write_text("\n".join(lines))
    resolved = resolve_recipe(str(table), changes=SMALL)
    assert resolved.recipe.task == "caption"
    assert "paths of images" in resolved.notes[0]


def test_trained_captioner_beats_the_constant_caption(run: Run) -> None:
    evaluation = run.evaluate()
    floor = evaluation.floors["constant caption"]
    assert evaluation["bleu4"] > floor["bleu4"] and evaluation["cider"] > floor["cider"]
    assert {"bleu1", "bleu2", "bleu3", "rougeL", "loss", "perplexity"} <= {*evaluation.metrics}
    assert "exact" not in evaluation and "pointing" not in evaluation  # two references, no regions
    assert "COCO" in evaluation.conventions["bleu4"]
    figures = run.inspector.figures({"test": run.split("test")})
    assert {*figures} == {"captions.png", "attention.png"}


@pytest.mark.parametrize(
    "model, changes",
    [
        ("recurrent", {"model.doubly_stochastic": 0.5, "data.augment.flip": True}),
        ("recurrent", {"model.attention": "hard", "model.cell": "gru"}),
        ("recurrent_mean", {"model.depth": 2, "train.label_smoothing": 0.1}),
        ("transformer", {"model.heads": 2}),
    ],
)
def test_resumed_training_has_the_same_bits(
    model: str,
    changes: dict[str, Any],
    table: Path,
    tmp_path: Path,
    no_report: None,
    outcome_of: Callable[[Path], dict[str, Any]],
) -> None:
    changes = {
        "train.steps": 6,
        "train.evaluate_every": 3,
        "train.checkpoint_seconds": 0,
        "model.dropout": 0.2,
        **changes,
    }
    recipe = make_recipe(table, model, **changes)
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


def test_images_are_decoded_once(trained: Path, table: Path, tmp_path: Path) -> None:
    folder = tmp_path / "squares"
    shutil.copytree(trained, folder)
    (table.parent / "0.png").rename(table.parent / "0.moved")
    try:
        again = load_run(folder)
        assert len(again.split("train")) == 32
        assert again.load_training_data().fingerprint() == again.metadata["data"]
    finally:
        (table.parent / "0.moved").rename(table.parent / "0.png")


@pytest.mark.parametrize("damage", ["captions.json", "pixels.bin"])
def test_a_damaged_store_is_decoded_again(damage: str, trained: Path, tmp_path: Path) -> None:
    folder = tmp_path / "squares"
    shutil.copytree(trained, folder)
    with (folder / "images" / damage).open("r+b") as file:
        file.write(b"\x07" * 9)
    assert len(load_run(folder).split("train")) == 32


def test_corrupt_images_are_named_and_left_out(tmp_path: Path) -> None:
    table = write_captions(tmp_path / "squares", 12)
    (tmp_path / "squares" / "5.png").write_bytes(b"no image")
    data = prepare_captions(make_recipe(table), PrepareContext())
    assert any("5.png: got a file that is not an image" in note for note in data.notes)
    assert sum(len(split) for split in {id(s): s for s in data.splits.values()}.values()) == 11


def test_words_below_the_minimum_are_unknown(table: Path) -> None:
    data = prepare_captions(make_recipe(table, data__min_count=30), PrepareContext())
    assert "square" in data.preprocessor.words and "red" not in data.preprocessor.words
    all_rare = prepare_captions(make_recipe(table, data__min_count=10_000), PrepareContext())
    assert "red" in all_rare.preprocessor.words


def test_batches_of_a_trained_encoder_have_captions_of_all_lengths(table: Path) -> None:
    """Batch norm of images of one length would have other statistics than in evaluation."""
    are_mixed = {}
    for encoder in ("conv", "efficientnet_lite0"):
        changes = {"model.encoder": encoder, "model.image_size": 32, "model.encoder_width": None}
        data = prepare_captions(make_recipe(table, **changes), PrepareContext())
        model = task_spec_for(data.recipe).components(data.recipe).build_model
        network = model(data.recipe, data.preprocessor)
        objective = CaptionObjective(data.recipe, network, data.preprocessor, data.splits)
        batches = objective.batches("train")
        epoch = [next(batches) for _ in range(objective.batches_in_epoch())]
        images = sorted(image for batch in epoch for image in batch.lines)
        assert images == sorted(2 * [*range(32)])
        are_mixed[encoder] = [batch.target_positions is not None for batch in epoch]  # padded
    assert all(are_mixed["conv"])
    assert not all(are_mixed["efficientnet_lite0"])  # frozen: batches with less padding


def test_grids_of_a_frozen_encoder_are_computed_once(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"model.encoder": "efficientnet_lite0", "model.image_size": 32}
    changes |= {"model.encoder_width": None, "model.dropout": 0.0}
    recipe = make_recipe(table, **changes)
    data = prepare_captions(recipe, PrepareContext())
    components = task_spec_for(data.recipe).components(data.recipe)
    model = components.build_model(data.recipe, data.preprocessor)
    objective = CaptionObjective(data.recipe, model, data.preprocessor, data.splits)
    batch = next(objective.batches("train"))
    encoder = model.encoder
    assert batch.source.shape[1:] == encoder.grid_shape
    calls: list[int] = []
    encoder.features.register_forward_hook(lambda *_: calls.append(1))
    loss = objective.loss(batch)
    assert not calls
    train = data.splits["train"]
    predictor = components.predictor(data.recipe, model, data.preprocessor)
    images = predictor.images(train.pixels_at(np.array(batch.lines)))
    with torch.no_grad():
        same = objective.loss(batch._replace(source=images))
    assert torch.allclose(loss.total.detach(), same.total, rtol=1e-4)
    evaluator = components.evaluator(data.recipe, model, data.preprocessor)
    first = evaluator.evaluate(train)
    calls.clear()
    assert evaluator.evaluate(train).metrics == first.metrics and not calls
    limited = evaluator.evaluate(train, limit=10)
    assert calls and limited["examples"] == 10
    uncached = components.evaluator(data.recipe, model, data.preprocessor)
    monkeypatch.setattr(
        uncached, "_images", lambda split, rows: uncached.predictor.images(split.pixels_at(rows))
    )
    assert uncached.evaluate(train)["loss"] == pytest.approx(first["loss"], rel=1e-4)
    with pytest.raises(ConfigError, match="got data.augment with frozen features"):
        flipped = make_recipe(table, **changes, data__augment__flip=True)
        found = prepare_captions(flipped, PrepareContext())
        CaptionObjective(found.recipe, model, found.preprocessor, found.splits)


# --- scenes ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def scenes() -> Any:
    pytest.importorskip("sklearn")
    settings = SMALL | {"data.size": 60}
    recipe = resolve_recipe("caption", changes=settings).recipe
    data = prepare_captions(recipe, PrepareContext())
    return data, task_spec_for(data.recipe).components(data.recipe)


def test_scenes_report_exact_match_and_pointing(scenes: Any) -> None:
    data, components = scenes
    model = components.build_model(data.recipe, data.preprocessor)
    evaluator = components.evaluator(data.recipe, model, data.preprocessor)
    found = evaluator.evaluate(data.splits["test"], limit=6)
    assert {"exact", "bleu4", "cider"} <= {*found.metrics}
    assert evaluator.metric.name == "exact"
    floors = evaluator.floors(data.splits["train"], data.splits["test"].take(20))
    assert 0 <= floors["constant caption"]["exact"] < 0.2
    assert constant_caption(data.splits["train"]) in {
        text for texts in data.splits["train"].captions for text in texts
    }


def test_pointing_counts_maxima_inside_the_named_regions(
    scenes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, components = scenes
    model = components.build_model(data.recipe, data.preprocessor)
    evaluator = components.evaluator(data.recipe, model, data.preprocessor)
    _, rows, columns = model.encoder.grid_shape
    words = "a seven left of a two".split()
    ids = evaluator.predictor.tokenizer.encode(" ".join(words))
    weights = torch.zeros(1, len(ids), rows * columns)
    weights[0, 1, 2 * columns + 3] = 1  # of "seven": row 2, column 3, whose centre is (10, 14)
    weights[0, 5, 0] = 1  # of "two"
    monkeypatch.setattr(evaluator.predictor, "word_weights", lambda images, ids: weights)
    images = torch.zeros(1, 1, 32, 32)
    two = Region("two", 0, 2, 8)  # whose square (0…7, 2…9) has the centre (2, 2)
    for seven, expected in (
        (Region("seven", 8, 10, 8), [True, True]),
        (Region("seven", 11, 10, 8), [False, True]),
    ):
        assert evaluator._pointing(images, [ids], [(seven, two)]) == expected
    assert evaluator._pointing(images, [ids], [(seven,)]) == [False, False]


def test_scenes_have_their_own_splits() -> None:
    recipe = resolve_recipe("caption", changes={"data.group_by": "x"}).recipe
    with pytest.raises(ConfigError, match="scenes, which has its own splits"):
        prepare_captions(recipe, PrepareContext())


# --- prediction -----------------------------------------------------------------------------------


def test_predictions_do_not_depend_on_their_neighbours(run: Run, table: Path) -> None:
    paths = [str(table.parent / f"{number}.png") for number in range(6)]
    together = [p.text for p in run.predict([*paths, "nowhere.png"], beam=3)]
    assert together[:6] == [run.predict(path, beam=3).text for path in paths]
    wrong = run.predict(["nowhere.png", paths[0]])
    assert "nowhere.png" in (wrong[0].error or "") and wrong[1].text == run.predict(paths[0]).text


def test_inputs_may_be_files_arrays_and_images(run: Run, table: Path) -> None:
    path = table.parent / "3.png"
    expected = run.predict(str(path)).text
    with Image.open(path) as image:
        for raw in (path, path.read_bytes(), image, np.asarray(image)):
            assert run.predict(raw).text == expected
    best = run.predict(path, beam=4, n_best=3)
    assert len(best.alternatives) == 2
    assert best.score is not None and best.score >= (best.alternatives[0].score or 0.0)
    assert run.predict(path, beam=3, coverage=0.5).text


@pytest.fixture
def no_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the compile check, which takes half a minute."""
    left_out = skipped("compiled equals eager", "left out of this test")
    monkeypatch.setattr(inspect, "compile_parity", lambda model, example: left_out)


def test_checks_pass(run: Run, no_compiling: None) -> None:
    verdicts = {result.invariant: result.verdict for result in run.check(inputs=3)}
    assert {*verdicts.values()} <= {"passed", "skipped"}
    assert "padding invariance" not in verdicts and verdicts["batch invariance"] == "passed"


# --- inspection -----------------------------------------------------------------------------------


def test_look_shows_a_map_for_each_word(run: Run, table: Path, tmp_path: Path) -> None:
    path = table.parent / "1.png"
    found = run.look(path)
    assert isinstance(found, ImageExplanation)
    caption = run.predict(path).text
    assert found.maps.output == caption
    assert [part.name for part in found.maps.maps] == caption.split()
    for part in found.maps.maps:
        assert part.values.shape == (4, 4)
        assert part.values.sum() == pytest.approx(1, abs=1e-5)
    assert found.save(tmp_path / "words.png") == []
    assert json.loads(json.dumps(found.to_dict()))
    lines = found.terminal(60)
    assert all(word in lines for word in caption.split())
    assert max(map(len, lines.splitlines())) <= 60


def test_look_takes_another_caption(run: Run, table: Path) -> None:
    path = table.parent / "1.png"
    given = run.look(path, answer="A RED square!")
    assert given.maps.output == "a red square"
    assert len(given.maps.maps) == 3 and 0 < given.maps.probability < 1
    # a generated caption given as the answer has the probability it was generated with
    own = run.look(path)
    again = run.look(path, answer=own.maps.output)
    assert again.maps.probability == pytest.approx(own.maps.probability, rel=1e-4)
    expected = "got 'yellow', 'dog' in a caption; expected words that occur at least 2 times"
    with pytest.raises(DataError, match=expected):
        run.look(path, answer="a yellow square dog")
    with pytest.raises(DataError, match="expected words"):
        run.look(path, answer="?!")
    with pytest.raises(ConfigError, match="method"):
        run.look(path, method="grad_cam")


def test_feature_maps_of_the_encoder(run: Run, table: Path) -> None:
    path = table.parent / "1.png"
    found = run.feature_maps(path, "encoder.features.0").grid
    pixels = run.predictor.pixels(path)[None]  # type: ignore[attr-defined]
    [first, *_] = [part for part in run.model.modules() if isinstance(part, torch.nn.Conv2d)]
    expected = first(run.predictor.images(pixels))[0].detach().numpy()  # type: ignore[attr-defined]
    assert np.allclose(np.stack(found.tiles), expected, atol=1e-5)
    assert "--features LAYER" in run.describe_views()
    with pytest.raises(ConfigError, match="Did you mean 'encoder.features.0'"):
        run.feature_maps(path, "features.0")
    with pytest.raises(ConfigError, match="expected a run of the task image or contrastive"):
        run.embedding()


def test_a_model_without_attention_has_no_maps(
    table: Path, tmp_path: Path, no_compiling: None
) -> None:
    recipe = make_recipe(table, "recurrent_mean", train__steps=1)
    run = train_recipe(recipe, tmp_path / "run", TrainOptions()).run
    with pytest.raises(ConfigError, match="without attention, which has no map"):
        run.look(table.parent / "1.png")
    with pytest.raises(ConfigError, match="has no attention; try without coverage"):
        run.predict(str(table.parent / "1.png"), beam=2, coverage=1.0)
    assert {result.verdict for result in run.check(inputs=2)} <= {"passed", "skipped"}


# --- commands and Python --------------------------------------------------------------------------


def test_python_takes_images_with_captions(table: Path, tmp_path: Path) -> None:
    folder = table.parent
    data: list[tuple[Any, Any]] = [
        (str(folder / f"{n}.png"), ["a square", f"a {[*COLOURS][n % 3]} square"]) for n in range(12)
    ]
    data += [(np.asarray(Image.open(folder / "0.png")), "a red square")]
    settings = SMALL | {"train.steps": 2}
    run = saccade.train("caption", data=data, set=settings, out=tmp_path / "run", progress=False)
    assert run.predict(data[0][0]).text is not None
    assert run.evaluate(data[:4])["examples"] == 4


def test_commands(
    trained: Path, table: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    image = str(table.parent / "2.png")
    assert (
        run_command(["predict", str(trained), image, "--beam", "5", "--n-best", "3", "--json"]) == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert len(found["alternatives"]) == 2
    picture = tmp_path / "words.png"
    assert run_command(["look", str(trained), image, "--save", str(picture)]) == 0
    assert load_run(trained).predict(image).text in capsys.readouterr().out
    with Image.open(picture) as drawn:
        assert drawn.size[0] > 100


def test_held_out_files_and_refused_settings(table: Path, tmp_path: Path) -> None:
    other = write_captions(tmp_path / "more", 6)
    data = prepare_captions(make_recipe(table, data__test=str(other)), PrepareContext())
    names = data.splits["test"].names
    assert 0 < len(names) <= 6 and all("more" in name for name in names)
    with pytest.raises(ConfigError, match="captions are no classes"):
        make_recipe(table, data__stratify=True)
    assert replace(data.splits["train"]).take(2).encoded.offsets[-1] > 0

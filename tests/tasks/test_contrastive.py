"""Contrastive learning through the run folder, and classifiers that start from its features."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from saccade.data.images.corners import SHAPE_SIDE, SIDE, draw_corners, load_corner_images
from saccade.data.images.in_memory import images_in_memory
from saccade.data.images.published import read_image
from saccade.errors import ConfigError, DataError
from saccade.estimators.nearest_neighbours import classify_by_neighbours, nearest_rows
from saccade.models.contrastive import ContrastiveNetwork
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.contrastive.data import prepare_contrastive
from saccade.tasks.image_classification import data as image_data
from saccade.tasks.image_classification.data import prepare_images
from tests.models.image_networks import SMALL as NETWORKS
from tests.models.image_networks import random_images, small_network

SMALL = {
    "model.width": 8,
    "model.heads": 2,
    "data.augment.crop": 1,
    "data.augment.min_area": 0.5,
    "train.batch_tokens": 64,
    "train.steps": 20,
    "train.evaluate_every": 10,
    "train.threads": 1,
}


def recipe_for(task: str, **changes: Any) -> Any:
    settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    return resolve_recipe(task, model="attention_cnn", changes=settings).recipe


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that is trained on the digits without their labels."""
    folder = tmp_path_factory.mktemp("runs") / "simclr"
    train_recipe(recipe_for("contrastive"), folder, TrainOptions())
    return folder


@pytest.fixture
def run(trained: Path) -> Run:
    return load_run(trained)


def test_features_are_evaluated_with_floors(run: Run) -> None:
    found = run.evaluate()
    first = next(row for row in run.metrics() if "loss" in row)
    assert found["loss"] < first["loss"]
    assert 0.7 < found["linear_probe"] <= 1 and 0.5 < found["knn_accuracy"] <= 1
    assert found["alignment"] >= 0 >= found["uniformity"]
    assert {*found.floors} == {"majority class", "same network, untrained", "pixels"}
    assert found["linear_probe"] > found.floors["majority class"]["linear_probe"]
    assert found["examples"] == len(run.split("test"))


def test_predictions_are_features_of_the_encoder(run: Run) -> None:
    found = run.predict(["digits#3", "digits#4", "digits#x"])
    assert found[0].values is not None and len(found[0].values) == 16
    assert found[2].error is not None and "got the row x" in found[2].error
    values = [list(map(float, prediction.text.split())) for prediction in found[:2]]
    assert np.allclose(values, [found[0].values, found[1].values], rtol=1e-4)  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="expected no decoding options"):
        run.predict("digits#3", n_best=3)


def test_resumed_training_has_the_same_bits(
    tmp_path: Path, no_report: None, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    recipe = recipe_for(
        "contrastive", train__steps=6, train__evaluate_every=2, train__checkpoint_seconds=0
    )
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


def test_views_are_functions_of_seed_step_and_number(run: Run) -> None:
    make = run.components.objective
    assert make is not None
    objective = make(run.recipe, run.model, run.preprocessor, run.data().splits)
    batches = list(itertools.islice(objective.batches("train", 0), 3))
    third = next(objective.batches("train", 2))
    assert torch.equal(third.one, batches[2].one) and torch.equal(third.two, batches[2].two)
    assert not torch.equal(third.one, third.two)
    assert third.tokens == 2 * len(third.one)


def test_classifier_starts_from_the_features(
    trained: Path, tmp_path: Path, no_report: None
) -> None:
    settings = {"data.per_class": 5, "train.steps": 1, "train.threads": 1, "train.warmup": 0}
    settings |= {"train.learning_rate": 1e-9}  # the weights after a step are the initial ones
    recipe = resolve_recipe("image", data="digits", changes=settings, init_from=trained).recipe
    options = TrainOptions(init_from=trained)
    run = train_recipe(recipe, tmp_path / "few", options).run
    other = load_run(trained)
    assert run.metadata["from"] == str(trained)
    assert run.recipe.model.model_dump()["classes"] == 10
    assert np.bincount(run.split("train").classes).tolist() == [5] * 10
    assert run.preprocessor.mean == other.preprocessor.mean
    fresh = run.components.build_model(run.recipe, run.preprocessor)
    run.components.transfer_weights(fresh, other.model)  # type: ignore[misc]
    copied = fresh.state_dict()
    for name, weights in other.model.encoder.state_dict().items():
        assert torch.equal(copied.pop(name), weights), name
    assert {*copied} == {"fc.weight", "fc.bias"}
    images = other.inspector.scorer.inputs(run.split("test").pixels_at(np.arange(4)))  # type: ignore[attr-defined]
    assert torch.equal(fresh.eval().embed(images), other.model.eval().embed(images))
    with pytest.raises(ConfigError, match="got other settings of the model"):
        wide = resolve_recipe(
            "image", data="digits", changes={"model.width": 16}, init_from=trained
        )
        train_recipe(wide.recipe, tmp_path / "wide", options)


def test_weights_of_other_tasks_are_refused(trained: Path, tmp_path: Path) -> None:
    recipe = resolve_recipe("reverse").recipe
    with pytest.raises(ConfigError, match="expected the same task"):
        train_recipe(recipe, tmp_path / "x", TrainOptions(init_from=trained))


def test_embedding_map(run: Run, tmp_path: Path) -> None:
    found = run.embedding()
    count = len(run.split("test"))
    assert found.map.coordinates.shape == (count, 2)
    assert np.array_equal(found.map.classes, run.split("test").classes)
    assert len(found.map.thumbnails) == len({*found.map.thumbnail_rows.tolist()}) == 24
    assert found.save(tmp_path / "map.png") == [] and (tmp_path / "map.png").stat().st_size > 9999
    values = json.loads(json.dumps(found.to_dict()))
    assert values["kind"] == "EmbeddingMap" and len(values["names"]) == count
    with pytest.raises(ConfigError, match="features without classes"):
        run.look("digits#3")


def test_checks_pass(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    results = load_run(tmp_path / "run").check(inputs=4)
    verdicts = {result.invariant: result.verdict for result in results}
    assert verdicts["batch invariance"] == verdicts["reload consistency"] == "passed"


def test_images_without_labels(tmp_path: Path, no_report: None) -> None:
    from PIL import Image

    for number in range(30):
        image = np.random.default_rng(number).integers(0, 256, (16, 16), np.uint8)
        Image.fromarray(image).save(tmp_path / f"{number}.png")
    recipe = resolve_recipe(
        "contrastive",
        data=str(tmp_path),
        model="attention_cnn",
        changes=SMALL | {"train.steps": 2, "train.batch_tokens": 8},
    ).recipe
    run = train_recipe(recipe, tmp_path / "runs" / "flat", TrainOptions()).run
    found = run.evaluate()
    assert run.preprocessor.labels == []
    assert found.omitted["linear_probe"] == "the images have no labels" and not found.floors
    assert load_run(run.folder).predict(str(tmp_path / "3.png")).values is not None


@pytest.mark.parametrize("count", [1, 2, 8])
def test_splits_of_some_images(count: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, (count, 8, 8), np.uint8)
    recipe = recipe_for("contrastive", data__dev_share=0.13, data__test_share=0.13)
    images = images_in_memory(data, needs_labels=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_data, "_open", lambda recipe: images)
        if count == 1:
            with pytest.raises(DataError, match="got 1 training image; expected 2 or more"):
                prepare_contrastive(recipe, PrepareContext())
            return
        found = prepare_contrastive(recipe, PrepareContext())
    assert all(len(split) > 1 and split.reference is not None for split in found.splits.values())
    assert not found.splits["dev"].is_held_out
    if count == 8:
        assert any("One image is held out for dev" in note for note in found.notes)
    assert f"{len(found.splits['train'])} training images." in found.notes


def test_published_weights_are_refused(run: Run) -> None:
    changes = {"model.weights": "x.safetensors", "model.channels": 1, "model.image_size": 16}
    recipe = resolve_recipe("contrastive", model="resnet18", changes=changes).recipe
    with pytest.raises(ConfigError, match="expected initial weights that are random"):
        run.components.build_model(recipe, run.preprocessor)


@pytest.mark.parametrize("name", NETWORKS)
def test_output_layer_is_all_that_embed_leaves_out(name: str) -> None:
    network = small_network(name)
    output = f"{network.output_name}."
    names = {key for key in network.state_dict() if not key.startswith(output)}
    assert names < {*network.state_dict()}
    model = ContrastiveNetwork(network, 8, 4).double()
    assert {*model.encoder.state_dict()} == names
    images = random_images(network, 2)
    model.train()
    model(images).square().sum().backward()
    unused = [
        key
        for key, weight in model.named_parameters()
        if weight.requires_grad and weight.grad is None
    ]
    assert not unused
    with torch.no_grad():
        assert model.eval().embed(images).shape == (2, model.projection[0].in_features)


# --- few labels, neighbours, corners --------------------------------------------------------------


def test_images_per_class_do_not_depend_on_the_order(tmp_path: Path) -> None:
    changes = {"data__per_class": 4}
    data = prepare_images(recipe_for("image", **changes), PrepareContext())
    everything = prepare_images(recipe_for("image"), PrepareContext())
    assert data.preprocessor.met == [4] * 10
    for split in ("dev", "test"):
        assert list(data.splits[split].names) == list(everything.splits[split].names)
    assert {*data.splits["train"].names} < {*everything.splits["train"].names}
    other = prepare_images(recipe_for("image", data__per_class_seed=1, **changes), PrepareContext())
    assert {*other.splits["train"].names} != {*data.splits["train"].names}
    more = prepare_images(recipe_for("image", data__per_class=6), PrepareContext())
    assert {*data.splits["train"].names} < {*more.splits["train"].names}
    assert any("data.per_class=4" in note for note in data.notes)


def test_neighbours_by_loops() -> None:
    random = np.random.default_rng(0)
    rows, queries = random.normal(size=(30, 4)), random.normal(size=(7, 4))
    labels = random.integers(0, 3, 30)
    found, cosines = nearest_rows(queries, rows, 5)
    predicted = classify_by_neighbours(queries, rows, labels, 3, count=5, temperature=0.1)
    for number, query in enumerate(queries):
        scores = [float(query @ row / np.linalg.norm(query) / np.linalg.norm(row)) for row in rows]
        order = sorted(range(30), key=lambda row: -scores[row])[:5]
        assert found[number].tolist() == order
        assert np.allclose(cosines[number], [scores[row] for row in order])
        votes = [0.0, 0.0, 0.0]
        for row in order:
            votes[labels[row]] += np.exp(scores[row] / 0.1)
        assert predicted[number] == int(np.argmax(votes))
    assert nearest_rows(queries, rows[:2], 5)[0].shape == (7, 2)


def corner_shapes(pixels: np.ndarray) -> list[np.ndarray]:
    """Return the shapes of the two bright corners, moved to their top left."""
    found = []
    for y, x in itertools.product((slice(0, 9), slice(SIDE - 9, SIDE)), repeat=2):
        bright = pixels[y, x] >= 160
        if bright.any():
            rows, columns = np.flatnonzero(bright.any(1)), np.flatnonzero(bright.any(0))
            found.append(bright[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1])
    return found


def test_corners_have_their_classes() -> None:
    images = load_corner_images(200)
    for row in range(200):
        pixels = images.read(row)
        assert isinstance(pixels, np.ndarray) and np.array_equal(pixels, draw_corners(row))
        shapes = corner_shapes(pixels)
        assert [shape.shape for shape in shapes] == [(SHAPE_SIDE, SHAPE_SIDE)] * 2
        is_same = np.array_equal(*shapes)
        assert images.labels[row] == ("same" if is_same else "different")
    assert np.array_equal(read_image("corners#7"), draw_corners(7))

"""The image task through the run folder: training, resume, prediction, evaluation, inspection."""

import itertools
import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import saccade
from saccade.data.images.transform import ImageTransform
from saccade.errors import ConfigError, DataError
from saccade.inspection.image_maps import (
    attention_grid,
    enlarge_map,
    grad_cam,
    occlusion_map,
)
from saccade.recipes.resolve import resolve_recipe
from saccade.runs.image_explanation import ImageExplanation
from saccade.runs.run import Run, load_run
from saccade.runs.train import TrainOptions, resume, train_recipe
from saccade.tasks.base import PrepareContext
from saccade.tasks.image_classification.config import ImageRecipe
from saccade.tasks.image_classification.data import ImageSplit, prepare_images
from saccade.tasks.image_classification.evaluate import small_pixels
from saccade.tasks.image_classification.objective import even_batch_size
from saccade.tasks.image_classification.scorer import ImageScorer
from saccade.workflows.compare.compare import compare_models
from tests.models.image_networks import small_network
from tests.tolerances import float32_tolerance

CLASSES = ("horizontal", "vertical", "square")
TRAIN = {"train.steps": 60, "train.evaluate_every": 30, "train.batch_tokens": 16}
SMALL = {"model.width": 6, "data.augment.crop": 1, "train.learning_rate": 0.005, **TRAIN}


def draw(label: str, seed: int, size: int = 16) -> Image.Image:
    """Return a bar or a square of some colour on a dark background with noise."""
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 60, (size, size, 3), np.uint8)
    y, x = random.integers(2, size - 6, 2)
    height, width = {"horizontal": (2, 6), "vertical": (6, 2), "square": (4, 4)}[label]
    pixels[y : y + height, x : x + width] = random.integers(140, 256, 3, np.uint8)
    return Image.fromarray(pixels)


def write_photos(folder: Path, count: int = 40, first: int = 0) -> Path:
    for number, label in itertools.product(range(first, first + count), CLASSES):
        (folder / label).mkdir(parents=True, exist_ok=True)
        draw(label, 10 * number + CLASSES.index(label)).save(folder / label / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_photos(tmp_path_factory.mktemp("data") / "photos")


def photo_recipe(photos: Path, **changes: Any) -> ImageRecipe:
    settings = SMALL | {name.replace("__", "."): value for name, value in changes.items()}
    recipe = resolve_recipe("image", data=str(photos), changes=settings).recipe
    assert isinstance(recipe, ImageRecipe)
    return recipe


@pytest.fixture(scope="module")
def trained(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a run that is trained on the photos."""
    folder = tmp_path_factory.mktemp("runs") / "photos"
    train_recipe(photo_recipe(photos), folder, TrainOptions())
    return folder


@pytest.fixture
def run(trained: Path) -> Run:
    return load_run(trained)


# --- training -------------------------------------------------------------------------------------


def test_task_is_inferred_from_a_folder_of_images(photos: Path) -> None:
    resolved = resolve_recipe(str(photos), changes=SMALL)
    assert resolved.recipe.task == "image"
    assert resolved.notes == (f"{photos}: the task is image: it has images.",)


def test_trained_classifier_beats_the_floors(run: Run, tmp_path: Path) -> None:
    evaluation = run.evaluate()
    assert evaluation["accuracy"] > 0.9
    assert evaluation.floors["majority class"]["accuracy"] < 0.4
    assert evaluation["accuracy"] > evaluation.floors["logistic regression on pixels"]["accuracy"]
    assert sum(row["support"] for row in evaluation.tables["classes"]) == len(run.split("test"))
    assert "top5_accuracy" not in evaluation  # there are three classes
    other = write_photos(tmp_path / "other", 30, first=500)
    wrong = round(90 * (1 - run.evaluate(other)["accuracy"]))
    messages = run.save_figures(tmp_path / "pictures", other)
    pictures = {"confusion.png", *(["mistakes.png"] if wrong else [])}
    assert {path.name for path in (tmp_path / "pictures").iterdir()} == pictures
    assert len(messages) == len(pictures)


def test_every_class_has_its_share_in_each_split(run: Run) -> None:
    counts = {
        name: np.bincount(run.split(name).classes).tolist() for name in ("train", "dev", "test")
    }
    assert counts == {"train": [28] * 3, "dev": [4] * 3, "test": [8] * 3}
    assert run.preprocessor.met == counts["train"]
    names = [name for split in counts for name in run.split(split).names]
    assert len({*names}) == 120


def test_images_are_decoded_once(trained: Path, photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(trained, folder)
    run = load_run(folder)
    before = run.split("train")
    (photos / "square" / "0.png").rename(photos / "square" / "0.moved")
    try:
        again = load_run(folder)
        assert np.array_equal(again.split("train").rows, before.rows)
        assert again.load_training_data().fingerprint() == run.metadata["data"]
    finally:
        (photos / "square" / "0.moved").rename(photos / "square" / "0.png")


def test_a_damaged_store_is_decoded_again(
    trained: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(trained, folder)
    with (folder / "images" / "pixels.bin").open("r+b") as file:
        file.write(b"\x07" * 9)
    run = load_run(folder)
    with caplog.at_level(logging.WARNING, logger="saccade"):
        data = run.load_training_data()  # the fingerprint is that of the undamaged images
    assert "does not match its checksum" in caplog.text and "read again" in caplog.text
    assert data.fingerprint() == run.metadata["data"]


def test_resumed_training_has_the_same_bits(
    photos: Path, tmp_path: Path, no_report: None, outcome_of: Callable[[Path], dict[str, Any]]
) -> None:
    augment = {"flip": True, "crop": 2, "min_area": 0.6, "jitter": 0.3, "blur": 0.5, "cutout": 4}
    recipe = photo_recipe(
        photos,
        train__steps=12,
        train__evaluate_every=4,
        train__checkpoint_seconds=0,
        **{f"data__augment__{name}": value for name, value in augment.items()},
    )
    train_recipe(recipe, tmp_path / "whole", TrainOptions())

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    assert resume(tmp_path / "resumed", {}, TrainOptions()).stop_reason == "steps"
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")


@pytest.mark.parametrize(
    "model, sizes",
    [
        ("resnet18", {"width": 4}),  # batch norm: running statistics
        ("attention_cnn", {"width": 4, "heads": 2}),
        ("vit", {"width": 8, "depth": 1, "heads": 2, "hidden": 8}),
    ],
)
def test_other_networks_train_resume_and_show_attention(
    model: str,
    sizes: dict[str, int],
    photos: Path,
    tmp_path: Path,
    no_report: None,
    outcome_of: Callable[[Path], dict[str, Any]],
) -> None:
    changes = {f"model.{name}": value for name, value in sizes.items()}
    changes |= {"train.steps": 4, "train.evaluate_every": 2, "train.checkpoint_seconds": 0}
    recipe = resolve_recipe("image", data=str(photos), model=model, changes=changes).recipe
    whole = train_recipe(recipe, tmp_path / "whole", TrainOptions()).run

    def interrupt(event: Any) -> None:
        if getattr(event, "step", 0) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_recipe(recipe, tmp_path / "resumed", TrainOptions(on_event=interrupt))
    resume(tmp_path / "resumed", {}, TrainOptions())
    assert outcome_of(tmp_path / "resumed") == outcome_of(tmp_path / "whole")
    assert {result.verdict for result in whole.check(inputs=3)} <= {"passed", "skipped"}
    found = whole.look(photos / "square" / "1.png")
    assert isinstance(found, ImageExplanation)
    names = [part.name for part in found.maps.maps]
    assert names == ["Grad-CAM", "Occlusion", *(["Attention"] if model != "resnet18" else [])]


def test_batches_are_functions_of_seed_and_step(run: Run) -> None:
    make = run.components.objective
    assert make is not None
    objective = make(run.recipe, run.model, run.preprocessor, run.data().splits)
    batches = list(itertools.islice(objective.batches("train", 0), 8))
    assert objective.batches_in_epoch() == 6
    third = next(objective.batches("train", 3))
    assert torch.equal(third.images, batches[3].images) and third.names == batches[3].names
    assert sum(batch.tokens for batch in batches[:6]) == 84
    assert "images " in objective.describe_batch(third)


def test_last_batch_has_no_single_image() -> None:
    assert even_batch_size(129, 128) == 65
    assert even_batch_size(60_000, 128) == 128
    for images, limit in itertools.product(range(20, 400), (16, 32, 64)):
        size = even_batch_size(images, limit)
        assert 1 < size <= limit and images % size != 1


# --- prediction -----------------------------------------------------------------------------------


def test_predictions_of_any_kind_of_input_are_equal(run: Run, photos: Path) -> None:
    path = photos / "square" / "3.png"
    image = Image.open(path)
    inputs: list[Any] = [str(path), path, image, np.asarray(image), path.read_bytes()]
    one = run.predict(inputs[0])
    assert one.text == "square" and one.score is not None and one.probabilities is not None
    assert sum(one.probabilities.values()) == pytest.approx(1)
    assert [run.predict(each) for each in inputs] == [one] * 5
    for found in run.predict(inputs):
        assert found.text == one.text and found.probabilities == pytest.approx(one.probabilities)
    ranked = run.predict(path, n_best=3)
    assert {ranked.text, *(other.text for other in ranked.alternatives)} == {*CLASSES}
    with pytest.raises(ConfigError, match="expected the path of an image"):
        run.predictor.parse(3, 1)


def test_logits_are_those_of_the_folded_network_with_its_present_weights() -> None:
    network = small_network("vgg13_bn").float()
    transform = ImageTransform(list("abcde"), [1] * 5, 32, 3, "crop", [0.5] * 3, [0.25] * 3)
    scorer = ImageScorer(ImageRecipe(), network, transform)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    folded = scorer.inference_network()
    assert not any(isinstance(part, nn.BatchNorm2d) for part in folded.modules())
    assert scorer.inference_network() is folded
    tolerance = float32_tolerance(network.double(), lambda: network(scorer.inputs(pixels).double()))
    network.float()
    for change in (lambda: None, lambda: network.train()(scorer.inputs(pixels)), perturb(network)):
        change()  # nothing, the running statistics, a weight
        with torch.no_grad():
            expected = network.eval()(scorer.inputs(pixels)).numpy()
        np.testing.assert_allclose(scorer.logits(pixels), expected, rtol=0, atol=tolerance)


def test_logits_in_training_are_those_of_weights_changed_by_a_fused_optimizer() -> None:
    network = small_network("vgg13_bn").float().train()
    transform = ImageTransform(list("abcde"), [1] * 5, 32, 3, "crop", [0.5] * 3, [0.25] * 3)
    scorer = ImageScorer(ImageRecipe(), network, transform)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    before = scorer.logits(pixels)
    for weight in network.parameters():
        weight.grad = torch.ones_like(weight)
    torch.optim.AdamW(network.parameters(), lr=0.1, fused=True).step()
    assert np.abs(scorer.logits(pixels) - before).min() > 1e-3
    assert network.training


@pytest.mark.parametrize("name", ["vgg13_bn", "attention_cnn"])
def test_test_time_flip_is_the_mean_over_both_mirror_images(name: str) -> None:
    network = small_network(name, image_size=32)
    transform = ImageTransform(list("abcde"), [1] * 5, 32, 3, "crop", [0.5] * 3, [0.25] * 3)
    recipe = ImageRecipe().with_values(data={"test_time_flip": True})
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), np.uint8)
    plain = ImageScorer(ImageRecipe(), network.float(), transform)
    expected = (plain.logits(pixels) + plain.logits(pixels[:, :, ::-1].copy())) / 2
    flipping = ImageScorer(recipe, network, transform)
    np.testing.assert_allclose(flipping.logits(pixels), expected, rtol=0, atol=1e-5)
    mirrored = flipping.logits(pixels[:, :, ::-1].copy())
    np.testing.assert_allclose(mirrored, expected, rtol=0, atol=1e-5)
    assert np.abs(plain.logits(pixels) - expected).max() > 1e-3


def perturb(network: nn.Module) -> Callable[[], object]:
    """Return a function that changes one weight in place, as an optimizer does."""
    weight = next(network.parameters()).detach()
    return lambda: weight.add_(1.0)


def test_unreadable_images_have_an_error_and_the_rest_an_answer(run: Run, photos: Path) -> None:
    good = str(photos / "square" / "3.png")
    found = run.predict([good, "missing.png", str(photos / "square"), good])
    assert [prediction.text for prediction in found] == ["square", "", "", "square"]
    assert found[1].error == "missing.png: could not be read: No such file or directory"
    assert found[2].error is not None and "got a folder" in found[2].error
    with pytest.raises(DataError, match="missing.png: could not be read"):
        run.predict("missing.png")


def test_evaluation_of_other_images(run: Run, tmp_path: Path) -> None:
    other = write_photos(tmp_path / "test", 5, first=100)
    (other / "circle").mkdir()
    shutil.copy(other / "square" / "100.png", other / "circle" / "1.png")
    (other / "square" / "bad.png").write_bytes(b"")
    found = run.evaluate(other)
    assert found["examples"] == 16
    assert found.tables["unknown_labels"] == {"circle": 1}
    assert "images of unknown classes ('circle') count as errors" in found.conventions["accuracy"]
    assert "bad.png: got an empty file (0 bytes)" in found.notes[0]
    known = run.evaluate(write_photos(tmp_path / "known", 5, first=100))
    assert found["accuracy"] == pytest.approx(known["accuracy"] * 15 / 16)
    counts = np.array(known.tables["confusion"]["counts"])
    assert counts.sum() == 15 and np.trace(counts) / 15 == known["accuracy"]
    only = tmp_path / "only"
    shutil.copytree(other / "circle", only / "circle")
    with pytest.raises(DataError, match="got the classes circle; expected those of the run"):
        run.evaluate(only)


def test_run_from_data_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [(draw(label, n), label) for n in range(12) for label in CLASSES]
    settings = SMALL | {"train.steps": 4}
    run = saccade.train("image", data=pairs, set=settings, progress=False)
    assert (tmp_path / "runs" / "data" / "image.zip").exists()
    assert run.preprocessor.labels == sorted(CLASSES)
    evaluation = run.evaluate(pairs)
    assert evaluation["examples"] == 36
    new = [(draw(label, 900 + n), label) for n in range(8) for label in CLASSES]
    tuned = saccade.finetune(run, new, progress=False, set={"train.steps": 3})
    assert tuned.metadata["before"]["examples"] > 0
    circle = [*new, (draw("square", 7), "circle"), (draw("square", 8), "circle")]
    with pytest.raises(DataError, match="of the class 'circle', which the run does not know"):
        saccade.finetune(run, circle, out="runs/circle", progress=False)


def test_checks_pass(trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    results = load_run(tmp_path / "run").check(inputs=6)
    verdicts = {result.invariant: result.verdict for result in results}
    assert verdicts["batch invariance"] == verdicts["reload consistency"] == "passed"


def test_floor_uses_block_means() -> None:
    pixels = np.random.default_rng(1).integers(0, 256, (2, 21, 21, 3), np.uint8)
    split = ImageSplit(pixels, np.arange(2), np.zeros(2, np.int64), ["a", "b"])
    found = small_pixels(split, np.array([1])).reshape(14, 14, 3)
    edges = [row * 21 // 14 for row in range(15)]
    for y, x in itertools.product(range(14), range(14)):
        block = pixels[1, edges[y] : edges[y + 1], edges[x] : edges[x + 1]] / 255
        assert np.allclose(found[y, x], block.mean((0, 1)))


def test_networks_are_compared_on_the_same_images(
    photos: Path, tmp_path: Path, no_report: None
) -> None:
    found = compare_models(
        "image",
        data=str(photos),
        models=["lenet", "attention_cnn"],
        set={"model.width": 4},
        out=tmp_path / "compare",
        steps=6,
        seeds=2,
    )
    assert {row.model for row in found.rows} == {"lenet", "attention_cnn"}
    assert found.metric.label == "accuracy, %"
    assert all(0 <= value <= 100 for row in found.rows for value in row.values("test"))
    runs = [load_run(path.parent) for path in (tmp_path / "compare").glob("*/run.toml")]
    assert len(runs) == 4 and len({run.metadata["data"] for run in runs}) == 1
    assert found.plot.exists()


# --- bad images -----------------------------------------------------------------------------------


def test_unreadable_training_images_are_named_or_refused(photos: Path, tmp_path: Path) -> None:
    folder = tmp_path / "photos"
    shutil.copytree(photos, folder)
    (folder / "square" / "empty.png").write_bytes(b"")
    (folder / "square" / "text.jpg").write_text("no image", encoding="utf-8")
    Image.new("RGB", (1, 1)).save(folder / "vertical" / "tiny.png")
    data = prepare_images(photo_recipe(folder), PrepareContext())
    [note] = [note for note in data.notes if "could not be read" in note]
    assert "3 images of 123 could not be read and are left out" in note
    assert all(name in note for name in ("empty.png", "text.jpg", "tiny.png"))
    assert sum(map(len, data.splits.values())) == 120
    with pytest.raises(DataError, match="data.unreadable=skip") as refused:
        prepare_images(photo_recipe(folder, data__unreadable="refuse"), PrepareContext())
    assert "got 1 × 1 pixels" in str(refused.value)


def test_one_class_and_unreadable_folders_are_refused(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos / "square", tmp_path / "one" / "square")
    with pytest.raises(DataError, match="the same class \\('square'\\) for all 28 training images"):
        prepare_images(photo_recipe(tmp_path / "one"), PrepareContext())
    (tmp_path / "bad" / "cat").mkdir(parents=True)
    (tmp_path / "bad" / "cat" / "1.png").write_bytes(b"")
    with pytest.raises(DataError, match="1.png: got an empty file"):
        prepare_images(photo_recipe(tmp_path / "bad"), PrepareContext())


def test_mixed_sizes_and_a_class_of_one_image(photos: Path, tmp_path: Path) -> None:
    for number in range(6):
        for label in CLASSES[:2]:
            (tmp_path / label).mkdir(exist_ok=True)
            draw(label, number, 16 + 4 * number).save(tmp_path / label / f"{number}.jpg")
    (tmp_path / "square").mkdir()
    draw("square", 1, 40).convert("L").save(tmp_path / "square" / "1.png")
    data = prepare_images(photo_recipe(tmp_path, data__dev_share=0.2), PrepareContext())
    assert data.preprocessor.met == [4, 1, 4]  # in the order of their names
    assert data.recipe.model.image_size == 28 and data.recipe.model.channels == 3
    assert "image_size" in {choice.path.rpartition(".")[2] for choice in data.choices}
    only_training = photo_recipe(tmp_path, data__dev_share=0, data__test_share=0)
    notes = prepare_images(only_training, PrepareContext()).notes
    assert "No images are held out for dev: the training images are used." in notes


def test_given_splits_and_repeated_images(photos: Path, tmp_path: Path) -> None:
    test = write_photos(tmp_path / "test", 3, first=38)  # two of three are training images too
    data = prepare_images(photo_recipe(photos, data__test=str(test)), PrepareContext())
    assert len(data.splits["test"]) == 9
    assert len(data.splits["train"]) + len(data.splits["dev"]) == 120 - 6
    assert any("6 examples with an input that is held out" in note for note in data.notes)


# --- inspection -----------------------------------------------------------------------------------


def test_grad_cam_is_its_equation_by_loops() -> None:
    torch.manual_seed(0)
    features = nn.Sequential(nn.Conv2d(2, 3, 3), nn.Tanh()).double()
    classifier = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 5), nn.Tanh(), nn.Linear(5, 4))
    classifier.double()
    image = torch.randn(2, 6, 6, dtype=torch.float64)
    found = grad_cam(features, classifier, image, 2)
    with torch.no_grad():
        grid = features(image[None])
        step = 1e-5
        expected = torch.zeros(4, 4, dtype=torch.float64)
        for channel in range(3):
            weight = 0.0
            for y, x in itertools.product(range(4), range(4)):
                moved = [grid.clone(), grid.clone()]
                moved[0][0, channel, y, x] += step
                moved[1][0, channel, y, x] -= step
                above, below = (float(classifier(each)[0, 2]) for each in moved)
                weight += (above - below) / (2 * step) / 16
            expected += weight * grid[0, channel]
    assert (expected < 0).any()
    torch.testing.assert_close(found, expected.clamp(min=0), atol=1e-8, rtol=0)
    assert enlarge_map(found, (12, 12)).shape == (12, 12)


def test_occlusion_is_the_mean_drop_by_loops() -> None:
    image = torch.randn(3, 7, 9, generator=torch.Generator().manual_seed(2))

    def value(images: torch.Tensor) -> torch.Tensor:
        return (images**2 + images).sum((1, 2, 3))

    found = occlusion_map(value, image, side=3, stride=2, fill=0.5)
    drops = [[[] for _ in range(9)] for _ in range(7)]  # type: ignore[var-annotated]
    for y, x in itertools.product((0, 2, 4), (0, 2, 4, 6)):
        hidden = image.clone()
        hidden[:, y : y + 3, x : x + 3] = 0.5
        drop = float(value(image[None])[0] - value(hidden[None])[0])
        for i, j in itertools.product(range(y, y + 3), range(x, x + 3)):
            drops[i][j].append(drop)
    expected = torch.tensor([[sum(d) / len(d) for d in row] for row in drops])
    torch.testing.assert_close(found.float(), expected, atol=1e-4, rtol=0)


def test_attention_over_a_grid() -> None:
    weights = torch.rand(2, 9, 9).softmax(-1)
    found = attention_grid(weights)
    assert found is not None
    torch.testing.assert_close(found.flatten(), weights.mean((0, 1)))
    with_token = torch.rand(2, 10, 10).softmax(-1)
    of_token = attention_grid(with_token)
    assert of_token is not None
    torch.testing.assert_close(of_token.flatten(), with_token[:, 0, 1:].mean(0))
    assert attention_grid(torch.rand(1, 3, 7)) is None


def test_maps_of_an_image(run: Run, photos: Path, tmp_path: Path) -> None:
    path = photos / "vertical" / "5.png"
    found = run.look(path)
    assert isinstance(found, ImageExplanation)
    maps = found.maps
    assert maps.output == run.predict(path).text
    assert maps.probability == pytest.approx(run.predict(path).score)
    assert [part.name for part in maps.maps] == ["Grad-CAM", "Occlusion"]
    assert {part.values.shape for part in maps.maps} == {(16, 16)}
    assert np.array_equal(maps.image, np.asarray(Image.open(path)))
    assert maps.maps[0].values.min() >= 0
    other = run.look(str(path), answer="square", method="occlusion")
    assert other.maps.output == "square" and len(other.maps.maps) == 1  # type: ignore[union-attr]
    assert found.save(tmp_path / "why.png") == []
    with Image.open(tmp_path / "why.png") as picture:
        assert picture.size[0] > 300
    assert json.loads(json.dumps(found.to_dict()))["output"] == maps.output
    assert "Grad-CAM" in found.terminal()
    with pytest.raises(ConfigError, match="Did you mean 'grad_cam'"):
        run.look(path, method="gradcam")
    with pytest.raises(ConfigError, match="class"):
        run.look(path, answer="sqare")


def test_filters_and_feature_maps(run: Run, photos: Path, tmp_path: Path) -> None:
    filters = run.filters().grid
    [first, *_] = [part for part in run.model.modules() if isinstance(part, nn.Conv2d)]
    assert len(filters.tiles) == 6 and filters.tiles[0].shape == (5, 5, 3)
    assert np.allclose(filters.tiles[2], first.weight[2].detach().permute(1, 2, 0))
    image = photos / "vertical" / "5.png"
    features = run.feature_maps(image, "features.0").grid
    inputs = run.inspector.scorer.inputs(np.asarray(Image.open(image))[None])  # type: ignore[attr-defined]
    expected = first(inputs)[0].detach().numpy()
    assert np.allclose(np.stack(features.tiles), expected, atol=1e-5)
    assert run.filters().save(tmp_path / "filters.png") == []
    with pytest.raises(ConfigError, match="Did you mean 'features.0'"):
        run.feature_maps(image, "feature.0")
    with pytest.raises(ConfigError, match="no grid of features"):
        run.feature_maps(image, "classifier.0")


def test_transform_decides_the_sizes_of_the_model(run: Run) -> None:
    assert isinstance(run.preprocessor, ImageTransform)
    sizes = run.preprocessor.model_sizes()
    assert sizes == {"classes": 3, "channels": 3, "image_size": 16}
    values = run.recipe.model.model_dump()
    assert {name: values[name] for name in sizes} == sizes

"""Training into a run folder: from scratch, from another run's weights, or resumed."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from saccade.config import diff_settings, override_settings
from saccade.errors import ConfigError, DataError, RunError
from saccade.inspection.figures import Figure
from saccade.io.lock import lock_folder
from saccade.runs.report import write_report
from saccade.runs.run import (
    Run,
    load_run,
    load_weights,
    open_without_weights,
    prepare_data,
    run_metadata,
)
from saccade.runs.warm_start import inherit_config
from saccade.runs.workspace import (
    check_folder_is_free,
    remove_run,
    remove_temp_files,
    staging_dir,
)
from saccade.tasks.base import Choice, PrepareContext, PreparedData, Recipe
from saccade.tasks.registry import task_spec_for
from saccade.training.cpu import available_cpus
from saccade.training.fit_session import run_fit_session
from saccade.training.progress import show_progress

if TYPE_CHECKING:
    from saccade.training.loop import Event

DEV_SAMPLE = 500  # examples that are predicted at each evaluation during training


class TrainOptions(NamedTuple):
    """Options of a training that are not part of its recipe."""

    auto_model: bool = False  # choose the model from the data
    overwrite: bool = False
    init_from: Path | None = None  # run whose weights and preprocessor are the start
    is_finetuning: bool = False  # record the metrics of the initial weights on the new data
    console: Console | None = None  # for progress bars; None: none
    log: Callable[[str], None] = lambda message: None  # messages for the user
    on_choices: Callable[[list[Choice]], None] = lambda choices: None
    on_event: "Callable[[Event], None]" = lambda event: None


class TrainResult(NamedTuple):
    """A run and its stop reason: steps, minutes, patience, fitted, or stop (resumable)."""

    run: Run
    stop_reason: str


def train_recipe(recipe: Recipe, folder: Path, options: TrainOptions) -> TrainResult:
    """Train a recipe from the start into a new folder."""
    check_folder_is_free(folder, options.overwrite)
    if not task_spec_for(recipe).torch_free:
        from saccade.training.device import resolve_device

        resolve_device(recipe.train.model_dump()["device"])  # before an old run is removed
    threads = _set_threads(recipe, recipe.train.threads)
    other = None
    if options.init_from is not None:
        other = load_run(options.init_from)
        if folder.exists() and folder.samefile(other.folder):
            raise RunError(
                f"got {folder} as output, which is the run to start from and would be replaced; "
                "try another folder (--out)."
            )
        if options.auto_model:
            recipe = recipe.with_values(model={"name": other.recipe.model_name})
            options = options._replace(auto_model=False)
        is_incremental = other.is_trained_by_loop and other.components.is_incremental
        recipe = inherit_config(recipe, other.recipe, str(other.folder), is_incremental)
    with staging_dir(folder) as staging:
        preprocessor = None if other is None else other.preprocessor
        context = PrepareContext[Any](
            preprocessor=preprocessor, auto_model=options.auto_model, scratch_dir=staging
        )
        data = prepare_data(recipe, context, options.console)
        options.on_choices(data.choices)
        for note in data.notes:
            options.log(note)
        metadata = run_metadata(threads, data.fingerprint(), data.recipe, folder)
        run = Run(folder, data.recipe, metadata, data.preprocessor)
        if run.is_trained_by_loop:
            run.metadata["parameters"] = run.parameters
        if other is not None:
            _load_initial_weights(run, other, data, options)
        run.attach_data(data)
        if options.is_finetuning:
            run.metadata["before"] = _evaluate_before(run, options)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            remove_run(folder)
            run.save_preprocessor(folder)
            if staging.exists():
                staging.rename(folder / "tokens")
            if other is not None:
                from saccade.tasks.neural import train_settings
                from saccade.training.session import save_initial_checkpoint

                save_initial_checkpoint(run.model, train_settings(run.recipe), folder)
            run.save_settings(folder)
            return _train_or_resume(run, options)


def _load_initial_weights(
    run: Run, other: Run, data: PreparedData[Any, Any, Any], options: TrainOptions
) -> None:
    """Load another run's weights, and record where they come from."""
    if data.incompatible:
        found = "".join(f"\n  - {complaint}" for complaint in data.incompatible)
        raise DataError(
            f"{run.data_name} has rows that the model of {other.folder} cannot learn from; try "
            f"without them, or train from scratch:{found}"
        )
    load_weights(run.model, other.model.state_dict(), other.folder / "model.safetensors")
    run.metadata["from"] = str(options.init_from)


def _evaluate_before(run: Run, options: TrainOptions) -> dict[str, float]:
    """Return the metrics of the initial weights on the held-out part of the new data."""
    console = options.console or Console(quiet=True)
    with show_progress(console, "evaluating the initial weights") as bar:
        found = run.evaluator.evaluate(run.split("test"), on_progress=bar.update)
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in found.metrics.items())
    options.log(f"Before fine-tuning, on {run.data_name}: {metrics}.")
    return dict(found.metrics)


def _set_threads(recipe: Recipe, threads: int | None) -> int:
    """Set the number of threads (None: all cores); return it."""
    if task_spec_for(recipe).torch_free:
        return threads or available_cpus()
    from saccade.training.device import set_num_threads

    return set_num_threads(threads)


def resume(folder: Path, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    """Resume an interrupted training, with the same bits as if it had not been interrupted."""
    run = open_without_weights(folder)
    with lock_folder(folder):
        return _resume(run, changes, options)


def _resume(run: Run, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    folder = run.folder
    if changed := _changed_settings(run.recipe, changes):
        raise ConfigError(
            f"got other settings ({'; '.join(changed)}) than {folder} was started with; try to "
            "resume it without them, or start a new run from its weights with --init-from."
        )
    has_weights = (folder / "model.safetensors").exists()
    if has_weights and run.is_trained_by_loop and not _list_checkpoints(folder):
        raise RunError(
            f"{folder} has weights but no checkpoint to resume from; try to start a new run from "
            "its weights with --init-from."
        )
    threads = _set_threads(run.recipe, run.recipe.train.threads or run.metadata["threads"])
    if threads != run.metadata["threads"]:
        options.log(
            f"This run was started with {run.metadata['threads']} threads and is resumed with "
            f"{threads}: results may differ in the last bits."
        )
    run.attach_data(run.load_training_data(options.console))
    return _train_or_resume(run, options)


def _list_checkpoints(folder: Path) -> list[Path]:
    from saccade.training.checkpoint import list_checkpoints

    return list_checkpoints(folder / "checkpoint")


def _changed_settings(recipe: Recipe, changes: dict[str, Any]) -> list[str]:
    """Describe the settings that differ; of another model, only its name."""
    name = changes.get("model.name", recipe.model_name)
    if name != recipe.model_name:
        return [f"model.name: {recipe.model_name!r} → {name!r}"]
    return diff_settings(recipe, override_settings(recipe, changes))


def _train_or_resume(run: Run, options: TrainOptions) -> TrainResult:
    """Train from the newest checkpoint, or from the start."""
    remove_temp_files(run.folder)
    console = options.console or Console(quiet=True)
    figures: dict[str, Figure] = {}
    if run.is_trained_by_loop:
        stop_reason, figures = _run_loop(run, options, console)
    else:
        stop_reason = _fit(run, console)
    if stop_reason != "stop":
        write_report(run, figures, options.log)
    return TrainResult(run, stop_reason)


def _run_loop(run: Run, options: TrainOptions, console: Console) -> tuple[str, dict[str, Figure]]:
    from saccade.tasks.neural import train_settings
    from saccade.training.objective import Validation
    from saccade.training.session import run_training_session

    make_objective = run.components.objective
    assert make_objective is not None
    data = run.data()
    objective = make_objective(run.recipe, run.model, run.preprocessor, data.splits)

    def validate() -> Validation:
        metrics = run.evaluator.evaluate(data.splits["dev"], limit=DEV_SAMPLE).metrics
        return Validation(metrics, run.evaluator.selection_score(metrics))

    stop_reason = run_training_session(
        objective,
        validate,
        train_settings(run.recipe),
        run.folder,
        console=console,
        warn=options.log,
        on_event=options.on_event,
    )
    return stop_reason, objective.figures()


def _fit(run: Run, console: Console) -> str:
    make_estimator = run.components.estimator
    assert make_estimator is not None
    splits = run.data().splits

    def evaluate() -> tuple[dict[str, float], float]:
        metrics = run.evaluator.evaluate(splits["dev"]).metrics
        return metrics, run.evaluator.selection_score(metrics)

    return run_fit_session(
        make_estimator(run.recipe, run.model, run.preprocessor, splits),
        run.model.state_dict,
        evaluate,
        run.folder,
        run.weight_files,
        name=run.recipe.model_name,
        threads=run.metadata["threads"],
        scratch_dir=run.tokens_dir(),
        console=console,
    )

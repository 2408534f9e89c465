"""Training into a run folder: from scratch, from another run's weights, or resumed."""

import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from saccade.errors import ConfigError, DataError, RunError, TrainingError
from saccade.inspection.figures import Figure
from saccade.io.lock import lock_folder
from saccade.io.staging import staging_folder
from saccade.runs.data_paths import check_files_exist
from saccade.runs.extend import SettingChange, depends_on_length, extend_state, resumed_recipe
from saccade.runs.memory import TRAINING_COPIES, check_model_memory
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
    remove_folder,
    remove_run,
    remove_temp_files,
)
from saccade.tasks.base import Choice, PrepareContext, PreparedData, Recipe
from saccade.tasks.registry import task_spec_for
from saccade.training.cpu import available_cpus
from saccade.training.estimator import Estimator
from saccade.training.fit_session import run_fit_session
from saccade.training.progress import show_progress
from saccade.training.signals import StopFlag, stop_on_signal
from saccade.types.progress import Progress

if TYPE_CHECKING:
    from saccade.training.loop import Event
    from saccade.training.state import TrainState


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
    signal_number: int | None = None  # of the signal that stopped it


class _Session(NamedTuple):
    """Circumstances of a session of a run."""

    setup_seconds: float = 0.0  # used so far, which count in a time budget
    on_load: "Callable[[TrainState], None]" = lambda state: None  # receives the loaded state


def train_recipe(recipe: Recipe, folder: Path, options: TrainOptions) -> TrainResult:
    """Train a recipe from the start into a new folder.

    A training that cannot start, or that fails before its first checkpoint, leaves no folder.
    """
    started = time.monotonic()
    check_folder_is_free(folder, options.overwrite)
    check_files_exist(recipe)
    if not task_spec_for(recipe).torch_free(recipe):
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
        is_incremental = other.is_trained_by_loop and other.components.is_incremental
        recipe = inherit_config(recipe, other.recipe, str(other.folder), is_incremental)
    with staging_folder(folder) as staging:
        preprocessor = None if other is None else _kept_preprocessor(recipe, other)
        context = PrepareContext[Any](
            preprocessor=preprocessor, auto_model=options.auto_model, scratch_dir=staging
        )
        data = prepare_data(recipe, context, options.console)
        options.on_choices(data.choices)
        for note in data.notes:
            options.log(note)
        metadata = run_metadata(threads, data.fingerprint(), data.recipe, folder)
        components = task_spec_for(data.recipe).components(data.recipe)
        check_model_memory(data.recipe, data.preprocessor, components, TRAINING_COPIES)
        run = Run(folder, data.recipe, metadata, data.preprocessor)
        if run.is_trained_by_loop:
            run.metadata["parameters"] = run.parameters
        if other is not None:
            _load_initial_weights(run, other, data, options)
        elif components.initialise and (
            source := components.initialise(run.recipe, run.model, run.preprocessor)
        ):
            run.metadata["from"] = source
        run.attach_data(data)
        if options.is_finetuning:
            run.metadata["before"] = _evaluate_before(run, options)
        folder.mkdir(parents=True, exist_ok=True)
        with lock_folder(folder):
            remove_run(folder)
            run.save_preprocessor(folder)
            if staging.exists():
                staging.rename(folder / run.spec.scratch_name)
            if "from" in run.metadata:
                from saccade.tasks.neural import train_settings
                from saccade.training.session import save_initial_checkpoint

                save_initial_checkpoint(run.model, train_settings(run.recipe), folder)
            run.save_settings(folder)
            try:
                return _run_session(run, options, _Session(time.monotonic() - started))
            except (ConfigError, DataError, TrainingError):
                if not _has_progress(run):
                    remove_folder(folder)
                raise


def _kept_preprocessor(recipe: Recipe, other: Run) -> Any:
    """Return the preprocessor of the run to start from, or what another task keeps of it."""
    if other.recipe.task == recipe.task:
        return other.preprocessor
    return task_spec_for(recipe).transfers[other.recipe.task].preprocessor(other.preprocessor)


def _has_progress(run: Run) -> bool:
    """Return True if a session has left more than settings and initial weights."""
    checkpoints = _list_checkpoints(run.folder) if run.is_trained_by_loop else []
    made = any(int(path.stem) for path in checkpoints)
    return made or (run.folder / "model.safetensors").exists()


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
    if other.recipe.task == run.recipe.task:
        load_weights(run.model, other.model.state_dict(), other.folder / "model.safetensors")
    else:
        assert run.components.transfer_weights is not None
        run.components.transfer_weights(run.model, other.model)
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
    if task_spec_for(recipe).torch_free(recipe):
        return threads or available_cpus()
    from saccade.training.device import set_num_threads

    return set_num_threads(threads)


def resume(folder: Path, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    """Resume a training, with the same bits as if it had not been interrupted.

    `changes` are settings by dotted path. With another length (`train.steps`, `train.minutes`) a
    finished training is extended; the settings of the model and of the data cannot be changed.
    """
    run = open_without_weights(folder)
    with lock_folder(folder):
        return _resume(run, changes, options)


def _resume(run: Run, changes: dict[str, Any], options: TrainOptions) -> TrainResult:
    folder = run.folder
    recipe, changed = resumed_recipe(run.recipe, changes, folder, run.is_trained_by_loop)
    has_weights = (folder / "model.safetensors").exists()
    if has_weights and run.is_trained_by_loop and not _list_checkpoints(folder):
        raise RunError(
            f"{folder} has weights but no checkpoint to resume from; try to start a new run from "
            "its weights with --init-from."
        )
    run.recipe = recipe
    threads = _set_threads(recipe, recipe.train.threads or run.metadata["threads"])
    if threads != run.metadata["threads"]:
        options.log(
            f"This run was started with {run.metadata['threads']} threads and is resumed with "
            f"{threads}: results may differ in the last bits."
        )
    run.attach_data(run.load_training_data(options.console))
    if not changed:
        return _run_session(run, options, _Session())
    if not run.is_trained_by_loop:
        run.save_settings(folder)
        return _run_session(run, options, _Session())
    return _run_session(
        run, options, _Session(on_load=lambda state: _extend(run, state, changed, options))
    )


def _extend(
    run: Run, state: "TrainState", changed: list[SettingChange], options: TrainOptions
) -> None:
    """Adapt the loaded state to the changed settings, and write them to the folder."""
    from saccade.tasks.neural import train_settings

    for message in extend_state(state, train_settings(run.recipe), changed, run.folder):
        options.log(message)
    best = run.folder / "model.safetensors"
    if depends_on_length(run.recipe.train) and best.exists():
        # those of the last evaluation of a finished run, which is not in its checkpoint
        weights, metadata = run.weight_files.read(best)
        if metadata["goodness"] > state.best:
            state.best, state.best_step = metadata["goodness"], metadata["step"]
            state.best_weights = weights
    values = [f"step {state.step}", *map(str, changed)]
    run.metadata["resumed_with"] = [*run.metadata.get("resumed_with", []), "; ".join(values)]
    run.save_settings(run.folder)


def _list_checkpoints(folder: Path) -> list[Path]:
    from saccade.training.checkpoint import list_checkpoints

    return list_checkpoints(folder / "checkpoint")


def _run_session(run: Run, options: TrainOptions, session: _Session) -> TrainResult:
    """Train from the newest checkpoint, or from the start."""
    remove_temp_files(run.folder)
    console = options.console or Console(quiet=True)
    figures: dict[str, Figure] = {}
    if run.is_trained_by_loop:
        with stop_on_signal() as stop:
            stop_reason, figures = _run_loop(run, options, console, session, stop)
    else:
        if run.recipe.train.model_dump().get("minutes") is not None:
            options.log(f"train.minutes does not limit {run.recipe.model_name}: it has no steps.")
        estimator = _make_estimator(run)
        # a fit that cannot be resumed is interrupted immediately
        with stop_on_signal() if estimator.is_resumable else nullcontext(StopFlag()) as stop:
            stop_reason = _fit(run, estimator, console, stop)
    if stop():  # also after the last step, before the report
        return TrainResult(run, "stop", stop.number)
    _calibrate(run, stop_reason)
    write_report(run, figures, options.log)
    return TrainResult(run, stop_reason)


def _calibrate(run: Run, stop_reason: str) -> None:
    """Fit the calibration of a trained model, and save it with the weights of a finished run."""
    calibrate = run.components.calibrate
    if calibrate is not None:
        calibrate(run.recipe, run.model, run.preprocessor, run.data().splits)
        _, metadata = run.weight_files.read(run.folder / "model.safetensors")
        run.save_weights(run.model.state_dict(), metadata | {"ended": stop_reason})


def _run_loop(
    run: Run, options: TrainOptions, console: Console, session: _Session, stop: StopFlag
) -> tuple[str, dict[str, Figure]]:
    from saccade.tasks.neural import train_settings
    from saccade.training.objective import Validation
    from saccade.training.session import run_training_session

    make_objective = run.components.objective
    assert make_objective is not None
    data = run.data()
    objective = make_objective(run.recipe, run.model, run.preprocessor, data.splits)

    def validate(examples: int, on_progress: Progress) -> Validation:
        dev = data.splits["dev"]
        metrics = run.evaluator.evaluate(dev, limit=examples, on_progress=on_progress).metrics
        return Validation(metrics, run.evaluator.selection_score(metrics))

    stop_reason = run_training_session(
        objective,
        validate,
        train_settings(run.recipe),
        run.folder,
        console=console,
        warn=options.log,
        on_event=options.on_event,
        stop=stop,
        is_calibrated_later=run.components.calibrate is not None,
        setup_seconds=session.setup_seconds,
        on_load=session.on_load,
    )
    return stop_reason, objective.figures()


def _make_estimator(run: Run) -> Estimator:
    make_estimator = run.components.estimator
    assert make_estimator is not None
    return make_estimator(run.recipe, run.model, run.preprocessor, run.data().splits)


def _fit(run: Run, estimator: Estimator, console: Console, stop: StopFlag) -> str:
    splits = run.data().splits

    def evaluate() -> tuple[dict[str, float], float]:
        metrics = run.evaluator.evaluate(splits["dev"]).metrics
        return metrics, run.evaluator.selection_score(metrics)

    return run_fit_session(
        estimator,
        run.model.state_dict,
        evaluate,
        run.folder,
        run.weight_files,
        name=run.recipe.model_name,
        threads=run.metadata["threads"],
        scratch_dir=run.scratch_dir(),
        console=console,
        stop=stop,
        is_calibrated_later=run.components.calibrate is not None,
    )

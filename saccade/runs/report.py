"""The report of a finished training: curves, and the figures of the task."""

from collections.abc import Callable, Mapping

from saccade.inspection.figures import Figure, TrainingCurves
from saccade.io.atomic import write_atomically
from saccade.plots.render import save_figure
from saccade.runs.run import Run


def write_report(
    run: Run, training_figures: Mapping[str, Figure], log: Callable[[str], None]
) -> None:
    """Write report/ into the run folder, and log what the user should know about the figures."""
    folder = run.folder / "report"
    folder.mkdir(exist_ok=True)
    figures = {**run.inspector.figures(run.data().splits), **training_figures}
    if run.is_trained_by_loop:
        records = run.metrics()
        if any("loss" in record or "dev_loss" in record for record in records):
            figures["curves.png"] = TrainingCurves(records)
        else:
            log(f"{folder / 'curves.png'} is not drawn: metrics.jsonl has no line with a loss.")
    for name, content in run.inspector.report_files(run.data().splits).items():
        write_atomically(folder / name, content.encode())
    for name, figure in figures.items():
        for message in save_figure(figure, folder / name):
            log(message)

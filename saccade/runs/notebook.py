"""The summary of a run as HTML, for notebooks."""

from saccade.runs.summary import RunSummary
from saccade.types.html import html_paragraph, html_table


def run_html(summary: RunSummary) -> str:
    """Return state, scores, changed settings and provenance of a run."""
    parameters = "" if summary.parameters is None else f", {summary.parameters:,} parameters"
    heading = f"{summary.folder}: {summary.task}, {summary.model}{parameters}; {summary.state}"
    parts = [html_paragraph(heading)]
    names = [name for name in dict.fromkeys([*summary.dev, *summary.test]) if name != "step"]
    if names:
        columns = ["metric", "dev", "test", *summary.floors]
        sources = [summary.dev, summary.test, *summary.floors.values()]
        rows = [[name, *(_number(source.get(name)) for source in sources)] for name in names]
        parts.append(html_table(columns, rows))
    settings = [(s.path, s.value, s.default) for s in summary.changed_settings]
    parts.append(html_table(["setting (not default)", "value", "default"], settings))
    parts.append(html_table(["provenance", ""], summary.provenance.items()))
    return "".join(parts)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"

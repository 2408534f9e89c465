"""Small HTML tables for notebooks; all text is escaped."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape


def html_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table with a row of headings; none if all headings are empty."""
    heading = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>" for row in rows
    )
    head = f"<thead><tr>{heading}</tr></thead>" if any(columns) else ""
    return f"<table>{head}<tbody>{body}</tbody></table>"


def html_paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>"


def html_image(png: bytes, description: str) -> str:
    """Return a PNG as an image inside the page."""
    content = b64encode(png).decode()
    return f'<img alt="{escape(description)}" src="data:image/png;base64,{content}">'

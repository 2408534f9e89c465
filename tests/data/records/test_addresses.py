"""Addresses as records: a local server, the copy in the cache, and limits."""

import io
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from saccade.data.records.base import Records
from saccade.data.records.open import open_records
from saccade.errors import DataError
from saccade.io import download

CSV = b"text,label\na,1\nb,0\n"


@dataclass
class Server:
    """A server of files by path, with entity tags, that counts its answers."""

    files: dict[str, bytes] = field(default_factory=dict)
    statuses: list[int] = field(default_factory=list)
    has_tags: bool = True

    def __post_init__(self) -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                content = server.files.get(self.path.partition("?")[0])
                tag = f'"{hash(content)}"'
                status = 200 if content is not None else 404
                if server.has_tags and self.headers["If-None-Match"] == tag:
                    status = 304
                server.statuses.append(status)
                self.send_response(status)
                if server.has_tags:
                    self.send_header("ETag", tag)
                if status == 200:
                    assert content is not None
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if status == 200:
                    self.wfile.write(content or b"")

            def log_message(self, *words: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.01,))
        self.thread.start()
        self.root = f"http://127.0.0.1:{self.http.server_address[1]}"

    def close(self) -> None:
        if self.thread.is_alive():
            self.http.shutdown()
            self.thread.join()
            self.http.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Server()
    yield made
    made.close()


def texts_of(records: Records) -> list[str | None]:
    return [cell for chunk in records.chunks(["text"]) for cell in chunk.columns["text"]]


def test_address_is_downloaded_once(server: Server) -> None:
    server.files = {"/rows.csv": CSV}
    progress: list[tuple[int, int]] = []
    records = open_records(
        f"{server.root}/rows.csv?version=2",
        on_progress=lambda done, total: progress.append((done, total)),
    )
    assert texts_of(records) == ["a", "b"]
    assert records.name == f"{server.root}/rows.csv?version=2"
    assert records.where(2) == f"{server.root}/rows.csv?version=2, line 2"
    assert progress == [(len(CSV), len(CSV))]
    assert texts_of(open_records(f"{server.root}/rows.csv?version=2")) == ["a", "b"]
    assert server.statuses == [200, 304]


def test_changed_file_is_downloaded_again(server: Server) -> None:
    server.files = {"/rows.csv": CSV}
    open_records(f"{server.root}/rows.csv")
    server.files = {"/rows.csv": CSV + b"c,1\n"}
    assert texts_of(open_records(f"{server.root}/rows.csv")) == ["a", "b", "c"]
    server.has_tags = False
    assert texts_of(open_records(f"{server.root}/rows.csv")) == ["a", "b", "c"]
    server.files = {"/rows.csv": CSV}
    assert texts_of(open_records(f"{server.root}/rows.csv")) == ["a", "b"]
    assert server.statuses == [200] * 4


def test_copy_is_used_without_a_network(server: Server) -> None:
    server.files = {"/rows.csv": CSV}
    open_records(f"{server.root}/rows.csv")
    server.close()
    records = open_records(f"{server.root}/rows.csv")
    assert texts_of(records) == ["a", "b"]
    assert records.notes[0].startswith(f"{server.root}/rows.csv cannot be reached (")
    assert records.notes[0].endswith("); its copy is used")


def test_member_of_an_archive_at_an_address(server: Server) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("rows.csv", CSV)
        archive.writestr("other.jsonl", '{"text": "x"}')
    server.files = {"/data.zip": content.getvalue()}
    assert texts_of(open_records(f"{server.root}/data.zip#rows.csv")) == ["a", "b"]
    assert texts_of(open_records(f"{server.root}/data.zip#other.jsonl")) == ["x"]
    with pytest.raises(DataError) as caught:
        open_records(f"{server.root}/data.zip")
    assert (
        f"try one of: {server.root}/data.zip#other.jsonl, {server.root}/data.zip#rows.csv"
        in str(caught.value)
    )


def test_failures_name_the_address(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"{server.root}/gone.csv"
    with pytest.raises(DataError) as caught:
        open_records(url)
    assert str(caught.value) == (
        f"{url} could not be downloaded: the server answered 404 (Not Found). Check the address, "
        "or download the file and give its path."
    )
    monkeypatch.setattr(download, "MAX_ADDRESS_BYTES", 10)
    server.files = {"/rows.csv": CSV}
    with pytest.raises(DataError, match="got a file of 19 bytes; expected at most 10. Check the"):
        open_records(f"{server.root}/rows.csv")
    server.close()
    with pytest.raises(DataError, match=r"could not be downloaded: Connection refused\. Check"):
        open_records(url)

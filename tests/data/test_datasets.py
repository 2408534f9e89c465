"""Published datasets: local files, checks, and downloads from a local HTTP server."""

import gzip
import io
import lzma
import os
import socket
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest

from saccade.data.datasets import (
    DATASETS,
    DatasetFile,
    DatasetInfo,
    cache_folder,
    fetch_dataset,
    is_local,
)
from saccade.errors import DataError
from saccade.io import download

ROOT = os.environ.get("SACCADE_DATA")  # as it is outside the tests of this file


def text_of(lines: int) -> bytes:
    return b"".join(b"line %d\n" % number for number in range(lines))


def zipped(**members: bytes) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, member in members.items():
            archive.writestr(name.replace("_", "."), member)
    return content.getvalue()


class Answer(NamedTuple):
    """The response of the server to one request."""

    content: bytes
    code: int = 200
    length: int | None = None  # the Content-Length it claims; None: the true one; -1: none


class Server:
    """A local HTTP server in place of the publisher's."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[str] = []
        self.agents: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append(self.path)
                server.agents.append(self.headers["User-Agent"])
                answer = server.answers.get(self.path, Answer(b"no such page", 404))
                self.send_response(answer.code)
                if answer.length != -1:
                    length = len(answer.content) if answer.length is None else answer.length
                    self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(answer.content)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        self.root = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    made = Server()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no SACCADE_DATA."""
    monkeypatch.delenv("SACCADE_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "saccade" / "data"


def captions(root: str = "http://127.0.0.1:9") -> DatasetInfo:
    """Return a dataset of two files of 5 lines; no server listens at the default address."""
    return DatasetInfo(
        name="captions",
        homepage="https://example.org/captions",
        terms="free for all",
        languages=("en", "de"),
        files=(
            DatasetFile("a.en", f"{root}/raw/a.en.gz", 5),
            DatasetFile("a.de", f"{root}/raw/a.de.gz", 5),
        ),
        splits={"train": "a"},
    )


def table(root: str) -> DatasetInfo:
    file = DatasetFile(
        "pairs.txt", f"{root}/pairs.zip", 5, is_growing=True, archive_member="pairs.txt"
    )
    return replace(captions(root), name="table", files=(file,), splits={})


def leftovers(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.rglob("*") if path.is_file())


# --- read in place ------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_fetch_dataset_reads_plain_and_compressed_local_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    pack = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending]
    folder = tmp_path / "sets" / "captions"
    folder.mkdir(parents=True)
    for name in ("a.en", "a.de"):
        (folder / (name + ending)).write_bytes(pack(text_of(5)))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path / "sets"))
    assert is_local(captions())
    paths, notes = fetch_dataset(captions())
    assert paths == {name: folder / (name + ending) for name in ("a.en", "a.de")}
    assert notes == []
    assert not cache_folder().exists()


def test_fetch_dataset_lists_all_wrong_files_with_advice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "captions"
    folder.mkdir()
    (folder / "a.en").write_bytes(text_of(4))
    (folder / "a.de").write_bytes(text_of(6))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    with pytest.raises(DataError) as caught:
        fetch_dataset(captions())
    assert str(caught.value).splitlines() == [
        "captions differs from what its publisher has:",
        f"  - {folder / 'a.en'}: got 4 lines; expected 5.",
        f"  - {folder / 'a.de'}: got 6 lines; expected 5.",
        "By hand: get a.en.gz, a.de.gz from https://example.org/captions, put them into "
        f"FOLDER/captions and set SACCADE_DATA=FOLDER, or put them into "
        f"{cache_folder() / 'captions'}.",
    ]


def test_fetch_dataset_does_not_download_into_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    (tmp_path / "captions").mkdir()
    (tmp_path / "captions" / "a.en").write_bytes(text_of(5))
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    assert not is_local(captions(server.root))
    with pytest.raises(DataError, match=r"captions lacks a\.de\[\.gz\|\.xz\]\. By hand: get"):
        fetch_dataset(captions(server.root))
    assert server.asked == []


def test_fetch_dataset_accepts_more_lines_of_a_growing_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "pairs.txt").write_bytes(text_of(7))
    assert fetch_dataset(table(server.root)).paths["pairs.txt"].exists()
    (tmp_path / "table" / "pairs.txt").write_bytes(text_of(4))
    with pytest.raises(DataError, match="got 4 lines; expected at least 5"):
        fetch_dataset(table(server.root))


# --- downloads ------------------------------------------------------------------------------------


def test_downloaded_images_are_checked_by_their_bytes(server: Server) -> None:
    file = DatasetFile("images.bin", f"{server.root}/images.bin.gz", bytes=5)
    dataset = DatasetInfo("pictures", "home", "terms", (), (file,), {}, has_images=True)
    server.answers = {"/images.bin.gz": Answer(gzip.compress(b"1234"))}
    with pytest.raises(DataError, match="got 4 bytes; expected 5"):
        fetch_dataset(dataset)
    server.answers = {"/images.bin.gz": Answer(gzip.compress(b"12345"))}
    assert fetch_dataset(dataset).paths["images.bin"].exists()


def test_fetch_dataset_downloads_once_with_a_note(server: Server, cache: Path) -> None:
    content = gzip.compress(text_of(5))
    server.answers = {f"/raw/a.{side}.gz": Answer(content) for side in ("en", "de")}
    progress: list[tuple[int, int]] = []
    dataset = captions(server.root)
    assert not is_local(dataset)
    paths, notes = fetch_dataset(dataset, lambda done, total: progress.append((done, total)))
    assert is_local(dataset)
    assert notes == [f"captions was downloaded to {cache / 'captions'} (free for all)."]
    assert {path.read_bytes() for path in paths.values()} == {content}
    assert progress == [(len(content), len(content))] * 2
    assert leftovers(cache) == ["a.de.gz", "a.en.gz"]
    assert all("Python-urllib" not in agent for agent in server.agents)
    again = fetch_dataset(dataset)
    assert (again.paths, again.notes) == (paths, [])
    assert len(server.asked) == 2


def test_fetch_dataset_downloads_if_saccade_data_lacks_it(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    (tmp_path / "sets").mkdir()
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path / "sets"))
    content = gzip.compress(text_of(5))
    server.answers = {f"/raw/a.{side}.gz": Answer(content) for side in ("en", "de")}
    assert fetch_dataset(captions(server.root)).paths["a.en"].parent == cache / "captions"
    assert os.listdir(tmp_path / "sets") == []


def test_fetch_dataset_reports_progress(
    server: Server, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setattr(download, "DOWNLOAD_CHUNK", 10)
    content = gzip.compress(text_of(5))
    server.answers = {
        "/raw/a.en.gz": Answer(content),
        "/raw/a.de.gz": Answer(content, length=-1),  # without a Content-Length
    }
    progress: list[tuple[int, int]] = []
    fetch_dataset(captions(server.root), lambda done, total: progress.append((done, total)))
    size = len(content)
    steps = [*range(10, size, 10), size]
    assert progress == [(done, total) for total in (size, 0) for done in steps]


def test_fetch_dataset_unpacks_a_zip_member(server: Server, cache: Path) -> None:
    server.answers["/pairs.zip"] = Answer(zipped(_about_txt=b"x", pairs_txt=text_of(9)))
    [path] = fetch_dataset(table(server.root)).paths.values()
    assert path.read_bytes() == text_of(9)
    assert leftovers(cache) == ["pairs.txt"]


PACKED = gzip.compress(text_of(5))
# responses that are truncated, missing, an HTML page, too short, damaged or too large
WRONG = {
    "truncated": (
        Answer(PACKED, length=len(PACKED) + 7),
        f"got {len(PACKED)} of {len(PACKED) + 7} bytes before the connection ended; try again",
    ),
    "not there": (Answer(b"", 404), "the server answered 404 (Not Found)"),
    "refused": (Answer(b"", 406), "the server answered 406 (Not Acceptable)"),
    "a page": (Answer(b"<html>\nPlease sign in\n"), "got 2 lines; expected 5"),
    "too little": (Answer(gzip.compress(text_of(3))), "got 3 lines; expected 5"),
    "half, and no length": (Answer(PACKED[:-12], length=-1), "cannot be unpacked to its end"),
    "not text": (Answer(gzip.compress(b"\xff" * 90)), "is not UTF-8"),
    "too large by its header": (Answer(PACKED, length=10**9), "got a file of 1,000,000,000 bytes"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_fetch_dataset_does_not_keep_bad_downloads(server: Server, cache: Path, wrong: str) -> None:
    answer, message = WRONG[wrong]
    server.answers = {"/raw/a.en.gz": Answer(PACKED), "/raw/a.de.gz": answer}
    with pytest.raises(DataError) as caught:
        fetch_dataset(captions(server.root))
    error = str(caught.value)
    assert error.startswith("captions is not on this machine, and ")
    assert f"{server.root}/raw/a.de.gz could not be downloaded: " in error
    assert message in error
    assert "By hand: get a.en.gz, a.de.gz from https://example.org/captions" in error
    assert leftovers(cache) == [
        "a.en.gz"
    ]  # the complete one is kept, and only the other is requested again
    assert not is_local(captions(server.root))
    server.answers["/raw/a.de.gz"] = Answer(PACKED)
    assert set(fetch_dataset(captions(server.root)).paths) == {"a.en", "a.de"}
    assert server.asked == [f"/raw/a.{side}.gz" for side in ("en", "de", "de")]


ARCHIVES = {
    "no archive": (b"<html>", "got no zip archive that contains pairs.txt (File is not a zip"),
    "another": (zipped(other_txt=b"x"), "no zip archive that contains pairs.txt"),
    "damaged": (zipped(pairs_txt=os.urandom(900))[200:], "no zip archive that contains pairs.txt"),
    "a bomb": (zipped(pairs_txt=b"\n" * 5000), "got more than 4,000 bytes, the maximum"),
    "too little": (zipped(pairs_txt=text_of(2)), "got 2 lines; expected at least 5"),
}


@pytest.mark.parametrize("wrong", ARCHIVES)
def test_fetch_dataset_does_not_keep_bad_archives(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.setattr(download, "MAX_UNPACKED_BYTES", 4000)
    content, message = ARCHIVES[wrong]
    server.answers["/pairs.zip"] = Answer(content)
    with pytest.raises(DataError) as caught:
        fetch_dataset(table(server.root))
    assert message in str(caught.value)
    assert leftovers(cache) == []


def test_download_stops_at_the_maximum_size(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "MAX_DOWNLOAD_BYTES", 1000)
    server.answers["/raw/a.en.gz"] = Answer(b"x" * 100_000, length=-1)
    with pytest.raises(DataError, match="got more than 1,000 bytes, the maximum"):
        fetch_dataset(captions(server.root))
    assert leftovers(cache) == []


def test_download_times_out(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.setattr(download, "DOWNLOAD_TIMEOUT", 0.2)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        root = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(DataError, match="could not be downloaded: timed out"):
            fetch_dataset(captions(root))
    assert leftovers(cache) == []


def test_fetch_dataset_offline_explains_the_manual_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    (tmp_path / "sets").mkdir()
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path / "sets"))
    with pytest.raises(DataError) as caught:
        fetch_dataset(captions())
    assert str(caught.value) == (
        f"captions is not in SACCADE_DATA ({tmp_path / 'sets'}) or on this machine, and "
        "http://127.0.0.1:9/raw/a.en.gz could not be downloaded: Connection refused. "
        "By hand: get a.en.gz, a.de.gz from https://example.org/captions, put them into "
        f"FOLDER/captions and set SACCADE_DATA=FOLDER, or put them into {cache / 'captions'}."
    )


def test_fetch_dataset_reports_an_unwritable_cache(server: Server, cache: Path) -> None:
    cache.parent.parent.mkdir()
    cache.parent.write_text("in the way")
    with pytest.raises(DataError, match="could not be downloaded: (Not a directory|File exists)"):
        fetch_dataset(captions(server.root))
    assert server.asked == []


def test_fetch_dataset_interrupted_leaves_no_file(
    server: Server, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(done: int, total: int) -> None:
        assert leftovers(cache) != ["a.en.gz"]
        raise KeyboardInterrupt

    server.answers["/raw/a.en.gz"] = Answer(PACKED)
    with pytest.raises(KeyboardInterrupt):
        fetch_dataset(captions(server.root), killed)
    assert not is_local(captions(server.root))
    assert leftovers(cache) == []


# --- catalogue ----------------------------------------------------------------------------------


def test_catalogue_names_and_addresses() -> None:
    for name, dataset in DATASETS.items():
        assert dataset.name == name
        for file in dataset.files:
            assert file.url.startswith("https://")
            assert file.download_name in (file.name, f"{file.name}.gz")
    captions_of = {file.name: file.lines for file in DATASETS["multi30k"].files}
    assert captions_of == {
        f"{split}.{side}": lines
        for split, lines in (("train", 29_000), ("val", 1014), ("test_2016_flickr", 1000))
        for side in ("en", "de")
    }


@pytest.mark.parametrize("name", DATASETS)
def test_catalogue_matches_the_local_datasets(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if not ROOT or not (Path(ROOT) / name).exists():
        pytest.skip(f"{name} is not in SACCADE_DATA")
    monkeypatch.setenv("SACCADE_DATA", ROOT)
    assert set(fetch_dataset(DATASETS[name]).paths) == {file.name for file in DATASETS[name].files}

r"""Readers of text files in any encoding, compressed or not, with a BOM or Windows line ends.

A file is read as a stream of blocks of whole lines. Lines end with "\n": U+2028, U+0085 and form
feeds are ordinary characters; a "\r" before the line end is dropped. In a file whose first block
has "\r" and no "\n", lines end with "\r". UTF-8 is the fast path; another encoding is detected
from the first block that is not ASCII (`saccade.io.encodings`) and converted. Bytes that cannot be
decoded are an error that gives the line.
"""

import codecs
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from saccade.errors import DataError
from saccade.io.byte_source import (
    STANDARD_INPUT,
    AnySource,
    ByteSource,
    byte_source,
    read_first_bytes,
)
from saccade.io.encodings import UTF8, DetectedEncoding, detect_encoding, named_encoding

READ_BLOCK_BYTES = 1 << 22
ENCODING_BYTES = 1 << 24  # that are searched for a character beyond ASCII
MAX_LISTED_ERRORS = 5  # lines that one error message lists; the others are counted

__all__ = [
    "MAX_LISTED_ERRORS",
    "READ_BLOCK_BYTES",
    "STANDARD_INPUT",
    "LineBlock",
    "RawBlock",
    "TextBlock",
    "file_encoding",
    "read_blocks",
    "read_characters",
    "read_first_bytes",
    "read_line_blocks",
    "read_lines",
    "read_raw_blocks",
    "read_text_blocks",
]


class LineBlock(NamedTuple):
    r"""Whole lines of a file in UTF-8, each with its "\n", and the number of the first (from 1)."""

    content: bytes
    first_line: int


class RawBlock(NamedTuple):
    r"""Whole lines of a file in UTF-8 that is not checked yet, each with its "\n"."""

    content: bytes
    first_line: int  # number of the first line, from 1
    offset: int  # bytes of the file before it, if that is in UTF-8
    converter: "_Converter"

    def skip(self, size: int) -> "RawBlock":
        """Return the block without its first bytes, which are whole lines."""
        lines = self.content.count(b"\n", 0, size)
        return self._replace(
            content=self.content[size:],
            first_line=self.first_line + lines,
            offset=self.offset + size,
        )

    def decode(self) -> str:
        """Return the text, or raise a DataError with line and byte."""
        try:
            return self.content.decode()
        except UnicodeDecodeError as error:
            raise self.converter.undecodable(
                error, self.first_line, self.offset + error.start
            ) from None


class TextBlock(NamedTuple):
    r"""Whole lines of a file, each with its "\n", and the number of the first (from 1)."""

    text: str
    first_line: int


def read_lines(source: AnySource, encoding: str | None = None) -> Iterator[str]:
    """Yield each line of a text file, empty ones too; "-" is standard input, read as it arrives.

    Args:
        source: a path, "-" or a source of bytes.
        encoding: of the text; None: detected.
    """
    for block in read_blocks(source, encoding):
        for line in block.content[:-1].split(b"\n"):
            yield line.removesuffix(b"\r").decode()


def read_blocks(source: AnySource, encoding: str | None = None) -> Iterator[LineBlock]:
    """Yield the lines of a file in UTF-8, in blocks of some megabytes."""
    for content, _, line in _decoded(source, encoding):
        yield LineBlock(content, line)


def read_text_blocks(source: AnySource, encoding: str | None = None) -> Iterator[TextBlock]:
    """Yield the lines of a file in blocks of some megabytes."""
    for _, text, line in _decoded(source, encoding):
        yield TextBlock(text, line)


def read_raw_blocks(source: AnySource, encoding: str | None = None) -> Iterator[RawBlock]:
    """Yield the lines of a file in UTF-8, in blocks of some megabytes that are not checked yet."""
    converter = _Converter(byte_source(source), encoding)
    line = 1
    for content in _whole_lines(converter.contents()):
        yield RawBlock(content, line, converter.offset, converter)
        converter.offset += len(content)
        line += content.count(b"\n")


def read_characters(source: AnySource, encoding: str | None = None) -> Iterator[str]:
    """Yield the characters of a file in blocks of some megabytes, wherever lines end."""
    converter = _Converter(byte_source(source), encoding)
    decoder = codecs.getincrementaldecoder(UTF8)()
    line = 1
    for content in chain(converter.contents(), [b""]):
        try:
            text = decoder.decode(content, final=not content)
        except UnicodeDecodeError as error:
            before = len(error.object) - len(content)  # bytes of the character that was cut
            raise converter.undecodable(
                error, line, converter.offset + error.start - before
            ) from None
        yield text
        converter.offset += len(content)
        line += text.count("\n")


def read_line_blocks(source: AnySource) -> Iterator[bytes]:
    """Yield blocks that end with a line end, as they are; one is added to a last line without."""
    return _whole_lines(_contents(source))


def file_encoding(source: AnySource, encoding: str | None = None) -> DetectedEncoding:
    """Return the encoding that a file is read with."""
    opened = byte_source(source)
    start = b""
    for content in _contents(opened):
        start += content
        if opened.is_live or not content.isascii() or len(start) > ENCODING_BYTES:
            break
    return named_encoding(encoding, start) if encoding else detect_encoding(start)


def _whole_lines(contents: Iterator[bytes]) -> Iterator[bytes]:
    pending: list[bytes] = []
    for content in contents:
        cut = content.rfind(b"\n") + 1
        pending.append(content[:cut] if cut else content)
        if cut:
            yield b"".join(pending)
            pending = [content[cut:]]
    rest = b"".join(pending)
    if rest:
        yield rest + b"\n"


def _contents(source: AnySource) -> Iterator[bytes]:
    opened = byte_source(source)
    try:
        with opened.open() as file:
            while content := file.read(READ_BLOCK_BYTES):
                yield content
    except OSError as error:
        raise DataError(f"{opened.name} could not be read: {error.strerror or error}.") from None


def _decoded(source: AnySource, encoding: str | None) -> Iterator[tuple[bytes, str, int]]:
    """Yield blocks of whole lines in UTF-8 and decoded, with the number of the first line."""
    for block in read_raw_blocks(source, encoding):
        yield block.content, block.decode(), block.first_line


class _Converter:
    """Conversion of the contents of a file to UTF-8."""

    def __init__(self, source: ByteSource, encoding: str | None):
        self.source = source
        self.is_given = encoding is not None
        self.encoding = encoding
        self.offset = 0  # in a file in UTF-8, of the block that is decoded next

    def contents(self) -> Iterator[bytes]:
        r"""Yield the contents in UTF-8 with "\n" as the line end, without a byte order mark."""
        contents = _contents(self.source)
        first = next(contents, b"")
        found = named_encoding(self.encoding, first) if self.encoding else detect_encoding(first)
        is_ascii = first.isascii()
        self.encoding, self.offset = found.name, found.bom_bytes
        contents = chain([first[found.bom_bytes :]], contents)
        if found.name == UTF8 and is_ascii and not self.is_given:
            contents = self._detected_later(contents)
        elif found.name != UTF8:
            contents = self._converted(contents, found.bom_bytes)
        return _with_newlines(contents)

    def _detected_later(self, contents: Iterator[bytes]) -> Iterator[bytes]:
        """Yield contents, converted from the first that is not ASCII if that is not UTF-8."""
        done = lines = 0
        for content in contents:
            if not content.isascii():
                self.encoding = detect_encoding(content).name
                rest = chain([content], contents)
                yield from rest if self.encoding == UTF8 else self._converted(rest, done, lines)
                return
            yield content
            done += len(content)
            lines += content.count(b"\n")

    def _converted(self, contents: Iterator[bytes], offset: int, lines: int = 0) -> Iterator[bytes]:
        assert self.encoding is not None
        decoder = codecs.getincrementaldecoder(self.encoding)()
        for content in chain(contents, [b""]):
            try:
                text = decoder.decode(content, final=not content)
            except UnicodeDecodeError as error:
                # the decoder may have added bytes of the content before
                start = offset + len(content) - len(error.object) + error.start
                try:
                    before = error.object[: error.start].decode(self.encoding, "ignore")
                except UnicodeError:  # idna and punycode skip no bytes
                    raise self._no_text(error.reason) from None
                raise self.undecodable(error, lines + before.count("\n") + 1, start) from None
            except UnicodeError as error:  # of idna and punycode
                raise self._no_text(str(error)) from None
            try:
                converted = text.encode()
            except UnicodeEncodeError:  # utf-7 and others have halves of characters
                raise self._no_text("it has halves of surrogate pairs") from None
            yield converted
            offset += len(content)
            lines += text.count("\n")

    def _no_text(self, reason: str) -> DataError:
        return DataError(
            f"{self.source.name}: got content that is not text in {self.encoding} ({reason}); "
            "expected text in the encoding given; try --set data.encoding=utf-8, or none to have "
            "it detected."
        )

    def undecodable(self, error: UnicodeDecodeError, line: int, offset: int) -> DataError:
        """Return the error for bytes that the encoding does not have."""
        start = error.start
        line += error.object.count(b"\n", 0, start) if self.encoding == UTF8 else 0
        name = "UTF-8" if self.encoding == UTF8 else self.encoding
        origin = "encoding given" if self.is_given else "encoding detected"
        other = "cp1252" if self.encoding == UTF8 else UTF8
        return DataError(
            f"{self.source.name}, line {line}: byte {offset} of the file "
            f"({error.object[start]:#04x}) is not {name}; expected text in the {origin}. If "
            f"the file has another encoding, try --set data.encoding={other} (or latin-1, gb18030, "
            f"…); to replace such bytes: iconv -c -f {name} -t utf-8 {self.source.name} > new-file"
        )


def _with_newlines(contents: Iterator[bytes]) -> Iterator[bytes]:
    r"""Yield contents in which "\r" as the only line end is "\n"."""
    first = next(contents, b"")
    contents = chain([first], contents)
    if b"\n" not in first and b"\r" in first[:-1]:
        return (content.replace(b"\r", b"\n") for content in contents)
    return contents

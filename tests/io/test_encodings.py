"""Detection of encodings, and text files in any of them."""

import codecs
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from saccade.errors import DataError
from saccade.io import text_files
from saccade.io.encodings import detect_encoding
from saccade.io.text_files import (
    file_encoding,
    read_blocks,
    read_characters,
    read_lines,
    read_text_blocks,
)

# Article 1 of the Universal Declaration of Human Rights
ARTICLES = {
    "en": "“All human beings are born free” – it’s the first article, and they’re equal.",
    "fr": "Tous les êtres humains naissent libres et égaux en dignité et en droits. Ils sont doués "
    "de raison et de conscience et doivent agir les uns envers les autres dans un esprit de "
    "fraternité.",
    "de": "Alle Menschen sind frei und gleich an Würde und Rechten geboren. Sie sind mit Vernunft "
    "und Gewissen begabt und sollen einander im Geiste der Brüderlichkeit begegnen.",
    "es": "Todos los seres humanos nacen libres e iguales en dignidad y derechos y, dotados como "
    "están de razón y conciencia, deben comportarse fraternalmente los unos con los otros.",
    "pt": "Todos os seres humanos nascem livres e iguais em dignidade e em direitos. Dotados de "
    "razão e de consciência, devem agir uns para com os outros em espírito de fraternidade.",
    "hu": "Minden emberi lény szabadon születik és egyenlő méltósága és joga van. Az emberek, "
    "ésszel és lelkiismerettel bírván, egymással szemben testvéri szellemben kell viseltessenek.",
    "cs": "Všichni lidé rodí se svobodní a sobě rovní co do důstojnosti a práv. Jsou nadáni "
    "rozumem a svědomím a mají spolu jednat v duchu bratrství.",
    "pl": "Wszyscy ludzie rodzą się wolni i równi pod względem swej godności i swych praw. Są oni "
    "obdarzeni rozumem i sumieniem i powinni postępować wobec innych w duchu braterstwa.",
    "tr": "Bütün insanlar hür, haysiyet ve haklar bakımından eşit doğarlar. Akıl ve vicdana "
    "sahiptirler ve birbirlerine karşı kardeşlik zihniyeti ile hareket etmelidirler.",
    "ru": "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены "
    "разумом и совестью и должны поступать в отношении друг друга в духе братства.",
    "el": "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. "
    "Είναι προικισμένοι με λογική και συνείδηση.",
    "zh": "人人生而自由,在尊严和权利上一律平等。他们赋有理性和良心,并应以兄弟关系的精神相对待。",
    "ja": "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて"
    "平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
    "ko": "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 "
    "천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
}
ENCODINGS = [
    ("en", "cp1252"),
    ("fr", "cp1252"),
    ("fr", "latin-1"),
    ("fr", "mac_roman"),
    ("de", "cp1252"),
    ("de", "cp850"),
    ("es", "cp1252"),
    ("pt", "cp1252"),
    ("hu", "cp1250"),
    ("hu", "iso8859_2"),
    ("cs", "cp1250"),
    ("cs", "iso8859_2"),
    ("pl", "cp1250"),
    ("pl", "iso8859_2"),
    ("tr", "cp1254"),
    ("ru", "cp1251"),
    ("ru", "koi8_r"),
    ("ru", "cp866"),
    ("el", "cp1253"),
    ("zh", "gb18030"),
    ("zh", "gbk"),
    ("zh", "utf-16-le"),
    ("zh", "utf-16-be"),
    ("ja", "cp932"),
    ("ja", "euc_jp"),
    ("ja", "iso2022_jp"),
    ("ko", "cp949"),
]


@pytest.mark.parametrize(("language", "encoding"), ENCODINGS)
def test_encoding_of_each_language(tmp_path: Path, language: str, encoding: str) -> None:
    lines = ["plain line", ARTICLES[language], "", ARTICLES[language] + " 2"]
    path = tmp_path / "text.txt"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    assert list(read_lines(path)) == lines
    assert "".join(block.text for block in read_text_blocks(path)).split("\r\n")[-1] == (
        lines[-1] + "\n"
    )
    assert list(read_lines(path, encoding)) == lines


@pytest.mark.parametrize("language", ARTICLES)
@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"]
)
def test_unicode_encodings(tmp_path: Path, language: str, encoding: str) -> None:
    lines = [ARTICLES[language], "second line"] * 2
    path = tmp_path / "text.txt"
    text = "\n".join(lines)
    text = "\ufeff" + text if encoding == "utf-32-be" else text
    path.write_bytes(text.encode(encoding))
    assert list(read_lines(path)) == lines
    assert file_encoding(path).is_certain


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\0\ufeff"), min_size=1)


@given(TEXT, st.sampled_from([5, 7, 1 << 20]), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_every_reader_gives_the_same_text(
    tmp_path_factory: pytest.TempPathFactory, text: str, block: int, encoding: str
) -> None:
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_bytes(text.encode(encoding))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_files, "READ_BLOCK_BYTES", block)
        lines = list(read_lines(path, encoding))
        assert lines == text.removesuffix("\n").split("\n")
        assert "".join(read_characters(path, encoding)) == text
        whole = text if text.endswith("\n") else text + "\n"
        blocks = list(read_text_blocks(path, encoding))
        assert "".join(block.text for block in blocks) == whole
        assert b"".join(block.content for block in read_blocks(path, encoding)) == whole.encode()
        assert [block.first_line for block in blocks] == [
            1 + sum(other.text.count("\n") for other in blocks[:number])
            for number in range(len(blocks))
        ]


def test_latin_1_after_megabytes_of_ascii(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", 1 << 10)
    lines = [f"line {number}" for number in range(1000)] + [ARTICLES["fr"]] * 3
    path = tmp_path / "book.txt"
    path.write_bytes("\n".join(lines).encode("latin-1"))
    assert list(read_lines(path)) == lines
    assert file_encoding(path).name == "cp1252"


def test_damaged_utf_8_is_not_another_encoding() -> None:
    damaged = ARTICLES["ru"].encode() + b"\xff" + ARTICLES["fr"].encode()
    assert detect_encoding(damaged).name == "utf-8"
    assert detect_encoding(damaged[:21]).name == "utf-8"  # a character is cut
    assert detect_encoding(b"a\0b\0 plain, with two zero bytes").name == "utf-8"


@pytest.mark.parametrize("block", [64, 1 << 20])
def test_undecodable_bytes_are_located(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(text_files, "READ_BLOCK_BYTES", block)
    path = tmp_path / "a.txt"
    raw = b"first\nsecond\n" + ARTICLES["ja"].encode("euc_jp") + b"\n"
    position = raw.index("権利".encode("euc_jp"))
    path.write_bytes(raw[:position] + b"\xff" + raw[position:])
    with pytest.raises(DataError) as caught:
        list(read_lines(path, "euc_jp"))
    assert f"{path}, line 3: byte {position} of the file (0xff) is not euc_jp; expected" in str(
        caught.value
    )
    path.write_bytes(raw[:position].decode("euc_jp").encode() + b"\xff\n")
    for read in (read_lines, read_blocks, read_text_blocks, read_characters):
        with pytest.raises(DataError) as caught:
            list(read(path, "utf-8"))
        offset = len(raw[:position].decode("euc_jp").encode())
        assert f"{path}, line 3: byte {offset} of the file (0xff) is not UTF-8" in str(caught.value)
        assert "try --set data.encoding=cp1252" in str(caught.value)


def test_given_encodings(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(codecs.BOM_UTF8 + "é\n".encode())
    for name in ("utf-8", "UTF8", "utf-8-sig"):
        assert list(read_lines(path, name)) == ["é"]
    path.write_bytes("é\n".encode("utf-16"))
    assert list(read_lines(path, "utf-16")) == ["é"]
    for name in ("latin9999", "rot13", "zip", "x\0"):
        with pytest.raises(DataError, match="which does not exist; expected a name such as utf-8"):
            list(read_lines(path, name))


def test_carriage_returns_as_line_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\rtwo\r\rfour")
    assert list(read_lines(path)) == ["one", "two", "", "four"]
    path.write_bytes(b"one\rstill one\ntwo\r")
    assert list(read_lines(path)) == ["one\rstill one", "two"]

"""Names, docstrings, comments, messages and docs use established terms: a list of words that confused readers, and what
to write instead."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

THIS_FILE = Path(__file__)
ROOT = THIS_FILE.parent.parent
INSTEAD = {
    r"reckon\w*": "calculate, computed",
    r"tells?|told": "report, return, contain, log",
    r"stands?(?! for\b|-in\b| in\b)|standing": "is, appears on, is located",
    r"anew": "again",
    r"mend(?:s|ed|ing)?": "fix",
    r"fore(?:see|sees|seen|saw)": "preview",
    r"(?<![</])(?<!article )aside": "in a worker thread",
    r"in turns": "round-robin per organisation",
    r"tak(?:e|es|en|ing) in": "upload, ingest",
    r"given up": "deleted, abandoned",
    r"likest|nearest in kind": "most similar",
    r"whoever|somebody|(?<!nothing )(?<!['\"`])nobody(?! uid)": "the caller, a member, an owner, no one",
    r"begun": "started",
    r"heed(?:s|ed|ing)?|meant|fitting|closed up": "the specific term",
    r"spelt|worded": "formatted, phrased",
    r"admit(?:s|ted|ting)?": "approve",
    r"(?<!there )(?:is|are|was|were|be) (?-i:none)": "is not a …, does not exist",
    r"is no other|none of those": "the noun",
    r"in the place of": "overrides, instead of",
    r"not claimed|unclaimed": "unmapped",
    r"four eyes": "second approver",
    r"past the hook": "bypassing the hook",
    r"zeros behind": "trailing zeros",
    r"invoice for machines": "embedded e-invoice",
}
_WORDS = re.compile("|".join(rf"\b(?:{pattern})\b" for pattern in INSTEAD), re.I)
_PARTS_OF_NAME = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SUFFIXES = {".py", ".md", ".sql", ".ts", ".tsx", ".json", ".sh", ".toml", ".html"}


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield line numbers and text: of Python the names, split into words, and the strings and comments."""
    source = path.read_text()
    if path.suffix != ".py":
        yield from enumerate(source.splitlines(), 1)
        return
    literals = {tokenize.STRING, tokenize.COMMENT, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.string != "None":
            yield token.start[0], " ".join(_PARTS_OF_NAME.findall(token.string))
        elif token.type in literals:
            yield token.start[0], token.string.replace("_", " ")


def confusing_words(path: Path) -> list[str]:
    """Return the confusing words of a file, each with its line and what to write instead."""
    found: list[str] = []
    source = path.read_text()
    # Most files have none, and splitting into tokens takes longest.
    if not any(map(_WORDS.search, (source.replace("_", " "), " ".join(_PARTS_OF_NAME.findall(source))))):
        return found
    for line, text in _texts(path):
        for match in _WORDS.finditer(text):
            instead = next(term for pattern, term in INSTEAD.items() if re.fullmatch(pattern, match[0], re.I))
            found.append(f"{path.name}:{line}: {match[0]!r}: {instead}")
    return found


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("def told(): ...", 1),
        ("x = 1  # whoever calls", 1),
        ('"""An id that is none."""', 1),
        ("stand_in = None", 0),
    ],
)
def test_confusing_words_are_found_in_names_comments_and_strings(tmp_path: Path, source: str, words: int) -> None:
    path = tmp_path / "a.py"
    path.write_text(source + "\n")
    assert len(confusing_words(path)) == words


def test_no_file_has_confusing_words() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    files = [path for name in listed.splitlines() if (path := ROOT / name).suffix in _SUFFIXES and path != THIS_FILE]
    assert files and [word for path in files for word in confusing_words(path)] == []

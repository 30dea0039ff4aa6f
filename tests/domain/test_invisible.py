from __future__ import annotations

import pytest

from fieldmark.domain import paths
from fieldmark.domain.invisible import find_invisible
from fieldmark.domain.values import invisible_problem
from fieldmark.errors import InvalidPath
from valuegrounding.folding import fold

INVISIBLE_CHARACTERS = (
    "\u00ad \u061c \u180e \u200b \u200e \u200f \u202a \u202e \u2060 \u2066 \u2069 \ufeff \ufe00 \U000e0041 \U000e0100"
)


@pytest.mark.parametrize("character", INVISIBLE_CHARACTERS.split(), ids=ascii)
def test_invisible_character_is_found_at_any_position(character: str) -> None:
    for text in (character, f"a{character}", f"{character}a", f"1{character}0", f"合{character}計"):
        assert find_invisible(text) and find_invisible(text, key=True)
        for value in (text, [1, text], {"a": {"b": text}}, {"a": {text: 1}}):
            assert invisible_problem(value)
        with pytest.raises(InvalidPath):
            paths.parse(f"a.b{character}")
    # A page with this text is still read.
    assert fold(f"to{character}tal") == "total"


@pytest.mark.parametrize(
    "text",
    ["Müller & Söhne", "合計", "می\u200cخواهم", "क्\u200dष", "👨\u200d👩\u200d👧", "❤\ufe0f", "a\u0301", "1\u00a0250"],
    ids=ascii,
)
def test_visible_text_is_accepted(text: str) -> None:
    assert find_invisible(text) is None and invisible_problem({"a": [text]}) is None


def test_joiner_is_allowed_only_between_letters_that_it_joins() -> None:
    for text in ("to\u200ctal", "1\u200d0", "\u200c", "م\u200d", "合\u200d計"):
        assert find_invisible(text)
    assert find_invisible("م\u200cی", key=True) and not find_invisible("م\u200cی")

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.domain.invisible import find_invisible
from fieldmark.domain.paths import MAX_CHARACTERS, MAX_INDEX, MAX_STEPS, name, parse
from fieldmark.errors import InvalidPath

PARSED = [
    ("total", ("total",)),
    ("vendor.name", ("vendor", "name")),
    ("items[2].price", ("items", 2, "price")),
    (f"items[{MAX_INDEX}]", ("items", MAX_INDEX)),
    ('["a.b"].c', ("a.b", "c")),
    (r'["say \"hi\" \\ ä"].x', ('say "hi" \\ ä', "x")),
    ('["\\ud83d\\ude00"]', ("😀",)),
    ("Größe.单价", ("Größe", "单价")),
    ("line items.unit price", ("line items", "unit price")),
    # A key that looks like an index stays a key.
    ('a["0"]', ("a", "0")),
]

REFUSED_AT = [  # (text, number of the first wrong character; 0 if none is named)
    ("", 0),
    ("a..b", 2),
    ("[0].a", 1),
    ("a[-1]", 2),
    ("a[]", 2),
    ("a[٣]", 2),
    ("a[1000000000]", 2),
    ('a["b', 2),
    ("a[1]b", 5),
    ("a]b", 2),
    (" a", 1),
    ("a.b. c", 4),
    ("a\x00b", 0),
    ("a\ud800", 0),
    ('a["\\ud800"]', 2),
    (r'a["b\u202e"]', 0),
]


@pytest.mark.parametrize(("text", "steps"), PARSED)
def test_path_is_parsed(text: str, steps: tuple[str | int, ...]) -> None:
    assert parse(text) == steps


@pytest.mark.parametrize(("text", "character"), REFUSED_AT)
def test_invalid_path_is_refused_at_its_first_wrong_character(text: str, character: int) -> None:
    with pytest.raises(InvalidPath) as refused:
        parse(text)
    # The message goes into responses and logs, so it must be encodable.
    sentence = str(refused.value).encode().decode()
    assert (f"character {character}:" in sentence) == (character > 0)


def test_steps_and_characters_are_limited() -> None:
    assert len(parse(".".join("a" * MAX_STEPS))) == MAX_STEPS
    with pytest.raises(InvalidPath, match="more than 32 steps"):
        parse(".".join("a" * (MAX_STEPS + 1)))
    assert parse("a" * MAX_CHARACTERS) == ("a" * MAX_CHARACTERS,)
    with pytest.raises(InvalidPath, match="1,001 characters"):
        parse("a" * (MAX_CHARACTERS + 1))


ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=12)
KEY = ANY_TEXT.filter(lambda key: find_invisible(key, key=True) is None) | st.text('.[]"\\ a0\n\x7f', max_size=6)
PATH = st.tuples(KEY, st.lists(KEY | st.integers(0, MAX_INDEX), max_size=8)).map(lambda drawn: (drawn[0], *drawn[1]))


@given(PATH)
def test_canonical_text_parses_to_the_same_path(path: tuple[str | int, ...]) -> None:
    assert parse(name(path)) == path


@given(st.text(max_size=30) | st.text('ab.[]"\\ 019-\n', max_size=12))
def test_any_text_is_refused_or_has_one_canonical_text(text: str) -> None:
    try:
        path = parse(text)
    except InvalidPath:
        return
    canonical = name(path)
    assert parse(canonical) == path
    assert name(parse(canonical)) == canonical

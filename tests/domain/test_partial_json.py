"""JSON that is still being written: the same leaves as when it is whole, each once, as soon as its end is there."""

from __future__ import annotations

import json
import time
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as some

from fieldmark.domain.fields import walk
from fieldmark.domain.partial_json import MAX_CHARACTERS, MOST_LEAVES, MOST_LEVELS, PartialJson

LEAVES = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
VALUES = some.recursive(
    LEAVES | some.text(max_size=20),
    lambda below: some.lists(below, max_size=4) | some.dictionaries(some.text(max_size=6), below, max_size=4),
    max_leaves=20,
)
ARGUMENTS = some.dictionaries(some.text(max_size=6), VALUES, min_size=1, max_size=4)


def read(*pieces: str) -> list:
    parser = PartialJson()
    return [leaf for piece in pieces for leaf in parser.feed(piece)]


def pieces_of(text: str, cuts: list[int]) -> list[str]:
    places = [0, *sorted({cut % (len(text) + 1) for cut in cuts}), len(text)]
    return [text[begin:end] for begin, end in pairwise(places)]


@given(
    ARGUMENTS,
    some.lists(some.integers(min_value=0, max_value=10_000), max_size=12),
    some.booleans(),
    some.sampled_from([None, 1]),
)
@example({'"\\': '\\"\n\0\ud800\U0001f600'}, list(range(60)), True, None)
@example({"a": -1.5e300, "b": [True, None, 12, ""]}, list(range(60)), False, 1)
def test_wherever_it_is_cut_the_leaves_are_those_of_the_whole(value, cuts, in_ascii, indent):
    text = json.dumps(value, ensure_ascii=in_ascii, indent=indent)
    assert read(*pieces_of(text, cuts)) == read(*text) == list(walk(value))


def test_a_leaf_is_told_with_its_last_character_and_a_number_once_something_follows():
    text = '{"a": "x\\u00e9", "n": 12, "l": [1, true], "o": {}, "e": []}'
    parser, ends = PartialJson(), []
    for at, character in enumerate(text):
        ends += [(path, value, text[: at + 1]) for path, value in parser.feed(character)]
    assert [(path, value) for path, value, _ in ends] == list(walk(json.loads(text)))
    assert [text[-2:] for _, _, text in ends] == ['9"', "2,", "1,", "e]", "{}", "[]"]
    assert parser.is_over


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1} {"b": 2}', '{"a": NaN, "b": 1}', '{"a": Infinity}', '{"a": 01}', '{"a": "\\x"}', '{"a": "\n"}',
        '{"a" 1}', '{"a": 1 "b": 2}', '{"a": 1,}', "{1: 2}", '{"a": [1}', "]", ",", '{"a": }', "{,}", '{"a":: 1}',
        '{"a": tru, "b": 1}', '{"a": \'b\'}', '{"a": 1;', "nothing at all",
    ],
)  # fmt: skip
def test_where_it_is_no_json_nothing_more_is_told(text):
    parser = PartialJson()
    told = parser.feed(text)
    assert parser.is_over and [value for _, value in told] in ([], [1])
    assert parser.feed('{"c": 1, "d": 2}') == []


def test_what_is_too_long_is_no_leaf_and_what_follows_it_is_one():
    long = "x" * (MAX_CHARACTERS + 1)
    assert read('{"a": "', *[long[n : n + 100] for n in range(0, len(long), 100)], '", "b": 1}') == [(("b",), 1)]
    assert read(json.dumps({"a": long[1:]})) == [(("a",), long[1:])]
    for hostile in (f'{{"{long}": 1, "b": 1}}', f'{{"a": {"1" * len(long)}'):
        parser = PartialJson()
        assert parser.feed(hostile) == [] and parser.is_over


def test_depth_and_number_are_bounded():
    parser = PartialJson()
    assert parser.feed('{"a":' * (MOST_LEVELS + 1)) == [] and parser.is_over
    assert len(read('{"a": [' + "1," * (MOST_LEAVES * 2))) == MOST_LEAVES


@pytest.mark.parametrize(
    ("begin", "more"), [('{"a": "', "\\\\"), ('{"a": "', "x"), ('{"a": ', " ")], ids=["escapes", "a text", "space"]
)
def test_the_time_grows_with_the_text_and_not_with_its_square(begin, more):
    parser, begun, text = PartialJson(), time.process_time(), begin + more * (1_000_000 // len(more))
    for at in range(0, len(text), 7):
        parser.feed(text[at : at + 7])
    assert time.process_time() - begun < 10, "with the square of the text it would be minutes"
    assert not parser.is_over

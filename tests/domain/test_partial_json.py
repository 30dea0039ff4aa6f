from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fieldmark.domain.partial_json import finished_leaves
from valuegrounding.paths import walk

LEAVES = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False, allow_infinity=False)
TEXTS = some.text(some.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = some.recursive(
    LEAVES | TEXTS,
    lambda below: some.lists(below, max_size=4) | some.dictionaries(TEXTS, below, max_size=4),
    max_leaves=20,
)
ARGUMENTS = some.dictionaries(TEXTS, VALUES, min_size=1, max_size=4)


@given(ARGUMENTS, some.booleans())
def test_truncated_json_has_the_first_leaves_of_the_complete_json(value, in_ascii):
    text, whole = json.dumps(value, ensure_ascii=in_ascii), list(walk(value))
    for end in range(len(text) + 1):
        found = finished_leaves(text[:end])
        assert found == whole[: len(found)]
    assert finished_leaves(text) == whole


@pytest.mark.parametrize("text", ["", "]", "{1: 2}", '{"a" 1}', "nothing at all", "[" * 100_000])
def test_invalid_json_has_no_leaves(text):
    assert finished_leaves(text) == []

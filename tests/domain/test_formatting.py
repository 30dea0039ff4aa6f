"""Texts for people."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from fieldmark.domain.formatting import list_names


@given(st.lists(st.text("abc", min_size=1, max_size=300), min_size=1, max_size=30))
def test_every_name_that_is_not_shown_is_counted(names: list[str]) -> None:
    text = list_names(names, characters=200, most=6)
    shown, _, rest = text.partition(" and ")
    count = int(rest.removesuffix(" more")) if rest else 0
    listed = shown.split(", ")
    assert len(listed) + count == len(names) and len(shown) <= 201
    assert listed == names[: len(listed)] or (len(listed) == 1 and re.fullmatch(re.escape(names[0][:200]) + "…", shown))

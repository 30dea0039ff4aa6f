"""A short run of tests/http_fuzz.py, and random field paths against their documented pattern."""

from __future__ import annotations

import gc
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmark.domain import paths
from fieldmark.errors import InvalidPath
from fieldmark.settings import Settings


@pytest.mark.long
def test_every_answer_matches_the_openapi_description(clone, tmp_path):
    # It imports much: only in the process that needs it. Without the garbage collector: hypothesis has it call Python,
    # and Python 3.11 raises SystemError if that happens while pytest parses a module.
    gc.disable()
    try:
        import http_fuzz
    finally:
        gc.enable()

    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error", warm_spares=0)
    report = http_fuzz.fuzz(settings, count=34, seed=3, deadline=300)
    assert report.sent >= 34, list(report.lines())
    assert not report.faults, "\n".join(report.lines())


PATH_STEPS = st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(0, 10**10)))


@given(st.one_of(st.text(max_size=20), PATH_STEPS.map(paths.name), st.from_regex(paths.PATTERN)))
def test_path_is_accepted_exactly_if_it_matches_the_pattern(text):
    matches_pattern = re.search(paths.PATTERN.removesuffix("$") + r"\Z", text) is not None
    try:
        is_accepted = bool(paths.parse(text))
    except InvalidPath as error:
        is_accepted = "1,000" in str(error)
    assert is_accepted == matches_pattern

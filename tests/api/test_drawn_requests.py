"""A short run of tests/http_fuzz.py: requests drawn from the description, and what it would find."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

import http_fuzz
from fieldmark.domain import paths
from fieldmark.errors import InvalidPath
from fieldmark.settings import Settings


@pytest.mark.long
def test_every_answer_is_as_described(clone, tmp_path):
    settings = Settings(_env_file=None, home=tmp_path, database_url=clone.app_url, log_level="error", warm_spares=0)
    report = http_fuzz.fuzz(settings, wanted=34, seed=3, deadline=300)
    assert report.sent >= 34, list(report.lines())
    assert not report.faults, "\n".join(report.lines())


STEPS = st.lists(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), st.integers(0, 10**10)))


@given(st.one_of(st.text(max_size=20), STEPS.map(paths.name), st.from_regex(paths.PATTERN)))
def test_a_path_is_taken_where_it_is_as_described(text):
    described = re.search(paths.PATTERN.removesuffix("$") + r"\Z", text) is not None
    try:
        taken = bool(paths.parse(text))
    except InvalidPath as refused:
        taken = "1,000" in str(refused)
    assert taken == described

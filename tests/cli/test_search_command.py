"""`fieldmark search`, on documents that this machine has taken in."""

from __future__ import annotations

import json

import pytest
from command import Home

pytestmark = pytest.mark.xdist_group("cli-search")


def test_what_was_taken_in_is_found_by_name_page_and_words(home: Home):
    taken = home.run("extract", home.file("survey.txt", "The roof leaks.\nTotal: 1500.00 EUR"))
    assert taken.code == 0, taken.err
    found = home.run("search", "leaking roofs", "--where", "total > 1000")
    assert (found.code, found.out) == (0, "survey.txt, page 1:  The roof leaks. Total: 1500.00 EUR\n"), found.err
    told = json.loads(home.run("search", "roof", "--json").out)
    assert told["behind"] == 0 and [hit["filename"] for hit in told["hits"]] == ["survey.txt"]
    none = home.run("search", "roof", "--where", "total > 2000")
    assert (none.code, none.out) == (0, "") and "Nothing was found" in none.err
    wrong = home.run("search", "roof", "--where", "total > lots")
    assert wrong.code != 0 and wrong.out == "" and "no value" in wrong.err

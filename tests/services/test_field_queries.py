"""Figures over many documents: the same as a plain reckoning, and what they leave out is said."""

from __future__ import annotations

import random

import pytest

from drawn_shelf import draw_query, draw_shelf
from fieldmark.services import field_queries
from reckoning import reckon, shown
from shelf import put

pytestmark = pytest.mark.anyio


async def test_drawn_questions_are_answered_as_python_reckons(database, make_user, clone):
    draw = random.Random(14)
    scope, other = await make_user(), await make_user()
    shelf = draw_shelf(draw, 150)
    put(clone.owner_url, scope, shelf)
    put(clone.owner_url, other, draw_shelf(random.Random(15), 50))
    for number in range(150):
        query = draw_query(draw, shelf)
        async with database.as_user(scope) as conn:
            answer = await field_queries.query(conn, scope, query)
        told, truth = shown(answer), reckon(shelf, query)
        for part in truth:
            assert told[part] == truth[part], f"question {number}: {query!r}"

"""A short run of tests/view_agreement.py, and a longer one."""

from __future__ import annotations

import pytest

import view_agreement

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("count", [12, pytest.param(100, marks=pytest.mark.full)])
async def test_all_views_agree_on_the_fields_that_a_person_has_to_look_at(serve, clone, count):
    async with serve(with_worker=False) as server:
        report = await view_agreement.compare_views(
            server.http, server.runtime, server.scope, clone.owner_url, count=count, seed=2
        )
    assert not report.faults, "\n".join(report.lines())

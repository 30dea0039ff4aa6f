"""A short run of tests/view_agreement.py."""

from __future__ import annotations

import pytest

import view_agreement

pytestmark = pytest.mark.anyio


async def test_all_views_agree_on_the_fields_that_a_person_has_to_look_at(serve, clone):
    async with serve(with_worker=False) as server:
        report = await view_agreement.compare_views(
            server.http, server.runtime, server.scope, clone.owner_url, count=40, seed=2
        )
    assert not report.faults, "\n".join(report.lines())

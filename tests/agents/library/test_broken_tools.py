"""The library agent where the database does not do what its tools need: the model sees a fault, and the run ends."""

from __future__ import annotations

import psycopg
import pytest

from agents.library.test_asking import INTENT, READ, SURVEY, ask, cite, codes, indexed, submit
from desk import sql
from fieldmark.offline_model.messages import call, text
from fieldmark.testing.script import Script, endless, http_error

pytestmark = pytest.mark.anyio

SEARCH = call("search_documents", {"query": "roof"})


def breaking(clone, step):
    """A step of the model before which search loses a table."""

    def breaks(body):
        sql(clone.owner_url, "alter table if exists private.search_orgs rename to search_orgs_gone")
        return step

    return breaks


async def test_a_tool_that_fails_is_a_fault_that_the_model_sees_and_the_run_goes_on(serve, clone):
    steps = [[INTENT], breaking(clone, [SEARCH]), [READ], cite(1, "The roof leaks"), [submit("It leaks [1].")]]
    async with serve(Script(steps)) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        result = await ask(served.http)
        assert result["result"]["fallback"] is None and result["result"]["sources"], result
        assert "internal" in codes(served)


async def test_where_search_fails_too_the_run_still_ends(serve, clone):
    script = Script([[INTENT], endless(breaking(clone, [text("I cannot say.")]))])
    async with serve(script) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        result = await ask(served.http)
        assert result["status"] == "completed", result
        told = result["result"]
        assert told["fallback"]["code"] == "agent_stopped" and told["sources"] == []
        assert len(served.model.requests) == 2  # nobody begins anew


async def test_where_search_takes_too_long_the_run_still_ends(serve, clone):
    with psycopg.connect(clone.owner_url) as held:

        def hold(body):
            held.execute("lock table private.search_orgs in access exclusive mode")
            return [text("I cannot say.")]

        async with serve(Script([[INTENT], hold]), tool_seconds=1) as served:
            await served.document(SURVEY, "survey.txt")
            await indexed(served)
            result = await ask(served.http)
            held.rollback()
            assert result["status"] == "completed", result
            assert result["result"]["fallback"]["code"] == "agent_stopped" and result["result"]["sources"] == []


@pytest.mark.long
async def test_a_service_that_stays_busy_is_not_waited_for_for_ever(serve):
    async with serve(Script([[INTENT], *[http_error(429, 0.1)] * 9])) as served:
        await served.document(SURVEY, "survey.txt")
        await indexed(served)
        told = (await ask(served.http))["result"]
        assert told["fallback"]["code"] == "model_busy" and told["confidence"] == 0
        assert "roof leaks" in told["sources"][0]["quote"]

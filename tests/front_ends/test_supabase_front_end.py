"""docs/supabase.md: its blocks run in order, beside a service on the same database."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest

from extraction_case import until
from fieldmark.agents.registry import answer_offline
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, SECRET_KEY, supabase_project

PAGE = Path(__file__).parents[2] / "docs" / "supabase.md"

pytestmark = pytest.mark.anyio


def blocks() -> list[Any]:
    """Return the page's Python blocks, compiled so that a traceback shows the page's lines."""
    text = PAGE.read_text("utf-8")
    found = []
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        code = "\n" * (text.count("\n", 0, block.start()) + 1) + block[1]
        found.append(compile(code, PAGE, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT))
    return found


async def test_blocks_of_the_supabase_page_run_in_order(serve, clone):
    async def is_idle() -> bool:
        """Return whether the service has nothing left to do: then a reader of the page goes on to the next block."""
        async with await psycopg.AsyncConnection.connect(clone.owner_url) as connection:
            query = """select not exists (select from documents where status = 'reading') and not exists (
                         select from runs where status not in ('completed', 'failed', 'cancelled'))"""
            return (await (await connection.execute(query)).fetchone() or [False])[0]

    async with (
        supabase_project(clone) as project,
        serve(answer_offline, supabase_url=project.url, supabase_secret_key=SECRET_KEY),
    ):
        shown: list[dict[str, Any]] = []
        names: dict[str, Any] = {"URL": project.url, "PUBLISHABLE_KEY": PUBLISHABLE_KEY, "PASSWORD": PASSWORD}
        names["print"] = shown.append
        for block in blocks():
            if inspect.iscoroutine(result := eval(block, names)):
                await result
            await until(is_idle, every=0.1)
        supabase = names["supabase"]
        extraction = await supabase.table("extractions").select("locks").eq("id", names["extraction"]).execute()
        started = [names["filling"], names["turn"], names["question"]["id"]]
        ended = (await supabase.table("runs").select("status").in_("id", started).execute()).data
        await supabase.realtime.close()
    assert names["signed_in"].user.email == EMAIL
    assert [event["type"] for event in shown][:: len(shown) - 1] == ["run", "complete"]
    assert [event["body"] for event in names["events"]] == shown
    assert ended == [{"status": "completed"}] * 3
    assert names["total"] == (10.0, 1)
    assert list(extraction.data[0]["locks"]) == ["vendor.name"]
    assert [change["path"] for change in names["result"]["changed"]] == ["vendor.name"]
    assert names["journal"][-1]["version"] == names["result"]["version"]
    assert names["code"] == "PT404"

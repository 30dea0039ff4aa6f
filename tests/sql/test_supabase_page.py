"""docs/supabase.md, run as it stands: its blocks, against the real policies, functions and workers."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from rest_imitation import PASSWORD, PUBLISHABLE_KEY, Project, project
from supabase import PostgrestAPIError, StorageException, acreate_client

from desk import sql, until
from standing import Clone

pytestmark = pytest.mark.anyio

PAGE = (Path(__file__).parents[2] / "docs/supabase.md").read_text("utf-8")
FUNCTIONS = (Path(__file__).parents[2] / "docs/functions.md").read_text("utf-8")
ANN = UUID("00000000-0000-4000-8000-00000000000a")
EVE = UUID("00000000-0000-4000-8000-00000000000e")


def section(heading: str) -> str:
    return PAGE.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def blocks(heading: str) -> list[str]:
    """The code under a heading, in its order."""
    return re.findall(r"^```python\n(.*?)^```", section(heading), re.DOTALL | re.MULTILINE)


class Reader:
    """Somebody who pastes one block after the other."""

    def __init__(self, supabase: Project) -> None:
        self.names: dict[str, Any] = {"URL": supabase.url, "PUBLISHABLE_KEY": PUBLISHABLE_KEY, "PASSWORD": PASSWORD}

    async def pastes(self, heading: str, *, first: int = 0, last: int | None = None) -> dict[str, Any]:
        for block in blocks(heading)[first:last]:
            code = compile(block, "docs/supabase.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            if inspect.isawaitable(done := eval(code, self.names)):
                await done
        return self.names


@pytest.fixture
async def served(serve) -> AsyncIterator[Any]:
    async with serve() as served:
        yield served


@pytest.fixture
async def supabase(served, clone: Clone) -> AsyncIterator[Project]:
    for user, email in ((ANN, "ann@example.org"), (EVE, "eve@example.org")):
        sql(clone.owner_url, "insert into auth.users (id, email) values (%s, %s)", user, email)
    with project(clone.owner_url, served.service.files.root) as state:
        state.users = {"ann@example.org": ANN, "eve@example.org": EVE}
        yield state


async def test_the_page_from_its_first_block_to_its_last(supabase: Project, clone: Clone):
    def row(query: str, *values: object) -> dict[str, Any]:
        (one,) = sql(clone.owner_url, query, *values)
        return one

    reader = Reader(supabase)
    names = await reader.pastes("Sign in, and find an organisation", last=1)
    personal = row("select id from public.organisations where personal_of = %s", ANN)
    assert names["org"] == str(personal["id"])
    await reader.pastes("Sign in, and find an organisation", first=1)
    assert row("select approvers from public.organisations where id = %s", names["team"]) == {"approvers": "owners"}
    assert names["invited"]["token"].startswith("fmi_")

    await reader.pastes("Upload")
    status = "select status from public.documents where id = %s"
    await until(lambda: row(status, names["document"])["status"] == "ready")

    await reader.pastes("Run the agent")
    status = "select status from public.runs where id = %s"
    await until(lambda: row(status, names["run"]["id"])["status"] == "completed")

    await reader.pastes("Follow it")
    types = [event["body"]["type"] for event in names["events"]]
    assert types[0] == "run" and types[-1] == "complete"
    published = "select tablename from pg_publication_tables where pubname = 'supabase_realtime'"
    named = section("Follow it").split("Realtime publishes")[1].split(".")[0]
    assert {one["tablename"] for one in sql(clone.owner_url, published)} == set(re.findall(r"`(\w+)`", named))

    await reader.pastes("Read and change the fields")
    assert names["total"] == (10.0, 1)
    assert names["told"]["changed"][0]["path"] == "vendor.name"
    assert names["journal"][-1]["actor"] == "user"
    locked = row("select locks from public.extractions where id = %s", names["extraction"])
    assert list(locked["locks"]) == ["vendor.name"]

    await reader.pastes("When it is refused")
    assert names["code"] == "PT404" and names["sentence"]


async def test_somebody_else_with_the_same_page_reaches_nothing_of_it(supabase: Project, clone: Clone):
    names = await Reader(supabase).pastes("Sign in, and find an organisation")
    for heading in ("Upload", "Run the agent"):
        reader = Reader(supabase)
        reader.names |= names
        names = await reader.pastes(heading)
    eve = await acreate_client(supabase.url, PUBLISHABLE_KEY)
    for sign_in in (False, True):
        if sign_in:
            await eve.auth.sign_in_with_password({"email": "eve@example.org", "password": PASSWORD})
            for table in ("documents", "extractions", "runs", "run_events", "memberships"):
                assert (await eve.table(table).select("*").eq("org_id", names["org"]).execute()).data == []
        document = str(uuid4())
        path = f"{names['org']}/{document}/a.txt"
        with pytest.raises(StorageException):
            await eve.storage.from_("documents").upload(path, b"x", {"content-type": "text/plain"})
        mine = {"id": document, "org_id": names["org"], "filename": "a.txt", "storage_path": path}
        with pytest.raises(PostgrestAPIError) as refused:
            await eve.table("documents").insert(mine).execute()
        assert refused.value.code == "42501"
        task = {"agent": "extraction", "task": "extract", "document_id": names["document"]}
        with pytest.raises(PostgrestAPIError) as refused:
            await (
                eve.table("runs")
                .insert({"org_id": names["org"], **task, "extraction_id": names["extraction"]})
                .execute()
            )
        assert refused.value.code == "42501"
        change = {"p_extraction_id": names["extraction"], "p_field_path": ["total"], "p_value": 1}
        with pytest.raises(PostgrestAPIError) as refused:
            await eve.rpc("update_extraction_field", change).execute()
        assert refused.value.code == ("PT404" if sign_in else "42501")
    assert sql(clone.owner_url, "select count(*) as all from public.documents") == [{"all": 1}]


def test_every_function_of_a_front_end_is_listed_with_its_arguments(migrated: str, doors):
    with doors.as_owner() as connection:
        found = connection.execute(
            """select p.proname, coalesce((
                 select array_agg(
                   a.name || case when n > p.pronargs - p.pronargdefaults then '?' else '' end order by n)
                 from unnest(p.proargnames[1:p.pronargs]) with ordinality as a (name, n)), '{}')
               from pg_proc as p
               where p.pronamespace = 'public'::regnamespace
                 and has_function_privilege('authenticated', p.oid, 'execute')"""
        ).fetchall()
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", FUNCTIONS, re.MULTILINE)
    listed = {name: re.findall(r"`(p_\w+\??)`", arguments) for name, arguments in rows}
    assert listed == dict(found)
    with pytest.raises(psycopg.errors.InsufficientPrivilege), doors.as_front_end(None, "anon") as nobody:
        nobody.execute("select public.enter()")

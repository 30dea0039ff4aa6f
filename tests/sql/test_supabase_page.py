"""A Supabase front end: its statements run as PostgREST would run them, and docs/supabase.md names what exists."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb
from role_connections import Roles, set_role

from extraction_case import until
from running_server import Clone

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "supabase.md").read_text("utf-8")
USER = UUID("00000000-0000-4000-8000-00000000000a")


@contextmanager
def as_user(clone: Clone) -> Iterator[psycopg.Connection[dict[str, Any]]]:
    """Run one committed request as a signed-in user."""
    with psycopg.connect(clone.owner_url, row_factory=dict_row) as rest:
        rest.execute("set session authorization authenticator")
        set_role(rest, "authenticated", {"role": "authenticated", "sub": str(USER)})
        yield rest


@pytest.mark.anyio
async def test_front_end_uploads_runs_follows_and_corrects_through_postgrest(serve: Any, clone: Clone) -> None:
    def execute(query: str, values: dict[str, Any]) -> dict[str, Any]:
        with as_user(clone) as rest:
            (row,) = rest.execute(query.encode(), values).fetchall()
            return row

    async def ask(query: str, **values: Any) -> dict[str, Any]:
        # In a thread: the worker in this process may hold the lock that a statement waits for.
        return await asyncio.to_thread(execute, query, values)

    def has_status(table: str, id: UUID, status: str) -> Any:
        async def is_reached() -> bool:
            return (await ask(f"select status from {table} where id = %(id)s", id=id))["status"] == status

        return is_reached

    async with serve() as server:
        org = (await ask("select ensure_personal_organisation() as id"))["id"]
        document, extraction, run = uuid4(), uuid4(), uuid4()
        path = f"{org}/{document}/invoice.txt"
        await ask(
            "insert into storage.objects (bucket_id, name) values ('documents', %(path)s) returning id", path=path
        )
        file = server.runtime.files.root / path
        for folder in reversed(file.relative_to(server.runtime.files.root).parents):
            (server.runtime.files.root / folder).mkdir(mode=0o700, exist_ok=True)
        file.write_bytes(b"Invoice number: 4711\nTotal: 10.00 EUR\n")
        given = {"org": org, "document": document, "extraction": extraction, "run": run, "path": path}
        await ask(
            "insert into documents (id, org_id, filename, storage_path) "
            "values (%(document)s, %(org)s, 'invoice.txt', %(path)s) returning id",
            **given,
        )
        await until(has_status("documents", document, "ready"))
        await ask(
            "insert into extractions (id, org_id, document_id) values (%(extraction)s, %(org)s, %(document)s) "
            "returning id",
            **given,
        )
        await ask(
            "insert into runs (id, org_id, agent, task, document_id, extraction_id) "
            "values (%(run)s, %(org)s, 'extraction', 'extract', %(document)s, %(extraction)s) returning id",
            **given,
        )
        await until(has_status("runs", run, "completed"))
        events = (await ask("select array_agg(body ->> 'type' order by number) as types from run_events"))["types"]
        assert events[0] == "run" and events[-1] == "complete"
        found = await ask("select extracted_fields, evidence from extractions where id = %(id)s", id=extraction)
        assert found["extracted_fields"]["total"] == 10.0 and found["evidence"]["total"]["page"] == 1
        await ask(
            "select update_extraction_field(%(id)s, '{vendor,name}', %(value)s)", id=extraction, value=Jsonb("Acme")
        )
        assert list((await ask("select locks from extractions where id = %(id)s", id=extraction))["locks"]) == [
            "vendor.name"
        ]


def test_supabase_page_names_existing_tables_and_functions(roles: Roles) -> None:
    known = public_functions(roles)
    tables = {table for (table,) in roles.owner.execute("select relname from pg_class where relkind in ('r', 'v')")}
    code = "".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))
    assert set(re.findall(r'\.table\("(\w+)"', code)) <= tables
    called = set(re.findall(r'\.rpc\("(\w+)"', code))
    assert called <= known.keys()
    arguments = {name.rstrip("?") for function in called for name in known[function]}
    assert set(re.findall(r'"(p_\w+)"', code)) <= arguments
    published = roles.owner.execute("select tablename from pg_publication_tables where pubname = 'supabase_realtime'")
    listed = re.findall(r"`(\w+)`", PAGE.split("Realtime publishes")[1].split(".")[0])
    assert {name for (name,) in published.fetchall()} == set(listed)


def public_functions(roles: Roles) -> dict[str, list[str]]:
    """Return the arguments of each public function, with `?` after optional ones."""
    with roles.as_owner() as connection:
        rows = connection.execute(
            """select p.proname, coalesce((
                 select array_agg(
                   a.name || case when n > p.pronargs - p.pronargdefaults then '?' else '' end order by n)
                 from unnest(p.proargnames[1:p.pronargs]) with ordinality as a (name, n)), '{}')
               from pg_proc as p
               where p.pronamespace = 'public'::regnamespace
                 and has_function_privilege('authenticated', p.oid, 'execute')"""
        )
        return dict(rows.fetchall())


def test_docs_list_every_public_function_with_arguments(roles: Roles) -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]*)\|", (DOCS / "supabase.md").read_text("utf-8"), re.MULTILINE)
    assert {name: re.findall(r"`(p_\w+\??)`", arguments) for name, arguments in rows} == public_functions(roles)

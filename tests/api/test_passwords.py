"""Password-protected files: passwords are used once and never stored."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import psycopg
import pytest
from answers import assert_problem
from psycopg import sql

from encrypted_files import NEW_PDF, PASSWORD, TEXT

pytestmark = pytest.mark.anyio


def dump_database(clone) -> str:
    with psycopg.connect(clone.owner_url) as conn:
        tables = conn.execute(
            "select relnamespace::regnamespace::text, relname from pg_class where relkind = 'r' "
            "and relnamespace::regnamespace::text not in ('pg_catalog', 'information_schema')"
        ).fetchall()
        found = [
            conn.execute(sql.SQL("select t::text from {} as t").format(sql.Identifier(schema, table))).fetchall()
            for schema, table in tables
        ]
    text = repr(found)
    assert "locked.pdf" in text  # the dump is not empty
    return text


def stored_bytes(home: Path) -> bytes:
    return b"".join(path.read_bytes() for path in (home / "files").rglob("*") if path.is_file())


async def test_password_of_an_upload_opens_the_file_and_is_not_stored(serve, clone, capfd):
    async with serve() as server:
        http, home = server.http, server.runtime.settings.home
        sent = {"files": {"file": ("locked.pdf", NEW_PDF)}, "data": {"password": PASSWORD}}
        document_id = await server.wait_until_read(UUID((await http.post("/api/documents", **sent)).json()["id"]))
        at = f"/api/documents/{document_id}"
        found = (await http.get(at)).json()
        assert (found["status"], found["byte_size"], found["media_type"]) == ("ready", len(NEW_PDF), "application/pdf")
        assert TEXT in (await http.get(f"{at}/text")).text
        assert (await http.get(f"{at}/pages/1.png")).content.startswith(b"\x89PNG")
        original, copy = sorted((path for path in (home / "files").rglob("*locked*")), key=lambda path: path.name)
        assert original.read_bytes() == NEW_PDF and copy.name.startswith("unlocked-")
        assert PASSWORD not in dump_database(clone) and PASSWORD.encode() not in stored_bytes(home)
        output = capfd.readouterr()
        assert PASSWORD not in output.out + output.err
        assert (await http.delete(at)).status_code == 204
        await server.runtime.documents.delete_originals()
        assert stored_bytes(home) == b""


async def test_password_may_be_sent_later_and_a_wrong_one_changes_nothing(serve, clone, capfd):
    async with serve() as server:
        http, home = server.http, server.runtime.settings.home
        sent = {"files": {"file": ("locked.pdf", NEW_PDF)}, "data": {"password": "not-this-one"}}
        document_id = await server.wait_until_read(UUID((await http.post("/api/documents", **sent)).json()["id"]))
        at = f"/api/documents/{document_id}"
        failed = (await http.get(at)).json()
        assert (failed["status"], failed["error_code"]) == ("failed", "password")
        assert_problem(await http.post(f"{at}/read", json={"password": "nor-this-one"}), 422, "password")
        assert (await http.get(at)).json() == failed
        for body in ({"password": ""}, {"password": "x" * 251}):
            assert_problem(await http.post(f"{at}/read", json=body), 422)
        async with server.client() as stranger:
            assert_problem(await stranger.post(f"{at}/read", json={"password": PASSWORD}), 404)
        answer = await http.post(f"{at}/read", json={"password": PASSWORD})
        assert (answer.status_code, answer.json()["error_code"]) == (202, None)
        await server.wait_until_read(document_id)
        assert (await http.get(at)).json()["status"] == "ready"
        assert TEXT in (await http.get(f"{at}/text")).text
        assert_problem(await http.post(f"{at}/read", json={"password": PASSWORD}), 409)
        captured = capfd.readouterr()
        output = dump_database(clone) + captured.out + captured.err + repr(stored_bytes(home))
        for word in (PASSWORD, "not-this-one", "nor-this-one"):
            assert word not in output


async def test_unlocked_copy_is_registered_for_deletion_before_it_is_stored(serve, clone):
    async with serve() as server:
        sent = {"files": {"file": ("locked.pdf", NEW_PDF)}}
        document_id = await server.wait_until_read(
            UUID((await server.http.post("/api/documents", **sent)).json()["id"])
        )
        with psycopg.connect(clone.owner_url, autocommit=True) as conn:
            conn.execute("delete from private.files_to_delete")
            answer = await server.http.post(f"/api/documents/{document_id}/read", json={"password": PASSWORD})
            assert answer.status_code == 202
            expected = conn.execute("select storage_path from private.files_to_delete").fetchall()
            copy = conn.execute("select unlocked_path from public.documents where id = %s", [document_id]).fetchall()
        assert expected == copy != [(None,)]

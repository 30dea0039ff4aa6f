"""What a Supabase client gets: its own organisation's rows, files and events, and PostgREST's errors for the rest."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest
from supabase import AsyncClient, AsyncClientOptions, PostgrestAPIError, StorageException, acreate_client

from extraction_case import until
from supabase_stand_in import EMAIL, PASSWORD, PUBLISHABLE_KEY, SECRET_KEY, Project, supabase_project

STRANGER = "bob@example.org"

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def signed_in(project: Project, email: str) -> AsyncIterator[AsyncClient]:
    client = await acreate_client(project.url, PUBLISHABLE_KEY, AsyncClientOptions(auto_refresh_token=False))
    await client.auth.sign_in_with_password({"email": email, "password": PASSWORD})
    try:
        yield client
    finally:
        await client.realtime.close()


async def add_document(client: AsyncClient) -> tuple[str, str]:
    """Upload a file and insert its row. Return the document's id and the file's path."""
    org = (await client.rpc("ensure_personal_organisation").execute()).data
    document = str(uuid4())
    path = f"{org}/{document}/a.txt"
    await client.storage.from_("documents").upload(path, b"Total: 1")
    row = {"id": document, "org_id": org, "filename": "a.txt", "storage_path": path}
    await client.table("documents").insert(row).execute()
    return document, path


async def code_of(request: Any) -> str | None:
    with pytest.raises(PostgrestAPIError) as refused:
        await request.execute()
    return refused.value.code


async def test_member_gets_rows_files_and_events_and_stranger_gets_none(clone):
    received: dict[str, list[str]] = {EMAIL: [], STRANGER: []}
    async with (
        supabase_project(clone) as project,
        signed_in(project, EMAIL) as member,
        signed_in(project, STRANGER) as stranger,
    ):
        await stranger.rpc("ensure_personal_organisation").execute()
        for email, client in ((EMAIL, member), (STRANGER, stranger)):
            ids = received[email]
            channel = client.channel("documents")
            channel.on_postgres_changes(
                "INSERT", lambda change, ids=ids: ids.append(change["data"]["record"]["id"]), table="documents"
            )
            await channel.subscribe()
        document, path = await add_document(member)
        own, _ = await add_document(stranger)  # its event comes after the member's
        await until(lambda: received[STRANGER] and received[EMAIL])
        assert received == {EMAIL: [document], STRANGER: [own]}

        for client, ids in ((member, [document]), (stranger, [])):
            rows = await client.table("documents").select("id").eq("id", document).execute()
            assert [row["id"] for row in rows.data] == ids
        files, foreign_files = member.storage.from_("documents"), stranger.storage.from_("documents")
        assert await files.download(path) == b"Total: 1"
        link = (await files.create_signed_url(path, 60))["signedURL"]
        async with httpx.AsyncClient() as http:
            assert (await http.get(link)).content == b"Total: 1"
        with pytest.raises(StorageException):
            await foreign_files.download(path)
        with pytest.raises(StorageException):
            await foreign_files.upload(path.replace("a.txt", "b.txt"), b"Total: 2")
        # Only the service removes files. (Supabase answers that none was removed.)
        with suppress(StorageException):
            assert await files.remove([path]) == []
        assert await files.download(path) == b"Total: 1"
        row = {"org_id": path.split("/")[0], "filename": "b.txt", "storage_path": f"{path}.b"}
        assert await code_of(stranger.table("documents").insert(row)) == "42501"


async def test_keys_and_tokens_are_checked_as_by_a_supabase_project(clone):
    async with supabase_project(clone) as project:
        token = project.auth.session()["access_token"]
        project.auth.token_seconds = -1
        expired = project.auth.session()["access_token"]
        rows = f"{project.url}/rest/v1/documents?select=id"
        async with httpx.AsyncClient() as http:
            for key, bearer, status in (
                (PUBLISHABLE_KEY, token, 200),
                (SECRET_KEY, SECRET_KEY, 200),
                (PUBLISHABLE_KEY, PUBLISHABLE_KEY, 401),  # the role `anon`, which has no rights
                (PUBLISHABLE_KEY, expired, 401),
                (PUBLISHABLE_KEY, SECRET_KEY, 401),  # a key is no token
                ("sb_publishable_of_another_project", token, 401),
                ("", token, 401),
            ):
                answer = await http.get(rows, headers={"apikey": key, "Authorization": f"Bearer {bearer}"})
                assert answer.status_code == status, (key, bearer, answer.text)


async def test_client_reads_embedded_rows_and_gets_codes_of_errors(clone):
    async with supabase_project(clone) as project, signed_in(project, EMAIL) as client:
        document, _ = await add_document(client)
        org = (await client.rpc("ensure_personal_organisation").execute()).data
        extraction = {"org_id": org, "document_id": document}
        (made,) = (await client.table("extractions").insert(extraction).execute()).data
        select = "id, total:extracted_fields->total, documents(filename, extractions(id))"
        fields = {"total": 12, "note": "paid"}
        save = {"p_extraction_id": made["id"], "p_fields": fields}
        await client.rpc("save_extraction_fields", save).execute()
        row = (await client.table("extractions").select(select).eq("id", made["id"]).single().execute()).data
        assert row == {
            "id": made["id"],
            "total": 12,
            "documents": {"filename": "a.txt", "extractions": [{"id": made["id"]}]},
        }
        # JSON null reaches the function as NULL.
        change = {"p_extraction_id": made["id"], "p_field_path": ["note"], "p_value": None}
        await client.rpc("update_extraction_field", change).execute()
        row = (await client.table("extractions").select("extracted_fields").single().execute()).data
        assert row["extracted_fields"] == {"total": 12, "note": None}

        documents = client.table("documents")
        assert await code_of(documents.select("id").eq("id", str(uuid4())).single()) == "PGRST116"
        assert await code_of(documents.select("nothing")) == "42703"
        assert await code_of(documents.insert({"nothing": 1})) == "PGRST204"
        assert await code_of(client.table("nothing").select("*")) == "PGRST205"
        assert await code_of(client.rpc("delete_document", {"p_nothing": 1})) == "PGRST202"
        assert await code_of(client.rpc("delete_document", {"p_document_id": str(uuid4())})) == "PT404"

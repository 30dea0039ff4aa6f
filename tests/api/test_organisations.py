"""Organisations, their members and roles, and invitations."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from typing import Any
from uuid import uuid4

import httpx
import pytest
from answers import assert_problem, execute_as_owner
from members import create_invitation, create_org, new_member

from extraction_case import until
from fieldmark.stores import retention

pytestmark = pytest.mark.anyio


async def get_roles(http: httpx.AsyncClient, org: str) -> dict[str, str]:
    members = (await http.get(f"/api/organisations/{org}/members")).json()["items"]
    return {one["user_id"]: one["role"] for one in members}


async def test_organisation_from_creation_to_deletion(serve):
    async with serve() as server:
        http = server.http
        me = (await http.get("/api/me")).json()
        assert me["user_id"] == str(server.scope.user_id) and me["key"] is None
        (personal,) = me["organisations"]
        assert (personal["id"], personal["role"], personal["is_personal"]) == (str(server.scope.org_id), "owner", True)
        org = await create_org(http)
        url = f"/api/organisations/{org}"
        assert (await http.get(url)).json()["name"] == "Acme"
        changed = await http.patch(url, json={"name": "Acme 2", "approvers": "owners", "second_person": True})
        assert (changed.json()["name"], changed.json()["approvers"], changed.json()["second_person"]) == (
            "Acme 2",
            "owners",
            True,
        )
        assert (await http.patch(url, json={})).json() == changed.json()
        # Each change is recorded in the journal, also if it is reverted.
        await http.patch(url, json={"second_person": False})
        journal = (await http.get(f"{url}/settings_journal", params={"limit": 2})).json()
        assert [(one["setting"], one["old"], one["new"], one["created_by"]) for one in journal["items"]][:1] == [
            ("second_person", True, False, me["user_id"])
        ]
        rest = (await http.get(f"{url}/settings_journal", params={"before": journal["next"]})).json()
        assert {one["setting"] for one in [*journal["items"], *rest["items"]]} == {"name", "approvers", "second_person"}
        first = (await http.get("/api/organisations", params={"limit": 1})).json()
        second = (await http.get("/api/organisations", params={"limit": 1, "before": first["next"]})).json()
        assert [first["items"][0]["id"], second["items"][0]["id"]] == [org, personal["id"]]
        assert second["next"] is None
        assert_problem(await http.get("/api/keys", params={"before": first["next"]}), 422)  # a cursor of another list
        # Other users see none of it.
        async with server.client() as stranger:
            for method, path in (("GET", ""), ("GET", "/members"), ("GET", "/invitations"), ("DELETE", "")):
                assert_problem(await stranger.request(method, url + path), 404)
            assert_problem(await stranger.patch(url, json={"name": "Mine"}), 404)
            assert_problem(await stranger.post(url + "/leave"), 404)
        assert (await http.delete(url)).status_code == 204
        assert_problem(await http.get(url), 404)
        assert_problem(await http.delete(url), 404)
        for body in ({"name": ""}, {"name": "x", "personal_of": str(uuid4())}):
            assert_problem(await http.post("/api/organisations", json=body), 422)


async def test_roles_limit_what_members_may_change(serve):
    async with serve() as server:
        org = await create_org(server.http)
        url = f"/api/organisations/{org}"
        async with (
            new_member(server, org, "member") as (member, member_id),
            new_member(server, org, "viewer") as (viewer, viewer_id),
        ):
            assert await get_roles(viewer, org) == {
                str(server.scope.user_id): "owner",
                str(member_id): "member",
                str(viewer_id): "viewer",
            }
            # A member changes neither roles nor the organisation. (Viewers: test_every_operation.py.)
            assert_problem(await member.patch(url, json={"name": "Mine"}), 403, "owner_needed")
            assert_problem(
                await member.patch(f"{url}/members/{member_id}", json={"role": "owner"}), 403, "owner_needed"
            )
            assert_problem(await member.post(f"{url}/invitations", json={}), 403, "owner_needed")
            assert_problem(await member.delete(url), 403, "owner_needed")
            # A role change applies to the next request.
            assert (await viewer.post("/api/documents", files={"file": ("a.txt", b"x")})).status_code == 403
            assert (await server.http.patch(f"{url}/members/{viewer_id}", json={"role": "member"})).status_code == 200
            assert (await viewer.post("/api/documents", files={"file": ("a.txt", b"x")})).status_code == 201
            assert (await server.http.delete(f"{url}/members/{viewer_id}")).status_code == 204
            assert_problem(await viewer.get("/api/documents"), 404)
            assert_problem(await server.http.delete(f"{url}/members/{viewer_id}"), 404)
            assert_problem(await server.http.patch(f"{url}/members/{viewer_id}", json={"role": "member"}), 404)
            assert_problem(await server.http.patch(f"{url}/members/{member_id}", json={"role": "king"}), 422)
            # The last owner stays.
            mine = f"{url}/members/{server.scope.user_id}"
            assert_problem(await server.http.patch(mine, json={"role": "viewer"}), 409, "last_owner")
            assert_problem(await server.http.delete(mine), 409, "last_owner")
            assert_problem(await server.http.post(f"{url}/leave"), 409, "last_owner")
            assert (await server.http.patch(f"{url}/members/{member_id}", json={"role": "owner"})).status_code == 200
            assert (await server.http.post(f"{url}/leave")).status_code == 204
            assert await get_roles(member, org) == {str(member_id): "owner"}
        personal = f"/api/organisations/{server.scope.org_id}"
        assert_problem(await server.http.post(f"{personal}/leave"), 409)
        assert_problem(
            await server.http.patch(f"{personal}/members/{server.scope.user_id}", json={"role": "viewer"}), 409
        )


async def test_invitation_is_accepted_once(serve, clone):
    async with serve() as server:
        org = await create_org(server.http)
        url = f"/api/organisations/{org}/invitations"
        invitation = await create_invitation(server.http, org, role="viewer")
        assert invitation["token"].startswith("fmi_") and len(invitation["token"]) == 68
        for body in ({"role": "king"}, {"email": "not-an-address"}, {"days": 91}):
            assert_problem(await server.http.post(url, json=body), 422)
        listed = (await server.http.get(url)).text
        assert invitation["id"] in listed and invitation["token"] not in listed

        async def accept(http: httpx.AsyncClient, token: str = invitation["token"]) -> httpx.Response:
            return await http.post("/api/invitations/accept", json={"token": token})

        assert_problem(await accept(server.http), 409, "already_member")
        async with server.client() as first, server.client() as second:
            assert_problem(await accept(first, "fmi_" + "0" * 64), 404)
            assert_problem(await accept(first, ""), 422)
            # An invited user is not a member yet.
            assert_problem(await first.get(f"/api/organisations/{org}"), 404)
            # Of two concurrent requests one succeeds.
            answers = await asyncio.gather(accept(first), accept(second))
            assert sorted(answer.status_code for answer in answers) == [200, 409]
            for http in (first, second):
                assert_problem(await accept(http), 409, "invitation_used")
            assert len(await get_roles(server.http, org)) == 2
            assert_problem(await server.http.delete(f"{url}/{invitation['id']}"), 409, "invitation_used")

            revoked = await create_invitation(server.http, org)
            assert (await server.http.delete(f"{url}/{revoked['id']}")).status_code == 204
            assert (await server.http.delete(f"{url}/{revoked['id']}")).status_code == 204  # again
            expired = await create_invitation(server.http, org, days=1)
            query = "update public.invitations set expires_at = now() where id = %s"
            await execute_as_owner(clone, query, expired["id"])
            listed = (await server.http.get(url)).json()["items"]
            assert [one["id"] for one in listed if one["is_expired"]] == [expired["id"]]
            async with server.client() as third:
                assert_problem(await accept(third, revoked["token"]), 410, "invitation_revoked")
                assert_problem(await accept(third, expired["token"]), 410, "invitation_expired")
                last = await create_invitation(server.http, org)
                await server.http.delete(f"/api/organisations/{org}")
                assert_problem(await accept(third, last["token"]), 410, "invitation_revoked")
                assert [one["is_personal"] for one in (await third.get("/api/me")).json()["organisations"]] == [True]


async def test_invitation_for_an_email_address_needs_a_token_with_it(serve):
    async with serve() as server:
        org = await create_org(server.http)
        invitation = await create_invitation(server.http, org, email="Anna@Example.org")
        look_alike = "anna@example.org".replace("e", "\u0435")
        for email in (None, "bert@example.org", "anna@example.org.evil", look_alike):
            async with server.client(email=email) as http:
                answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
                assert_problem(answer, 403, "invitation_for_another")
        async with server.client(email="anna@example.org") as http:
            answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
            assert answer.status_code == 200 and answer.json()["role"] == "member"
        # Case is ignored, but letters that Unicode folds to the same letter are different.
        invitation = await create_invitation(server.http, org, email="kim@example.org")
        for email, status in (("\u212aim@example.org", 403), ("K\u0130m@example.org", 403), ("KIM@Example.org", 200)):
            async with server.client(email=email) as http:
                answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
                assert answer.status_code == status


async def test_invitation_says_what_it_offers_only_to_those_who_may_accept_it(serve):
    async with serve() as server:
        org = await create_org(server.http)
        invitation = await create_invitation(server.http, org, role="viewer", email="anna@example.org")

        async def read(http: httpx.AsyncClient, token: str = invitation["token"]) -> httpx.Response:
            return await http.post("/api/invitations/read", json={"token": token})

        async with server.client(email="anna@example.org") as anna, server.client(email="bert@example.org") as bert:
            offered = await read(anna)
            assert offered.status_code == 200, offered.text
            assert (offered.json()["organisation"], offered.json()["role"]) == ("Acme", "viewer")
            assert_problem(await read(bert), 403, "invitation_for_another")
            assert_problem(await read(anna, "fmi_" + "0" * 64), 404)
            # Reading does not accept.
            assert_problem(await anna.get(f"/api/organisations/{org}"), 404)
            assert (await anna.post("/api/invitations/accept", json={"token": invitation["token"]})).status_code == 200
            assert_problem(await read(anna), 409, "invitation_used")
        revoked = await create_invitation(server.http, org)
        await server.http.delete(f"/api/organisations/{org}/invitations/{revoked['id']}")
        async with server.client() as third:
            assert_problem(await read(third, revoked["token"]), 410, "invitation_revoked")


async def test_only_tools_that_write_are_approved_in_advance(serve):
    async with serve() as server:
        url = f"/api/organisations/{server.scope.org_id}"
        for name, status in (("update_field", 200), ("get_document_text", 422), ("delete_everything", 422)):
            answer = await server.http.patch(url, json={"auto_approved_tools": [name]})
            assert answer.status_code == status, name
        for scopes, status in ((["members:write"], 403), (["members:write", "runs:approve"], 204)):
            made = (await server.http.post("/api/keys", json={"name": "robot", "scopes": scopes})).json()
            async with server.client_with_token(made["key"]) as robot:
                body = {"auto_approved_tools": ["create_tag"]}
                assert (await robot.patch(url, json={"name": "Acme"})).is_success
                assert (await robot.patch(url, json=body)).status_code == status
                found = (await server.http.get(url)).json()["auto_approved_tools"]
                assert found == (["create_tag"] if status == 204 else ["update_field"])


async def test_invitation_is_valid_while_its_creator_is_an_owner(serve):
    async with serve() as server, server.client() as guest:
        org = await create_org(server.http)
        url = f"/api/organisations/{org}"
        for end in ("removed", "no owner any more", "key revoked", "still an owner"):
            async with new_member(server, org, "owner") as (other, user):
                if end == "key revoked":
                    wanted = {"name": "robot", "scopes": ["members:write"]}
                    key = (await other.post("/api/keys", json=wanted)).json()
                    async with (
                        server.client_with_token(key["key"]) as robot,
                        new_member(server, org, "viewer") as (_, viewer),
                    ):
                        invitation = await create_invitation(robot, org, role="member")
                        # Owners are made by people.
                        asked = await robot.post(f"{url}/invitations", json={"role": "owner"})
                        assert_problem(asked, 403, "person_needed")
                        asked = await robot.patch(f"{url}/members/{viewer}", json={"role": "owner"})
                        assert_problem(asked, 403, "person_needed")
                        asked = await robot.patch(f"{url}/members/{viewer}", json={"role": "member"})
                        assert asked.is_success
                    assert (await server.http.delete(f"/api/keys/{key['id']}", headers={"x-org-id": org})).is_success
                else:
                    invitation = await create_invitation(other, org, role="owner")
                if end == "removed":
                    assert (await server.http.delete(f"{url}/members/{user}")).is_success
                elif end == "no owner any more":
                    assert (await server.http.patch(f"{url}/members/{user}", json={"role": "member"})).is_success
                answer = await guest.post("/api/invitations/accept", json={"token": invitation["token"]})
                if end == "still an owner":
                    assert answer.status_code == 200 and answer.json()["role"] == "owner"
                else:
                    assert_problem(answer, 410, "invitation_revoked")


async def test_number_of_created_organisations_is_limited(serve, clone):
    async with serve() as server:
        query = "insert into public.organisations (name, created_by) select 'o', %s from generate_series(1, 49)"
        await execute_as_owner(clone, query, server.scope.user_id)
        assert_problem(await server.http.post("/api/organisations", json={"name": "One more"}), 409, "too_many")


async def test_number_of_pending_organisation_deletions_is_limited(serve, clone):
    async with serve() as server:
        query = """
            insert into private.organisation_deletions (org_id, asked_by)
            select id, %s from public.organisations where name = 'gone'"""
        await execute_as_owner(
            clone, "insert into public.organisations (name) select 'gone' from generate_series(1, 19)"
        )
        await execute_as_owner(clone, query, server.scope.user_id)

        async def personal() -> str:
            me = (await server.http.get("/api/me")).json()
            (one,) = me["organisations"]
            assert me["org_id"] == one["id"]
            return one["id"]

        assert (await server.http.delete(f"/api/organisations/{await personal()}")).status_code == 204
        assert_problem(await server.http.delete(f"/api/organisations/{await personal()}"), 409, "too_many")
        async with server.client() as other:  # a user without pending deletions
            (one,) = (await other.get("/api/me")).json()["organisations"]
            assert (await other.delete(f"/api/organisations/{one['id']}")).status_code == 204


def zip_rows(content: bytes) -> dict[str, list[dict[str, Any]]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        assert archive.testzip() is None
        return {
            name: [json.loads(line) for line in archive.read(name).splitlines()]
            for name in archive.namelist()
            if name.endswith(".jsonl")
        }


async def test_organisation_is_exported_and_deleted_with_a_report(serve):
    async with serve() as server:
        org = await create_org(server.http)
        url = f"/api/organisations/{org}"
        server.http.headers["x-org-id"] = org
        document = await server.upload_text('The total is "12\\3"')
        body = {"url": "https://a.example", "types": ["webhook.test"]}
        secret = (await server.http.post("/api/webhooks", json=body)).json()["secret"]
        async with new_member(server, org, "member") as (member, user):
            assert_problem(await member.get(f"{url}/export"), 403, "owner_needed")
            thread = (await member.post("/api/threads", json={"document_id": str(document), "title": "Mine"})).json()
            exported = await server.http.get(f"{url}/export")
            assert exported.status_code == 200 and exported.headers["content-type"] == "application/zip"
            rows = zip_rows(exported.content)
            assert [one["id"] for one in rows["rows/documents.jsonl"]] == [str(document)]
            assert "12\\3" in rows["rows/document_pages.jsonl"][0]["text"]
            assert secret not in exported.text and thread["id"] not in json.dumps(rows)
            assert {one["user_id"] for one in rows["rows/memberships.jsonl"]} >= {str(user)}
            with zipfile.ZipFile(io.BytesIO(exported.content)) as archive:
                (original,) = [name for name in archive.namelist() if name.startswith(f"originals/{document}/")]
                assert archive.read(original) == b'The total is "12\\3"'
            own = zip_rows((await member.get("/api/me/export")).content)
            assert [one["id"] for one in own[f"{org}/threads.jsonl"]] == [thread["id"]]
            assert own[f"{org}/documents.jsonl"] == []
            assert_problem(await server.http.get(f"{url}/deletion"), 404)
            assert (await server.http.delete(url)).status_code == 204
            assert_problem(await member.get(f"{url}/deletion"), 404)

        async def finished() -> dict[str, Any] | None:
            report = (await server.http.get(f"{url}/deletion")).json()
            return report if report["finished_at"] and not report["files_left"] else None

        await server.runtime.documents.delete_originals()
        async with server.runtime.database.as_service() as conn:
            while await retention.clear_organisations(conn):
                pass
        await server.runtime.documents.delete_originals()
        report = await until(finished)
        assert report["rows_left"] == {} and report["files_deleted"] == 1
        assert report["rows_found"]["public.documents"] == 1
        assert not any(path.is_file() for path in server.runtime.files.root.rglob("*"))


async def test_person_deletes_their_account(serve):
    async with serve() as server:
        org = await create_org(server.http)
        async with new_member(server, org, "member") as (member, user):
            key = (await member.post("/api/keys", json={"name": "k", "scopes": ["documents:read"]})).json()
            async with server.client_with_token(key["key"]) as robot:
                assert_problem(await robot.delete("/api/me"), 403, "person_needed")
                del member.headers["x-org-id"]
                answer = await member.delete("/api/me")
                assert answer.status_code == 200 and answer.json()["memberships"] == 1, answer.text
                assert len(answer.json()["organisations"]) == 1  # the personal one
                assert_problem(await robot.get("/api/documents"), 401, "key_revoked")
            members = (await server.http.get(f"/api/organisations/{org}/members")).json()["items"]
            assert str(user) not in {one["user_id"] for one in members}
            async with new_member(server, org, "member"):
                assert_problem(await server.http.delete("/api/me"), 409, "last_owner")

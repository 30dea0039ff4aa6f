"""Who checks a document, and what members write about it."""

from __future__ import annotations

import pytest
from answers import assert_problem
from members import create_org, new_member

pytestmark = pytest.mark.anyio


async def test_assigned_document_is_in_the_inbox_of_its_member(serve):
    async with serve() as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        async with (
            new_member(server, org, "member") as (bob, bob_id),
            new_member(server, org, "viewer") as (vera, vera_id),
        ):
            broken = {"file": ("broken.pdf", b"%PDF-1.7 x")}
            document = (await server.http.post("/api/documents", files=broken)).json()["id"]
            await server.wait_until_read(document)
            path = f"/api/documents/{document}/assignee"
            for user, client, code in ((vera_id, server.http, "not_found"), (bob_id, vera, "read_only")):
                assert (await client.put(path, json={"user_id": str(user)})).json()["code"] == code
            assert (await server.http.put(path, json={"user_id": str(bob_id)})).status_code == 204
            (item,) = (await bob.get("/api/inbox", params={"assignee_id": str(bob_id)})).json()["items"]
            assert (item["document_id"], item["assignee_id"]) == (document, str(bob_id))
            page = (await bob.get("/api/inbox", params={"assignee_id": str(server.scope.user_id)})).json()
            assert page["items"] == [] and page["counts"]["failed"]["count"] == 0
            # It is no one's once the member is gone.
            assert (await server.http.delete(f"/api/organisations/{org}/members/{bob_id}")).status_code == 204
            assert (await server.get(f"documents/{document}"))["assignee_id"] is None


async def test_comments_are_read_by_all_members_and_deleted_by_their_author_or_an_owner(serve):
    async with serve(with_worker=False) as server:
        org = await create_org(server.http)
        server.http.headers["x-org-id"] = org
        document = (await server.http.post("/api/documents", files={"file": ("a.txt", b"Total 5")})).json()["id"]
        async with new_member(server, org, "member") as (bob, bob_id), new_member(server, org, "viewer") as (vera, _):
            comments = f"/api/documents/{document}/comments"
            first = (await server.http.post(comments, json={"body": "Paid?", "path": "total"})).json()
            second = (await bob.post(comments, json={"body": "Yes."})).json()
            assert (first["path"], second["path"], second["created_by"]) == ("total", None, str(bob_id))
            assert_problem(await vera.post(comments, json={"body": "No."}), 403, "read_only")
            assert_problem(await bob.post(comments, json={"body": ""}), 422)
            discussion = (await vera.get(f"/api/documents/{document}/discussion")).json()
            assert discussion == {"assignee_id": None, "comments": [first, second]}
            assert_problem(await bob.delete(f"{comments}/{first['id']}"), 404, "not_found")
            for client, comment in ((bob, second), (server.http, first)):
                assert (await client.delete(f"{comments}/{comment['id']}")).status_code == 204
            assert (await bob.get(f"/api/documents/{document}/discussion")).json()["comments"] == []

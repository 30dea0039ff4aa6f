"""People: organisations, who belongs to them and as what, and invitations that must be accepted."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import httpx
import pytest
from answers import as_owner, problem
from people import invited, joined, org_of

pytestmark = pytest.mark.anyio


async def roles(http: httpx.AsyncClient, org: str) -> dict[str, str]:
    members = (await http.get(f"/api/organisations/{org}/members")).json()["items"]
    return {one["user_id"]: one["role"] for one in members}


async def test_an_organisation_from_its_making_to_its_end(serve):
    async with serve() as server:
        http = server.http
        me = (await http.get("/api/me")).json()
        assert me["user_id"] == str(server.scope.user_id) and me["key"] is None
        (personal,) = me["organisations"]
        assert (personal["id"], personal["role"], personal["is_personal"]) == (str(server.scope.org_id), "owner", True)
        org = await org_of(http)
        place = f"/api/organisations/{org}"
        assert (await http.get(place)).json()["name"] == "Acme"
        changed = await http.patch(place, json={"name": "Acme 2", "approvers": "owners", "second_person": True})
        assert (changed.json()["name"], changed.json()["approvers"], changed.json()["second_person"]) == (
            "Acme 2",
            "owners",
            True,
        )
        assert (await http.patch(place, json={})).json() == changed.json()
        # Each change leaves a trace, also one that is taken back.
        await http.patch(place, json={"second_person": False})
        journal = (await http.get(f"{place}/settings_journal", params={"limit": 2})).json()
        assert [(one["setting"], one["old"], one["new"], one["created_by"]) for one in journal["items"]][:1] == [
            ("second_person", True, False, me["user_id"])
        ]
        rest = (await http.get(f"{place}/settings_journal", params={"before": journal["next"]})).json()
        assert {one["setting"] for one in [*journal["items"], *rest["items"]]} == {"name", "approvers", "second_person"}
        first = (await http.get("/api/organisations", params={"limit": 1})).json()
        second = (await http.get("/api/organisations", params={"limit": 1, "before": first["next"]})).json()
        assert [first["items"][0]["id"], second["items"][0]["id"]] == [org, personal["id"]]
        assert second["next"] is None
        problem(await http.get("/api/keys", params={"before": first["next"]}), 422)  # another list's
        # Somebody else sees none of it.
        async with server.client() as stranger:
            for method, path in (("GET", ""), ("GET", "/members"), ("GET", "/invitations"), ("DELETE", "")):
                problem(await stranger.request(method, place + path), 404)
            problem(await stranger.patch(place, json={"name": "Mine"}), 404)
            problem(await stranger.post(place + "/leave"), 404)
        assert (await http.delete(place)).status_code == 204
        problem(await http.get(place), 404)
        problem(await http.delete(place), 404)
        for body in ({"name": ""}, {"name": "x", "personal_of": str(uuid4())}):
            problem(await http.post("/api/organisations", json=body), 422)


async def test_roles(serve):
    async with serve() as server:
        org = await org_of(server.http)
        place = f"/api/organisations/{org}"
        async with joined(server, org, "member") as (member, user), joined(server, org, "viewer") as (viewer, looker):
            assert await roles(viewer, org) == {
                str(server.scope.user_id): "owner",
                str(user): "member",
                str(looker): "viewer",
            }
            # A member changes nobody, nor the organisation. (A viewer: test_every_operation.py.)
            problem(await member.patch(place, json={"name": "Mine"}), 403, "owner_needed")
            problem(await member.patch(f"{place}/members/{user}", json={"role": "owner"}), 403, "owner_needed")
            problem(await member.post(f"{place}/invitations", json={}), 403, "owner_needed")
            problem(await member.delete(place), 403, "owner_needed")
            # What an owner says holds at the next request.
            assert (await viewer.post("/api/documents", files={"file": ("a.txt", b"x")})).status_code == 403
            assert (await server.http.patch(f"{place}/members/{looker}", json={"role": "member"})).status_code == 200
            assert (await viewer.post("/api/documents", files={"file": ("a.txt", b"x")})).status_code == 201
            assert (await server.http.delete(f"{place}/members/{looker}")).status_code == 204
            problem(await viewer.get("/api/documents"), 404)
            problem(await server.http.delete(f"{place}/members/{looker}"), 404)
            problem(await server.http.patch(f"{place}/members/{looker}", json={"role": "member"}), 404)
            problem(await server.http.patch(f"{place}/members/{user}", json={"role": "king"}), 422)
            # It keeps an owner.
            mine = f"{place}/members/{server.scope.user_id}"
            problem(await server.http.patch(mine, json={"role": "viewer"}), 409, "last_owner")
            problem(await server.http.delete(mine), 409, "last_owner")
            problem(await server.http.post(f"{place}/leave"), 409, "last_owner")
            assert (await server.http.patch(f"{place}/members/{user}", json={"role": "owner"})).status_code == 200
            assert (await server.http.post(f"{place}/leave")).status_code == 204
            assert await roles(member, org) == {str(user): "owner"}
        personal = f"/api/organisations/{server.scope.org_id}"
        problem(await server.http.post(f"{personal}/leave"), 409)
        problem(await server.http.patch(f"{personal}/members/{server.scope.user_id}", json={"role": "viewer"}), 409)


async def test_an_invitation_is_accepted_once(serve, clone):
    async with serve() as server:
        org = await org_of(server.http)
        place = f"/api/organisations/{org}/invitations"
        invitation = await invited(server.http, org, role="viewer")
        assert invitation["token"].startswith("fmi_") and len(invitation["token"]) == 68
        for body in ({"role": "king"}, {"email": "nobody"}, {"days": 91}):
            problem(await server.http.post(place, json=body), 422)
        listed = (await server.http.get(place)).text
        assert invitation["id"] in listed and invitation["token"] not in listed

        async def accept(http: httpx.AsyncClient, token: str = invitation["token"]) -> httpx.Response:
            return await http.post("/api/invitations/accept", json={"token": token})

        problem(await accept(server.http), 409, "already_member")
        async with server.client() as first, server.client() as second:
            problem(await accept(first, "fmi_" + "0" * 64), 404)
            problem(await accept(first, ""), 422)
            # Nobody is a member before they accept.
            problem(await first.get(f"/api/organisations/{org}"), 404)
            # Of two at the same moment one is.
            answers = await asyncio.gather(accept(first), accept(second))
            assert sorted(answer.status_code for answer in answers) == [200, 409]
            for http in (first, second):
                problem(await accept(http), 409, "invitation_used")
            assert len(await roles(server.http, org)) == 2
            problem(await server.http.delete(f"{place}/{invitation['id']}"), 409, "invitation_used")

            taken_back = await invited(server.http, org)
            assert (await server.http.delete(f"{place}/{taken_back['id']}")).status_code == 204
            assert (await server.http.delete(f"{place}/{taken_back['id']}")).status_code == 204  # again
            expired = await invited(server.http, org, days=1)
            query = "update public.invitations set expires_at = now() where id = %s"
            await as_owner(clone, query, expired["id"])
            async with server.client() as third:
                problem(await accept(third, taken_back["token"]), 410, "invitation_revoked")
                problem(await accept(third, expired["token"]), 410, "invitation_expired")
                last = await invited(server.http, org)
                await server.http.delete(f"/api/organisations/{org}")
                problem(await accept(third, last["token"]), 410, "invitation_revoked")
                assert [one["is_personal"] for one in (await third.get("/api/me")).json()["organisations"]] == [True]


async def test_an_invitation_of_an_address_is_for_whose_token_names_it(serve):
    async with serve() as server:
        org = await org_of(server.http)
        invitation = await invited(server.http, org, email="Anna@Example.org")
        look_alike = "anna@example.org".replace("e", "\u0435")
        for email in (None, "bert@example.org", "anna@example.org.evil", look_alike):
            async with server.client(email=email) as http:
                answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
                problem(answer, 403, "invitation_for_another")
        async with server.client(email="anna@example.org") as http:
            answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
            assert answer.status_code == 200 and answer.json()["role"] == "member"
        # Capitals do not matter, but other letters that Unicode folds to the same do.
        invitation = await invited(server.http, org, email="kim@example.org")
        for email, status in (("\u212aim@example.org", 403), ("K\u0130m@example.org", 403), ("KIM@Example.org", 200)):
            async with server.client(email=email) as http:
                answer = await http.post("/api/invitations/accept", json={"token": invitation["token"]})
                assert answer.status_code == status


async def test_an_invitation_holds_while_who_made_it_owns_the_organisation(serve):
    """Whoever was an owner for an hour does not come back by a link that they kept."""
    async with serve() as server, server.client() as guest:
        org = await org_of(server.http)
        place = f"/api/organisations/{org}"
        for end in ("removed", "no owner any more", "key revoked", "still an owner"):
            async with joined(server, org, "owner") as (other, user):
                if end == "key revoked":
                    wanted = {"name": "robot", "scopes": ["members:write"]}
                    key = (await other.post("/api/keys", json=wanted)).json()
                    async with (
                        server.client_with_token(key["key"]) as robot,
                        joined(server, org, "viewer") as (_, viewer),
                    ):
                        invitation = await invited(robot, org, role="member")
                        # Owners are made by people.
                        asked = await robot.post(f"{place}/invitations", json={"role": "owner"})
                        problem(asked, 403, "person_needed")
                        asked = await robot.patch(f"{place}/members/{viewer}", json={"role": "owner"})
                        problem(asked, 403, "person_needed")
                        asked = await robot.patch(f"{place}/members/{viewer}", json={"role": "member"})
                        assert asked.is_success
                    assert (await server.http.delete(f"/api/keys/{key['id']}", headers={"x-org-id": org})).is_success
                else:
                    invitation = await invited(other, org, role="owner")
                if end == "removed":
                    assert (await server.http.delete(f"{place}/members/{user}")).is_success
                elif end == "no owner any more":
                    assert (await server.http.patch(f"{place}/members/{user}", json={"role": "member"})).is_success
                answer = await guest.post("/api/invitations/accept", json={"token": invitation["token"]})
                if end == "still an owner":
                    assert answer.status_code == 200 and answer.json()["role"] == "owner"
                else:
                    problem(answer, 410, "invitation_revoked")


async def test_somebody_makes_so_many_organisations_and_no_more(serve, clone):
    async with serve() as server:
        query = "insert into public.organisations (name, created_by) select 'o', %s from generate_series(1, 49)"
        await as_owner(clone, query, server.scope.user_id)
        problem(await server.http.post("/api/organisations", json={"name": "One more"}), 409, "too_many")


async def test_somebody_gives_up_so_many_organisations_at_a_time_and_no_more(serve, clone):
    async with serve() as server:
        query = """
            insert into private.organisation_deletions (org_id, asked_by)
            select id, %s from public.organisations where name = 'gone'"""
        await as_owner(clone, "insert into public.organisations (name) select 'gone' from generate_series(1, 19)")
        await as_owner(clone, query, server.scope.user_id)

        async def personal() -> str:
            me = (await server.http.get("/api/me")).json()
            (one,) = me["organisations"]
            assert me["org_id"] == one["id"]
            return one["id"]

        assert (await server.http.delete(f"/api/organisations/{await personal()}")).status_code == 204
        problem(await server.http.delete(f"/api/organisations/{await personal()}"), 409, "too_many")
        async with server.client() as other:  # who has given up none
            (one,) = (await other.get("/api/me")).json()["organisations"]
            assert (await other.delete(f"/api/organisations/{one['id']}")).status_code == 204

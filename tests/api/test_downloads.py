"""The file as it came: downloaded, and known again when it comes once more."""

from __future__ import annotations

from uuid import uuid4

import httpx
import pytest
from answers import INVOICE, assert_problem

from object_server import KEY_ID, SECRET, object_server

pytestmark = pytest.mark.anyio


async def test_original_is_downloaded_and_never_rendered(serve):
    page = b"<script>alert(1)</script><p>Total: 1"
    async with serve() as server:
        uploaded = (await server.http.post("/api/documents", files={"file": ('Größe "1".html', page)})).json()
        at = f"/api/documents/{uploaded['id']}/file"
        answer = await server.http.get(at)
        assert (answer.status_code, answer.content) == (200, page)
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment; filename=")
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox"
        assert "private" in answer.headers["cache-control"]

        part = await server.http.get(at, headers={"range": "bytes=8-12"})
        assert (part.status_code, part.content) == (206, page[8:13])
        assert part.headers["content-range"] == f"bytes 8-12/{len(page)}"
        assert (
            part.headers["x-content-type-options"] == "nosniff" and "attachment" in part.headers["content-disposition"]
        )
        same = {"range": "bytes=0-3", "if-range": answer.headers["etag"]}
        assert (await server.http.get(at, headers=same)).status_code == 206
        assert (await server.http.get(at, headers={**same, "if-range": '"other"'})).content == page
        beyond = await server.http.get(at, headers={"range": "bytes=900-"})
        assert_problem(beyond, 416)
        assert beyond.headers["content-range"] == f"bytes */{len(page)}"
        assert_problem(await server.http.get(at, headers={"range": "pages=1-2"}), 400, "bad_request")
        ends = await server.http.get(at, headers={"range": "bytes=0-2,-3"})
        assert ends.status_code == 206 and ends.headers["content-disposition"] == answer.headers["content-disposition"]
        assert page[:3] in ends.content and page[-3:] in ends.content
        assert (await server.http.get(at + "?redirect=true")).content == page  # a folder has no addresses
        assert_problem(await server.http.get(f"/api/documents/{uuid4()}/file"), 404)
        async with server.client() as stranger:
            assert_problem(await stranger.get(at), 404)
        for file in (server.runtime.settings.home / "files").rglob("*.html"):
            file.unlink()
        assert_problem(await server.http.get(at), 404)  # its original is lost


async def test_only_who_may_read_a_document_is_redirected_to_its_original(serve, monkeypatch):
    for name, value in {"AWS_ACCESS_KEY_ID": KEY_ID, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "r"}.items():
        monkeypatch.setenv(name, value)
    with object_server() as bucket:
        monkeypatch.setenv("AWS_ENDPOINT_URL", bucket.url)
        async with serve(files_url="s3://inbox") as server:
            document = await server.upload("a.txt", b"Total: 1")
            at = f"/api/documents/{document}/file?redirect=true"
            answer = await server.http.get(at)
            assert (answer.status_code, answer.headers["cache-control"]) == (307, "no-store")
            async with httpx.AsyncClient(verify=False) as anyone:
                assert (await anyone.get(answer.headers["location"])).content == b"Total: 1"
            plain = await server.http.get(at.partition("?")[0])
            assert (plain.status_code, plain.content) == (200, b"Total: 1")
            async with server.client() as stranger:
                assert_problem(await stranger.get(at), 404)
            assert (await server.http.delete(f"/api/documents/{document}")).status_code == 204
            assert bucket.objects == {}


async def test_duplicates_are_detected_within_an_organisation_only(serve):
    async with serve() as server:
        content = INVOICE.read_bytes()

        async def upload(http, name: str, data: bytes = content) -> dict[str, object]:
            return (await http.post("/api/documents", files={"file": (name, data)})).json()

        first = await upload(server.http, "a.pdf")
        second = await upload(server.http, "b.pdf")
        third = await upload(server.http, "c.pdf")
        other = await upload(server.http, "d.pdf", content + b"\n")
        assert [one["duplicate_of"] for one in (first, second, third, other)] == [None, first["id"], first["id"], None]
        async with server.client() as stranger:
            assert (await upload(stranger, "a.pdf"))["duplicate_of"] is None
        await server.http.delete(f"/api/documents/{first['id']}")
        listed = (await server.get("documents"))["items"]
        known = {one["filename"]: one["duplicate_of"] for one in listed}
        assert known == {"b.pdf": None, "c.pdf": second["id"], "d.pdf": None}

"""/api/extractions/{id}/export: formats, file names and access."""

from __future__ import annotations

import csv
import io
from uuid import UUID, uuid4

import lxml.html
import openpyxl
import pytest
from answers import INVOICE, assert_problem

from fieldmark.services.exports import export as exporting
from fieldmark.stores import extractions

pytestmark = pytest.mark.anyio

FIELDS = {"number": "INV/2023/03/0008", "total": 279.84, "items": [{"name": "=cmd"}, {"name": "Chair"}]}
EVIDENCE = {
    "state": "found",
    "match": "exact",
    "page": 1,
    "boxes": [[0.16, 0.24, 0.46, 0.27]],
    "quote": None,
    "location_count": 1,
}


async def add_extraction(server, filename: str, content: bytes, evidence: dict[str, object] = EVIDENCE) -> UUID:
    answer = await server.http.post("/api/documents", files={"file": (filename, content)})
    document_id = await server.wait_until_read(UUID(answer.json()["id"]))
    async with server.runtime.database.as_user(server.scope) as conn:
        extraction_id = await extractions.add(conn, org_id=server.scope.org_id, document_id=document_id, schema=None)
        await extractions.save_fields(conn, extraction_id, FIELDS, {"number": 0.97}, {"number": evidence})
    return extraction_id


async def test_extraction_is_exported_in_each_format(serve):
    async with serve() as server:
        made = await add_extraction(server, "März ;1.pdf", INVOICE.read_bytes())
        at = f"/api/extractions/{made}/export"

        answer = await server.http.get(at)
        assert answer.headers["content-type"] == "application/json"
        whole = answer.json()
        now = await server.get(f"extractions/{made}")
        assert whole["extracted_fields"] == now["extracted_fields"] == FIELDS
        assert whole["evidence"] == now["evidence"] and whole.keys() == now.keys() | {"document", "problems"}
        assert whole["document"]["page_count"] == 4

        answer = await server.http.get(f"{at}?format=csv")
        lines = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
        by_path = {line[0]: line[1:] for line in lines}
        assert (
            by_path["number"][:4] == ["INV/2023/03/0008", "confirmed", "", "0.97"] and by_path["total"][0] == "279.84"
        )
        answer = await server.http.get(f"{at}?format=csv&list=items")
        assert answer.content.decode("utf-8-sig") == "path,name,to_review\r\nitems[0],'=cmd,\r\nitems[1],Chair,\r\n"

        answer = await server.http.get(f"{at}?format=xlsx")
        assert openpyxl.load_workbook(io.BytesIO(answer.content))["items"]["B2"].value == "=cmd"

        answer = await server.http.get(f"{at}?format=html")
        assert answer.headers["content-disposition"] == (
            "attachment; filename=\"M_rz _1.html\"; filename*=UTF-8''M%C3%A4rz%20%3B1.html"
        )
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["content-security-policy"] == "sandbox"
        root = lxml.html.document_fromstring(answer.text)
        assert len(root.xpath("//img[starts-with(@src,'data:image/png;base64,')]")) == 1
        assert len(root.xpath("//a[contains(@class,'box')]")) == 1

        assert_problem(await server.http.get(f"{at}?format=csv&list=nothing"), 404)
        assert_problem(await server.http.get(f"{at}?format=xlsx&list=items"), 422)
        assert_problem(await server.http.get(f"{at}?format=pdf"), 422)
        assert_problem(await server.http.get(f"/api/extractions/{uuid4()}/export"), 404)
        async with server.client() as stranger:
            for format_name in exporting.FORMATS:
                assert_problem(await stranger.get(f"{at}?format={format_name}"), 404)


async def test_html_export_of_a_text_file_and_of_a_document_without_its_original(serve):
    async with serve() as server:
        made = await add_extraction(
            server, "a.txt", b"Number: INV/2023/03/0008\n" + b"line\n" * 400, EVIDENCE | {"page": 3}
        )
        at = f"/api/extractions/{made}/export?format=html"
        root = lxml.html.document_fromstring((await server.http.get(at)).text)
        # The first page, and the page of the value.
        assert root.xpath("//section/@id") == ["page1", "page3"] and len(root.xpath("//img")) == 2
        for original in (server.runtime.settings.home / "files").rglob("a.txt"):
            original.unlink()
        root = lxml.html.document_fromstring((await server.http.get(at)).text)
        assert root.xpath("//section/@id") == ["page1", "page3"] and not root.xpath("//img")

"""What a page needs to show a value beside its place: pictures of pages and of parts of them, a value's places, and
what no value stands on."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from answers import problem
from PIL import Image, ImageDraw, ImageFont

from fieldmark.stores import documents, extractions

pytestmark = pytest.mark.anyio

INVOICE = next((Path(__file__).parents[2] / "docs" / "samples").glob("**/*.pdf"))
LINES = b"Invoice 4711\n\nNet 113,00\nTotal 113.00\nPaid yes\nThanks 7\n"


async def empty_extraction(server, document_id, schema=None):
    async with server.runtime.database.as_user(server.scope) as conn:
        return await extractions.add(conn, org_id=server.scope.org_id, document_id=document_id, schema=schema)


def image_of(answer):
    assert answer.status_code == 200, answer.text
    return Image.open(io.BytesIO(answer.content)).convert("L")


def inked(image):
    """The box of all that is not white, in parts of the image."""
    left, top, right, bottom = image.point(lambda value: 255 * (value < 128)).getbbox()
    return left / image.width, top / image.height, right / image.width, bottom / image.height


def square():
    """A white picture with a black rectangle at 0.4..0.6 of its width and 0.2..0.4 of its height, and grey words below
    it: a picture without any is no document."""
    drawn = Image.new("RGB", (1000, 500), "white")
    drawn.paste("black", (400, 100, 600, 200))
    words = ImageFont.load_default(48)
    ImageDraw.Draw(drawn).text((100, 350), "INVOICE NUMBER 4711", fill=(150, 150, 150), font=words)
    out = io.BytesIO()
    drawn.save(out, "PNG")
    return out.getvalue()


def as_pdf():
    out = io.BytesIO()
    Image.open(io.BytesIO(square())).save(out, "PDF")
    return out.getvalue()


async def test_a_page_that_was_drawn_is_kept_for_who_may_see_it(serve):
    async with serve() as server:
        document_id = await server.upload("a.png", square())
        at = f"/api/documents/{document_id}/pages/1.png"
        drawn = await server.http.get(at, params={"width": 200})
        async with server.runtime.database.as_user(server.scope) as conn:
            kept = (await documents.find_read(conn, document_id)).readable_path
        await server.runtime.files.remove(kept)
        again = await server.http.get(at, params={"width": 200})
        assert (again.status_code, again.content) == (200, drawn.content)
        assert (await server.http.get(at, params={"width": 100})).status_code == 404  # another image: drawn anew
        async with server.client() as stranger:
            problem(await stranger.get(at, params={"width": 200}), 404)


@pytest.mark.parametrize(("name", "made"), [("a.png", square), ("a.pdf", as_pdf)])
async def test_a_part_of_a_page_is_drawn_where_it_says(serve, name, made):
    async with serve() as server:
        at = f"/api/documents/{await server.upload(name, made())}/pages/1.png"
        whole = image_of(await server.http.get(at, params={"width": 200}))
        assert whole.size == (200, 100)
        assert inked(whole) == pytest.approx((0.4, 0.2, 0.6, 0.4), abs=0.02)
        answer = await server.http.get(at, params={"box": "0.4,0.2,0.6,0.4", "width": 600})
        x0, y0, x1, y1 = map(float, answer.headers["x-box"].split(","))
        assert (x0, y0, x1, y1) == (0, 0, 1, 0.6)  # a margin of its height, and twice that beside it
        answer = await server.http.get(at, params={"box": "0.5,0.3,0.6,0.35", "width": 600})
        x0, y0, x1, y1 = map(float, answer.headers["x-box"].split(","))
        assert (x0, y0, x1, y1) == (0.4, 0.25, 0.7, 0.4)
        part = image_of(answer)
        assert part.size == (600, pytest.approx(150, abs=1))
        assert inked(part) == pytest.approx((0, 0, 2 / 3, 1), abs=0.02)


async def test_a_picture_is_no_larger_than_it_may_be(serve):
    async with serve() as server:
        at = f"/api/documents/{await server.upload('a.pdf', INVOICE.read_bytes())}/pages/1.png"
        answer = await server.http.get(at, params={"width": 4000})
        width, height = struct.unpack(">II", answer.content[16:24])
        assert width <= 4000 and width * height <= 16_000_000
        # Where nothing finer is to be seen, nothing finer is drawn.
        tiny = image_of(await server.http.get(at, params={"box": "0.5,0.5,0.50001,0.50001", "width": 4000}))
        assert tiny.width < 300
        for width in ("31", "4001", "x", "-1"):
            problem(await server.http.get(at, params={"width": width}), 422)
        for box in ("", "0,0,1", "1,0,0,1", "0,0,1.1,1", "nan,0,1,1"):
            problem(await server.http.get(at, params={"box": box}), 422)


async def test_all_places_of_a_value_are_told(serve):
    async with serve() as server:
        document_id = await server.upload("a.txt", LINES)
        made = await empty_extraction(server, document_id)
        at = f"/api/extractions/{made}"
        fields = {"total": 113, "absent": 99, "empty": None, "vendor": {"name": "Thanks"}}
        writes = [{"path": name, "value": value} for name, value in fields.items()]
        written = await server.http.patch(f"{at}/fields", json=writes)
        assert written.status_code == 200, written.text
        evidence = written.json()["evidence"]

        async def places(path):
            answer = await server.http.get(f"{at}/locations", params={"path": path})
            assert answer.status_code == 200, answer.text
            return answer.json()

        total = await places("total")
        assert total["version"] == written.json()["version"]
        assert [place["quote"] for place in total["items"]] == ["113,00", "113.00"]
        assert total["count"] == 2 == evidence["total"]["location_count"]
        result = {name: evidence["total"][name] for name in ("page", "boxes", "quote", "match")}
        assert result in total["items"]
        assert (await places("vendor.name"))["count"] == 1
        for path in ("absent", "empty"):
            assert (await places(path))["items"] == []
        for path, status in (("vendor", 422), ("nothing", 404)):
            problem(await server.http.get(f"{at}/locations", params={"path": path}), status)
        problem(await server.http.get(f"{at}/locations", params={"path": "a["}), 422, "invalid_path")


async def test_what_is_printed_and_would_mend_a_rule_is_told(serve):
    rule = {"sum": ["net", "tax"], "equals": "total"}
    schema = {
        "type": "object",
        "x-fieldmark": {"rules": [rule]},
        "properties": {name: {"type": "number"} for name in ("net", "tax", "total")},
    }
    async with serve() as server:
        document_id = await server.upload("a.txt", b"Net 100.00\nTax 19.00\nTotal 119.00\nCustomer 191\n")
        made, free = await empty_extraction(server, document_id, schema), await empty_extraction(server, document_id)
        at = f"/api/extractions/{made}"
        writes = [{"path": name, "value": value} for name, value in {"net": 100, "tax": 19, "total": 191}.items()]
        written = (await server.http.patch(f"{at}/fields", json=writes)).json()
        (error,) = written["errors"]
        assert (error["path"], error["code"], error["about"]) == ("", "sum", ["net", "tax", "total"])
        # 172 or 91 would make it hold as well, but no page prints them.
        result = (await server.http.get(f"{at}/readings")).json()
        assert result["version"] == written["version"]
        (one,) = result["items"]
        assert (one["path"], one["value"], one["rule"], one["location"]["quote"]) == ("total", 119, "sum", "119.00")
        assert (await server.get(f"extractions/{free}/readings"))["items"] == []


async def test_what_no_field_claims_is_told_until_a_field_has_it(serve):
    async with serve() as server:
        document_id = await server.upload("a.txt", LINES + b"signed by Karl Weber on 12 March 2024\n")
        made = await empty_extraction(server, document_id)
        at = f"/api/extractions/{made}"

        async def unmapped():
            answer = await server.http.get(f"{at}/unmapped")
            assert answer.status_code == 200, answer.text
            return answer.json()

        first = await unmapped()
        result = [(one["kind"], one["text"], one["value"]) for one in first["items"]]
        assert result == [
            ("number", "4711", 4711),
            ("number", "113,00", 113),
            ("number", "113.00", 113),
            ("number", "7", 7),
            ("date", "12 March 2024", "2024-03-12"),
        ]
        assert (first["version"], first["pages"], first["next"]) == (0, [{"page": 1, "count": 5}], None)
        words = (await server.get(f"documents/{document_id}/pages/1"))["words"]
        for one in first["items"]:
            assert " ".join(word["text"] for word in words[one["first"] : one["last"] + 1]) == one["text"]
            assert [words[one["first"]][side] for side in ("x0", "y0")] == pytest.approx(one["boxes"][0][:2], abs=1e-4)

        # A value claims each of its places. One that is on no page claims none.
        writes = [
            {"path": "total", "value": 113},
            {"path": "signer", "value": "Karl Weber"},
            {"path": "no", "value": 8},
        ]
        written = await server.http.patch(f"{at}/fields", json=writes)
        assert written.status_code == 200, written.text
        then = await unmapped()
        assert [one["text"] for one in then["items"]] == ["4711", "7", "12 March 2024"]
        assert then["version"] == written.json()["version"]
        # What it is told to mean, written as a field, is found where it stands.
        date = then["items"][-1]
        written = await server.http.patch(f"{at}/fields", json={"path": "signed", "value": date["value"]})
        assert written.json()["evidence"]["signed"]["boxes"] == date["boxes"]
        assert [one["text"] for one in (await unmapped())["items"]] == ["4711", "7"]


async def test_what_no_field_claims_comes_in_whole_pages(serve):
    async with serve() as server:
        lines = [f"Code {number}" for number in range(10_000, 12_400)]
        document_id = await server.upload("a.txt", "\n".join(lines).encode())
        made = await empty_extraction(server, document_id)
        seen, page, counts = [], 1, 0
        while page is not None:
            answer = await server.http.get(f"/api/extractions/{made}/unmapped", params={"page": page})
            part = answer.json()
            assert 0 < len(part["items"]) <= 1000 and part["items"][0]["page"] == page
            assert sum(one["count"] for one in part["pages"]) == len(part["items"])
            page, counts = part["next"], counts + len(part["pages"])
            seen += part["items"]
        assert [one["value"] for one in seen] == list(range(10_000, 12_400))
        assert counts == len({one["page"] for one in seen}) > 2
        behind = (await server.http.get(f"/api/extractions/{made}/unmapped", params={"page": 9999})).json()
        assert (behind["items"], behind["next"], behind["pages"]) == ([], None, [])
        for wrong in ("0", "-1", "x", str(2**31)):
            problem(await server.http.get(f"/api/extractions/{made}/unmapped", params={"page": wrong}), 422)

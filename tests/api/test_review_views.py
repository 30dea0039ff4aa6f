"""What the review screen requests: page images and crops, locations of a value, suggested values, unmapped text."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import pytest
from answers import assert_problem
from PIL import Image, ImageDraw, ImageFont

from fieldmark.stores import documents, extractions
from generated_files import make_pdf, text_at

pytestmark = pytest.mark.anyio

INVOICE = next((Path(__file__).parents[2] / "docs" / "samples").glob("**/*.pdf"))
LINES = b"Invoice 4711\n\nNet 113,00\nTotal 113.00\nPaid yes\nThanks 7\n"


async def add_extraction(server, document_id, schema=None):
    async with server.runtime.database.as_user(server.scope) as conn:
        return await extractions.add(conn, org_id=server.scope.org_id, document_id=document_id, schema=schema)


def open_image(answer):
    assert answer.status_code == 200, answer.text
    return Image.open(io.BytesIO(answer.content)).convert("L")


def dark_area(image):
    """Return the bounding box of all dark pixels, as fractions of the image."""
    left, top, right, bottom = image.point(lambda value: 255 * (value < 128)).getbbox()
    return left / image.width, top / image.height, right / image.width, bottom / image.height


def png_with_rectangle():
    """Return a white image with a black rectangle at 0.4..0.6 of its width and 0.2..0.4 of its height. It has grey
    words because an image without text is refused."""
    drawn = Image.new("RGB", (1000, 500), "white")
    drawn.paste("black", (400, 100, 600, 200))
    words = ImageFont.load_default(48)
    ImageDraw.Draw(drawn).text((100, 350), "INVOICE NUMBER 4711", fill=(150, 150, 150), font=words)
    out = io.BytesIO()
    drawn.save(out, "PNG")
    return out.getvalue()


def pdf_with_rectangle():
    """Return a page of the same size with the same rectangle, and with a text layer, so that no OCR is needed."""
    return make_pdf(["400 300 200 100 re f 0.6 g " + text_at("4711", 100, 110)], "[0 0 1000 500]")


async def test_rendered_page_is_cached_per_width(serve):
    async with serve() as server:
        document_id = await server.upload("a.pdf", pdf_with_rectangle())
        at = f"/api/documents/{document_id}/pages/1.png"
        drawn = await server.http.get(at, params={"width": 200})
        async with server.runtime.database.as_user(server.scope) as conn:
            kept = (await documents.find_read(conn, document_id)).readable_path
        await server.runtime.files.remove(kept)
        again = await server.http.get(at, params={"width": 200})
        assert (again.status_code, again.content) == (200, drawn.content)
        assert (await server.http.get(at, params={"width": 100})).status_code == 404  # not cached
        async with server.client() as stranger:
            assert_problem(await stranger.get(at, params={"width": 200}), 404)


@pytest.mark.parametrize(("name", "make_file"), [("a.png", png_with_rectangle), ("a.pdf", pdf_with_rectangle)])
async def test_cropped_page_image_matches_its_x_box_header(serve, name, make_file):
    async with serve() as server:
        at = f"/api/documents/{await server.upload(name, make_file())}/pages/1.png"
        whole = open_image(await server.http.get(at, params={"width": 200}))
        assert whole.size == (200, 100)
        assert dark_area(whole) == pytest.approx((0.4, 0.2, 0.6, 0.4), abs=0.02)
        answer = await server.http.get(at, params={"box": "0.4,0.2,0.6,0.4", "width": 600})
        x0, y0, x1, y1 = map(float, answer.headers["x-box"].split(","))
        assert (x0, y0, x1, y1) == (0, 0, 1, 0.6)  # the margin is the height of the box, twice that at the sides
        answer = await server.http.get(at, params={"box": "0.5,0.3,0.6,0.35", "width": 600})
        x0, y0, x1, y1 = map(float, answer.headers["x-box"].split(","))
        assert (x0, y0, x1, y1) == (0.4, 0.25, 0.7, 0.4)
        part = open_image(answer)
        assert part.size == (600, pytest.approx(150, abs=1))
        assert dark_area(part) == pytest.approx((0, 0, 2 / 3, 1), abs=0.02)


async def test_image_size_is_limited(serve):
    async with serve() as server:
        at = f"/api/documents/{await server.upload('a.pdf', INVOICE.read_bytes())}/pages/1.png"
        answer = await server.http.get(at, params={"width": 4000})
        width, height = struct.unpack(">II", answer.content[16:24])
        assert width <= 4000 and width * height <= 16_000_000
        # A tiny box is not enlarged without limit.
        tiny = open_image(await server.http.get(at, params={"box": "0.5,0.5,0.50001,0.50001", "width": 4000}))
        assert tiny.width < 300
        for width in ("31", "4001", "x", "-1"):
            assert_problem(await server.http.get(at, params={"width": width}), 422)
        for box in ("", "0,0,1", "1,0,0,1", "0,0,1.1,1", "nan,0,1,1"):
            assert_problem(await server.http.get(at, params={"box": box}), 422)


async def test_all_locations_of_a_value_are_listed(serve):
    async with serve() as server:
        document_id = await server.upload("a.txt", LINES)
        extraction_id = await add_extraction(server, document_id)
        at = f"/api/extractions/{extraction_id}"
        fields = {"total": 113, "absent": 99, "empty": None, "vendor": {"name": "Thanks"}}
        writes = [{"path": name, "value": value} for name, value in fields.items()]
        written = await server.http.patch(f"{at}/fields", json=writes)
        assert written.status_code == 200, written.text
        evidence = written.json()["evidence"]

        async def get_locations(path):
            answer = await server.http.get(f"{at}/locations", params={"path": path})
            assert answer.status_code == 200, answer.text
            return answer.json()

        total = await get_locations("total")
        assert total["version"] == written.json()["version"]
        assert [place["quote"] for place in total["items"]] == ["113,00", "113.00"]
        assert total["count"] == 2 == evidence["total"]["location_count"]
        result = {name: evidence["total"][name] for name in ("page", "boxes", "quote", "match")}
        assert result in total["items"]
        assert (await get_locations("vendor.name"))["count"] == 1
        for path in ("absent", "empty"):
            assert (await get_locations(path))["items"] == []
        for path, status in (("vendor", 422), ("nothing", 404)):
            assert_problem(await server.http.get(f"{at}/locations", params={"path": path}), status)
        assert_problem(await server.http.get(f"{at}/locations", params={"path": "a["}), 422, "invalid_path")


async def test_printed_value_that_fixes_a_rule_is_suggested(serve):
    rule = {"sum": ["net", "tax"], "equals": "total"}
    schema = {
        "type": "object",
        "x-fieldmark": {"rules": [rule]},
        "properties": {name: {"type": "number"} for name in ("net", "tax", "total")},
    }
    async with serve() as server:
        document_id = await server.upload("a.txt", b"Net 100.00\nTax 19.00\nTotal 119.00\nCustomer 191\n")
        extraction_id, without_schema = (
            await add_extraction(server, document_id, schema),
            await add_extraction(server, document_id),
        )
        at = f"/api/extractions/{extraction_id}"
        writes = [{"path": name, "value": value} for name, value in {"net": 100, "tax": 19, "total": 191}.items()]
        written = (await server.http.patch(f"{at}/fields", json=writes)).json()
        (error,) = written["errors"]
        assert (error["path"], error["code"], error["about"]) == ("", "sum", ["net", "tax", "total"])
        # 172 or 91 would fix the rule as well, but are not in the document.
        result = (await server.http.get(f"{at}/rule_fixes")).json()
        assert result["version"] == written["version"]
        (one,) = result["items"]
        assert (one["path"], one["value"], one["rule"], one["location"]["quote"]) == ("total", 119, "sum", "119.00")
        assert (await server.get(f"extractions/{without_schema}/rule_fixes"))["items"] == []


async def test_unmapped_text_is_listed_until_a_field_has_it(serve):
    async with serve() as server:
        document_id = await server.upload("a.txt", LINES + b"signed by Karl Weber on 12 March 2024\n")
        extraction_id = await add_extraction(server, document_id)
        at = f"/api/extractions/{extraction_id}"

        async def get_unmapped():
            answer = await server.http.get(f"{at}/unmapped")
            assert answer.status_code == 200, answer.text
            return answer.json()

        first = await get_unmapped()
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

        # A value maps each of its locations.
        writes = [
            {"path": "total", "value": 113},
            {"path": "signer", "value": "Karl Weber"},
            {"path": "no", "value": 8},
        ]
        written = await server.http.patch(f"{at}/fields", json=writes)
        assert written.status_code == 200, written.text
        after = await get_unmapped()
        assert [one["text"] for one in after["items"]] == ["4711", "7", "12 March 2024"]
        assert after["version"] == written.json()["version"]
        # The suggested value is found at the same location.
        date = after["items"][-1]
        written = await server.http.patch(f"{at}/fields", json={"path": "signed", "value": date["value"]})
        assert written.json()["evidence"]["signed"]["boxes"] == date["boxes"]
        assert [one["text"] for one in (await get_unmapped())["items"]] == ["4711", "7"]


async def test_unmapped_text_is_paged_by_document_page(serve):
    async with serve() as server:
        lines = [f"Code {number}" for number in range(10_000, 12_400)]
        document_id = await server.upload("a.txt", "\n".join(lines).encode())
        made = await add_extraction(server, document_id)
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
            assert_problem(await server.http.get(f"/api/extractions/{made}/unmapped", params={"page": wrong}), 422)


async def test_printed_row_that_is_in_no_item_is_listed_until_it_is_added(serve):
    rows = ["Nut   10   1.20", "Bolt  25   0.40", "Ring  70   7.10", "Hook  11   9.00", "Clip  12   2.00"]
    items = [
        {"name": name, "count": int(count), "price": float(price), "unit": {"name": None}}
        for name, count, price in map(str.split, rows)
    ]
    async with serve() as server:
        document_id = await server.upload("a.txt", "\n".join(rows).encode())
        extraction_id = await add_extraction(server, document_id)
        at = f"/api/extractions/{extraction_id}"
        written = {"path": "items", "value": [*items[:2], *items[3:]]}
        version = (await server.http.patch(f"{at}/fields", json=written)).json()["version"]
        result = (await server.http.get(f"{at}/missing_rows")).json()
        assert result["version"] == version
        (one,) = result["items"]
        assert (one["path"], one["page"], one["text"], len(one["boxes"])) == ("items[4]", 1, "Ring 70 7.10", 1)
        assert one["value"] == items[2]
        # It is a hint.
        assert {status["status"] for status in (await server.extraction(extraction_id))["statuses"].values()} <= {
            "confirmed",
            "not_written",
            "blank",
        }
        added = await server.http.patch(f"{at}/fields", json={"path": one["path"], "value": one["value"]})
        assert added.json()["evidence"]["items[4].price"]["boxes"][0][1] == pytest.approx(one["boxes"][0][1], abs=0.01)
        assert (await server.http.get(f"{at}/missing_rows")).json()["items"] == []

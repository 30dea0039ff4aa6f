"""A table of receipts: every missing total and every doubtful vendor is among what a person has to look at, and marking
the rows as reviewed records what was accepted."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any
from uuid import UUID

import pytest

from extraction_case import until
from fieldmark.agents.registry import answer_offline
from fieldmark.offline_model.messages import call

pytestmark = pytest.mark.anyio

COLUMNS = [{"name": "vendor"}, {"name": "date", "type": "date"}, {"name": "total", "type": "number"}]
RECEIPTS, WITHOUT_TOTAL, CUT = 12, {4, 9}, {2}
"""The number of receipts; those that have no total, and those whose vendor's name is cut."""


def receipt(number: int, *, has_total: bool) -> bytes:
    total = f"Total: {number}.50 EUR\n" if has_total else "Thank you for your visit\n"
    return f"Receipt K-{number}\nMarket Hall {number} Gmb\nDate: 2026-03-{number % 28 + 1:02}\n{total}".encode()


def model(completed_names: Collection[int]):
    """Return a model that reads the receipts. It completes the name of some vendors, which is cut on the paper."""

    async def answer(body):
        text = str(body["messages"][0])
        found = re.search(r"Receipt K-(\d+)", text)
        if found is None or "extract_fields" not in str(body["tools"]):
            return answer_offline(body)
        number = int(found[1])
        total = re.search(r"Total: ([\d.]+)", text)
        fields: dict[str, Any] = {
            "vendor": f"Market Hall {number} Gmb" + "H & Co. KG" * (number in completed_names),
            "date": f"2026-03-{number % 28 + 1:02}",
        }
        if total:
            fields["total"] = float(total[1])
        return [
            call("extract_fields", {"document_type": "receipt", "fields": fields}),
            call("complete_extraction", {"summary": "Read."}),
        ]

    return answer


@pytest.mark.story
async def test_each_missing_total_and_doubtful_vendor_is_to_be_reviewed(serve):
    async with serve(model(CUT)) as server:
        stack = (await server.http.post("/api/stacks", json={"name": "Receipts", "columns": COLUMNS})).json()
        for number in range(1, RECEIPTS + 1):
            content = receipt(number, has_total=number not in WITHOUT_TOTAL)
            answer = await server.http.post(
                "/api/documents", params={"stack_id": stack["id"]}, files={"file": (f"{number}.txt", content)}
            )
            await server.wait_until_read(UUID(answer.json()["id"]))
        result = (await server.http.post("/api/agent/stack", json={"stack_id": stack["id"], "approval": "auto"})).json()
        assert result["status"] == "completed", result

        async def to_review() -> dict[int, dict[str, str]]:
            """Return the reasons in the cells that need a person, by receipt."""
            query = {"limit": 100, "cell_status": ["needs_review", "unclear"]}
            rows = (await server.http.get(f"/api/tables/{stack['id']}/rows", params=query)).json()["items"]
            return {
                int(row["filename"].removesuffix(".txt")): {
                    name: cell["reason"]
                    for name, cell in row["cells"].items()
                    if cell["status"] in ("needs_review", "unclear")
                }
                for row in rows
            }

        expected = {number: {"total": "missing"} for number in WITHOUT_TOTAL}
        expected |= {number: {"vendor": "not_found"} for number in CUT}

        async def is_complete() -> bool:
            return await to_review() == expected

        await until(is_complete, every=0.5)
        queued = (await server.http.get("/api/extractions", params={"to_check": True, "limit": 100})).json()["items"]
        assert len(queued) == len(expected)
        assert (await server.get("documents/count?stage=needs_review"))["count"] == len(expected)

        # A person marks them as reviewed. What was accepted, and why it had been doubtful, is kept.
        for one in queued:
            answer = await server.http.post(f"/api/extractions/{one['id']}/complete")
            assert (answer.json()["review_count"], answer.status_code) == (0, 200)
        assert (await to_review(), (await server.get("documents/count?stage=needs_review"))["count"]) == ({}, 0)
        accepted = {}
        for one in queued:
            statuses = (await server.extraction(one["id"]))["statuses"]
            filename = (await server.get(f"documents/{one['document_id']}"))["filename"]
            accepted[int(filename.removesuffix(".txt"))] = {
                name: status["reason"] for name, status in statuses.items() if status["status"] == "accepted"
            }
        assert accepted == expected

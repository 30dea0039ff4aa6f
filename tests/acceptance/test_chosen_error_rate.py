"""An owner accepts 1 % of wrong values, works through the inbox, and the quality page states a bound that holds."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from fieldmark.agents.registry import answer_offline
from fieldmark.domain.audits import audits_needed
from fieldmark.domain.proportions import upper_bound
from fieldmark.offline_model.messages import call

pytestmark = pytest.mark.anyio

DOCUMENTS, FIELDS = 40, 100
WRONG = {7: (3, 4, 5, 6), 30: (10, 11, 12, 13)}
"""Fields that the model misreads, by document: it takes a code that is printed too. Errors come in few documents."""


def _code(document: int, field: int) -> str:
    return f"QX{document:03}ZK{field:03}"


def _fields(document: int, wrong: tuple[int, ...] = ()) -> dict[str, str]:
    printed = {field: field + 500 if field in wrong else field for field in range(1, FIELDS + 1)}
    return {f"code_{field}": _code(document, code) for field, code in printed.items()}


def _page(document: int) -> str:
    lines = [f"Code {field}: {_code(document, field)}" for field in range(1, FIELDS + 1)]
    spare = [f"Spare {field}: {_code(document, field + 500)}" for field in WRONG.get(document, ())]
    return "\n".join([f"Sheet K-{document}", *lines, *spare]) + "\n"


async def _model(body: Any) -> Any:
    found = re.search(r"Sheet K-(\d+)", str(body["messages"][0]))
    if found is None or "extract_fields" not in str(body["tools"]):
        return answer_offline(body)
    number = int(found[1])
    return [
        call("extract_fields", {"fields": _fields(number, WRONG.get(number, ()))}),
        call("complete_extraction", {"summary": "Read."}),
    ]


@pytest.mark.long
async def test_bound_on_the_quality_page_holds_for_the_known_errors(serve):
    async with serve(_model) as server:
        schema = {"type": "object", "properties": {name: {"type": "string"} for name in _fields(1)}}
        made = await server.http.post("/api/schemas", json={"name": "Sheets", "schema": schema})
        schema_id = made.json()["id"]
        url = f"/api/schemas/{schema_id}/max_error"
        assert (await server.http.put(url, json={"max_error": 0.01})).status_code == 200
        numbers: dict[str, int] = {}

        async def read(number: int) -> None:
            document_id = await server.upload(f"{number}.txt", _page(number).encode())
            numbers[str(document_id)] = number
            await server.extract(document_id, schema_id=schema_id)

        for start in range(0, DOCUMENTS, 4):
            await asyncio.gather(*(read(number) for number in range(start, min(start + 4, DOCUMENTS))))

        before = (await server.get(f"schemas/{schema_id}/quality"))["review"]["claim"]
        assert before["values"] + before["waiting"] == DOCUMENTS * FIELDS
        audited, wrong = set[tuple[int, str]](), set[tuple[int, str]]()
        while items := (await server.get(f"inbox?kind=value&schema_id={schema_id}&limit=50"))["items"]:
            by_extraction: dict[tuple[str, int], list[str]] = {}
            for item in items:
                by_extraction.setdefault((item["extraction_id"], numbers[item["document_id"]]), []).append(item["path"])
            for (extraction_id, number), names in by_extraction.items():
                version = (await server.extraction(extraction_id))["version"]
                right = _fields(number)
                answer = await server.http.patch(
                    f"/api/extractions/{extraction_id}/fields",
                    json=[{"path": name, "value": right[name]} for name in names],
                    headers={"If-Match": str(version)},
                )
                assert answer.status_code == 200, answer.text
                read_values = _fields(number, WRONG.get(number, ()))
                audited |= {(number, name) for name in names}
                wrong |= {(number, name) for name in names if read_values[name] != right[name]}
        claim = (await server.get(f"schemas/{schema_id}/quality"))["review"]["claim"]
        assert (claim["audited"], claim["wrong"], claim["waiting"]) == (len(audited), len(wrong), 0)
        assert claim["values"] == DOCUMENTS * FIELDS - len(audited)
        # (About 400 of 4,000: with fewer than 300 once in a million times.)
        assert claim["audited"] >= 299
        assert claim["at_most"] == pytest.approx(upper_bound(len(wrong), len(audited)))
        assert claim["needed"] == audits_needed(len(wrong), 0.01)
        # The claim over time ends with the claim; behind its numbers are the values.
        (*_, week) = (await server.get(f"schemas/{schema_id}/quality"))["review"]["weeks"]
        assert {key: week[key] for key in ("audited", "wrong", "at_most")} == {
            key: claim[key] for key in ("audited", "wrong", "at_most")
        }
        shown = (await server.get(f"schemas/{schema_id}/quality/values?show=wrong"))["items"]
        assert {(numbers[one["document_id"]], one["path"]) for one in shown} == wrong
        left = sum(len(fields) for fields in WRONG.values()) - len(wrong)
        assert left / claim["values"] <= claim["at_most"]

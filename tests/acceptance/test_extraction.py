"""One document through the whole service: the real CLI, a scripted model, a real Postgres."""

from __future__ import annotations

import json

import pytest

from fieldmark.offline_model.messages import call, text, thinking
from fieldmark.testing.script import Script

pytestmark = pytest.mark.anyio


@pytest.mark.story
async def test_document_is_extracted_into_fields(serve):
    script = Script(
        [
            [thinking("I read first."), call("get_document_text", {})],
            [call("identify_document", {"document_type": "invoice", "confidence": 0.9})],
            [
                call(
                    "extract_fields",
                    {
                        "fields": {"number": "1", "vendor": {"name": "Acme"}},
                        "confidences": {"number": 0.9, "vendor.name": 0.8},
                        "evidence": {"number": {"quote": "Invoice number: 1", "page": 1}},
                    },
                )
            ],
            [call("complete_extraction", {})],
            [text("Done.")],
        ]
    )
    async with serve(script) as server:
        document_id = await server.upload_text()
        answer = await server.http.post("/api/agent/extract", json={"document_id": str(document_id)})
        assert answer.status_code == 200, answer.text
        result = answer.json()
        assert result["status"] == "completed" and result["answer"] == "Done."
        extraction = result["extraction"]
        assert extraction["document_type"] == "invoice" and extraction["status"] == "completed"
        assert extraction["extracted_fields"] == {"number": "1", "vendor": {"name": "Acme"}}
        # The location is the one found on the page; the agent's quote is stored next to it.
        assert extraction["confidence_scores"] == {"number": 1.0, "vendor.name": 0.0}
        found, missing = extraction["evidence"]["number"], extraction["evidence"]["vendor.name"]
        assert (found["state"], found["match"], found["page"], found["quote"]) == ("found", "exact", 1, "1")
        ((x0, y0, x1, y1),) = found["boxes"]
        assert 0 <= x0 < x1 <= 1 and 0 <= y0 < y1 <= 1
        assert found["claim"] == {"confidence": 0.9, "quote": "Invoice number: 1", "page": 1}
        assert (missing["state"], missing["boxes"]) == ("not_found", [])
        assert missing["claim"] == {"confidence": 0.8, "quote": None, "page": None}
        again = await server.http.get(f"/api/extractions/{extraction['id']}")
        assert again.json() == extraction
        events = await server.http.get(f"/api/runs/{result['run_id']}/events")
        said = [json.loads(line[6:]) for line in events.text.splitlines() if line.startswith("data: ")]
        assert said[0] == {"type": "run", "run_id": result["run_id"], "extraction_id": extraction["id"]}
        assert said[1] == {"type": "thinking", "thinking": "I read first."}
        assert said[-1]["complete"] is True and said[-2] == {"type": "text", "text": "Done."}

"""Routes accept all query parameters that OpenAPI describes."""

from __future__ import annotations

from uuid import uuid4

import pytest

pytestmark = pytest.mark.anyio


async def test_every_described_query_parameter_is_accepted(serve, openapi):
    async with serve() as server:
        count = 0
        for path, item in openapi["paths"].items():
            for verb, operation in item.items():
                names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
                if not path.startswith("/api/") or not names:
                    continue
                url = path.replace("{number}", "1")
                for name in ("document_id", "extraction_id", "run_id"):
                    url = url.replace(f"{{{name}}}", str(uuid4()))
                answer = await server.http.request(verb, url, params=dict.fromkeys(names, "1"), json={})
                assert "Unknown query parameter" not in answer.text, (verb, path)
                count += 1
        assert count >= 8

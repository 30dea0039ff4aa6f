"""A query parameter that a route does not know is refused, with those that it knows; one that it knows is not."""

from __future__ import annotations

from uuid import uuid4

import pytest

pytestmark = pytest.mark.anyio


async def test_every_parameter_that_is_described_is_known(serve, openapi):
    async with serve() as server:
        asked = 0
        for path, item in openapi["paths"].items():
            for verb, operation in item.items():
                names = [one["name"] for one in operation.get("parameters", []) if one["in"] == "query"]
                if not path.startswith("/api/") or not names:
                    continue
                place = path.replace("{number}", "1")
                for name in ("document_id", "extraction_id", "run_id"):
                    place = place.replace(f"{{{name}}}", str(uuid4()))
                given = await server.http.request(verb, place, params=dict.fromkeys(names, "1"), json={})
                assert "Unknown query parameter" not in given.text, (verb, path)
                asked += 1
        assert asked >= 8

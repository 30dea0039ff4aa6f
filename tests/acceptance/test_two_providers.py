"""A second model of another provider, end to end: it gets its own key, and no value of the first."""

from __future__ import annotations

import json

import pytest
from starlette.requests import Request
from starlette.responses import Response

from fieldmark.offline_model.messages import call
from fieldmark.offline_model.server import OfflineModel
from fieldmark.testing.script import Script


class Provider(OfflineModel):
    """A model's service that keeps the headers of requests, too."""

    headers: list[dict[str, str]]

    async def _messages(self, request: Request) -> Response:
        self.headers = [*getattr(self, "headers", []), dict(request.headers)]
        return await super()._messages(request)


pytestmark = [pytest.mark.anyio, pytest.mark.real_cli("each provider's address and key are in its environment")]

TEXT = "Invoice number: 17\nTotal: 12.50 EUR\nVAT: 2.00 EUR\n"
FIRST = {"number": "No 71-X", "total": 9912.5, "vat": 2}
SECOND = {"number": "17", "total": 12.5, "vat": 2}


@pytest.mark.story
async def test_second_provider_gets_its_own_key_and_no_value_of_the_first(serve):
    first = Script([[call("extract_fields", {"fields": FIRST, "summary": "The number is No 71-X."})]])
    async with Provider(Script([[call("submit_reading", {"fields": SECOND})]])) as other:
        second = {
            "second_model": "gpt-6",
            "second_base_url": other.base_url,
            "second_auth_token": "second-token",
            "second_model_price": "1/2",
        }
        async with serve(first, anthropic_api_key="first-key", **second) as server:
            changed = await server.http.patch(
                f"/api/organisations/{server.scope.org_id}", json={"second_reading": "all"}
            )
            assert changed.status_code == 200, changed.text
            run = await server.extract(await server.upload_text(TEXT), max_cost_usd=1)
            found = run["second_reading"]
            assert (found["code"], found["agrees"], found["differs"], found["is_same_vendor"]) == (None, 1, 2, False)
            assert run["extraction"]["extracted_fields"] == FIRST
            total = run["extraction"]["evidence"]["total"]
            assert (total["state"], total["second_reading"]["value"]) == ("not_found", 12.5)

            sent = json.dumps([other.requests, other.headers])
            assert "second-token" in sent and "first-key" not in sent
            assert not [value for value in ("71-X", "9912") if value in sent]
            assert {one["model"] for one in other.requests} == {"gpt-6"}
            assert "second-token" not in json.dumps(server.model.requests)

            # Its cost is the run's, and usage lists both.
            child = await server.get(f"runs/{found['run_id']}")
            assert (child["parent_run_id"], child["agent"]) == (run["run_id"], "second_reading")
            whole = (await server.get(f"runs/{run['run_id']}"))["cost_usd"]
            assert 0 < child["cost_usd"] < whole == run["cost_usd"]
            usage = (await server.get("usage"))["items"]
            assert {(one["agent"], one["model"]) for one in usage} == {
                ("extraction", "claude-sonnet-5"),
                ("second_reading", "gpt-6"),
            }
            # The next run's estimated cost includes its second reading.
            assert (await server.get("documents/count"))["average_cost_usd"] == whole

"""/docs: the API reference in the package."""

from __future__ import annotations

import re

import httpx
import pytest

from fieldmark.api.app import create_app
from fieldmark.settings import Settings

pytestmark = pytest.mark.anyio


async def test_the_reference_has_every_operation_and_loads_nothing(openapi, tmp_path):
    app = create_app(Settings(_env_file=None, home=tmp_path), with_worker=False)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://a") as http:
        answer = await http.get("/docs", headers={"accept": "text/html"})
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/html")
    operations = {operation["operationId"] for item in openapi["paths"].values() for operation in item.values()}
    shown = set(re.findall(r'<details id="(\w+)"', answer.text))
    assert shown == operations | set(openapi["components"]["schemas"])
    assert not re.search(r"<(script|link|img|iframe)|url\(|@import", answer.text)
    links = re.findall(r'href="([^"]*)"', answer.text)
    assert {one for one in links if not one.startswith("#")} == {"openapi.json"}
    assert operations <= {one[1:] for one in links if one.startswith("#")} <= shown | {"objects"}
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert "{{" not in answer.text and "Undefined" not in answer.text

"""The API's routes, as OpenAPI describes them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fieldmark.api.app import create_app
from fieldmark.settings import Settings


@pytest.fixture(scope="session")
def openapi() -> dict[str, Any]:
    return create_app(Settings(_env_file=None)).openapi()


@pytest.fixture(scope="session")
def openapi_routes(openapi: dict[str, Any]) -> set[tuple[str, str]]:
    """Return (method, path) of every route, with `{}` for each path parameter."""
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)) for path, item in openapi["paths"].items() for method in item
    }

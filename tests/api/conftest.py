"""What the routes' tests share: the routes themselves, as the OpenAPI tells of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from fieldmark.api.app import create_app
from fieldmark.settings import Settings


@pytest.fixture(scope="session")
def openapi() -> dict[str, Any]:
    """The description that clients are generated from."""
    return create_app(Settings(_env_file=None)).openapi()


@pytest.fixture(scope="session")
def openapi_routes(openapi: dict[str, Any]) -> set[tuple[str, str]]:
    """(method, path) of every route, `{}` for each parameter."""
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)) for path, item in openapi["paths"].items() for method in item
    }

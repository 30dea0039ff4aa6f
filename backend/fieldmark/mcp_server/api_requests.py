"""The requests that MCP tools send to the HTTP API, with the credentials of the MCP client."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx

from fieldmark.domain.json_values import as_object


class ApiRefusal(Exception):
    """An error response of the API: its code, its sentence and its further members, such as `errors`."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        super().__init__(str(problem.get("detail", "")))
        self.problem = {name: value for name, value in problem.items() if name not in ("type", "title", "status")}


class ApiRequests:
    """Sends requests for one caller. The API authenticates the caller, checks their rights, and limits and logs each
    request, as for every other client."""

    def __init__(self, http: httpx.AsyncClient, headers: Mapping[str, str] | None = None) -> None:
        self._http = http
        self.base_url = str(http.base_url).rstrip("/")
        self._headers = {"Accept": "application/json", "X-By-Agent": "true", **(headers or {})}

    async def get(self, path: str, *, wait_seconds: int = 0, **query: object) -> Any:
        """GET a path and return its JSON. Parameters that are None are left out. Raise ApiRefusal."""
        parameters = {name: value for name, value in query.items() if value is not None}
        return await self._send("GET", path, wait_seconds, params=parameters)

    async def post(self, path: str, body: Mapping[str, object], *, wait_seconds: int = 0) -> Any:
        """POST JSON without the members that are None, and return the response's JSON. Raise ApiRefusal."""
        content = {name: value for name, value in body.items() if value is not None}
        return await self._send("POST", path, wait_seconds, json=content)

    async def upload(self, filename: str, content: bytes) -> Any:
        """Upload a file. Return the document. Raise ApiRefusal."""
        return await self._send("POST", "/api/documents", 0, files={"file": (filename, content)})

    async def _send(self, method: str, path: str, wait_seconds: int, **request: Any) -> Any:
        headers = {**self._headers, "Prefer": f"wait={wait_seconds}"}
        try:
            response = await self._http.request(method, path, headers=headers, **request)
            answer: Any = json.loads(response.content) if response.content else {}
        except (httpx.HTTPError, ValueError, RecursionError):
            raise ApiRefusal({"code": "unavailable", "detail": "The service did not respond. Try again."}) from None
        if response.is_success:
            return answer
        raise ApiRefusal(as_object(answer) or {"code": "unavailable", "detail": "The service failed. Try again."})

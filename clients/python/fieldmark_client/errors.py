"""Errors of the client."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class FieldmarkError(Exception):
    """The service refused a request. `code` is stable, `problem` is the whole response. `status` is 0 and the code
    `unreachable` if there was no response, and `timeout` if a run took longer than the caller waits."""

    def __init__(self, status: int, code: str, message: str, problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(f"{message} [{code}]")
        self.status = status
        self.code = code
        self.problem: Mapping[str, Any] = problem or {}


class InvalidSignature(Exception):
    """A request to a webhook is not from the service, or too old."""

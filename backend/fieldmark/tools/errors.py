"""Errors a tool raises to refuse a call. The text is for the model, the code for programs.

ModelRetry  the model can fix the call: the text says how
ToolFailed  calling again cannot succeed: the text says why
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import JsonValue


class ToolRefusal(Exception):
    """Base class of ModelRetry and ToolFailed."""

    default_code: ClassVar[str]

    def __init__(
        self,
        text: str,
        code: str | None = None,
        data: JsonValue = None,
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        """`data` is for the model, `details` for the API's error response."""
        super().__init__(text)
        self.details: Mapping[str, Any] = details or {}
        self.text = text
        self.code = code or self.default_code
        self.data = data


class ModelRetry(ToolRefusal):
    """The model can fix the call and retry it."""

    default_code = "invalid"


class ToolFailed(ToolRefusal):
    """The call cannot succeed, even with other arguments."""

    default_code = "failed"

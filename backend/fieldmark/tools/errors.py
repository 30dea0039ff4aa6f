"""How a tool refuses a call. The text is for the model, the code for programs.

ModelRetry  the model can mend the call: the text says how
ToolFailed  it cannot: the text says why
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import JsonValue


class ToolRefusal(Exception):
    """Base of both."""

    default_code: ClassVar[str]

    def __init__(self, text: str, code: str | None = None, data: JsonValue = None) -> None:
        super().__init__(text)
        self.text = text
        self.code = code or self.default_code
        self.data = data


class ModelRetry(ToolRefusal):
    """The model can mend this call."""

    default_code = "invalid"


class ToolFailed(ToolRefusal):
    """The model cannot mend this call."""

    default_code = "failed"

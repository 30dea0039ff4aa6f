"""Why a source cannot be read."""

from __future__ import annotations


class SourceFailure(Exception):
    """A source cannot be read now. `code` is one of the codes in docs/sources.md."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code

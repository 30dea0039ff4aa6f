"""Errors of reading a file. Each has a stable code, and a message for the person who supplied the file."""

from __future__ import annotations

from typing import ClassVar


class PagewordsError(Exception):
    """Base of all expected failures."""

    code: ClassVar[str]


class Unreadable(PagewordsError):
    """The file cannot be read within the limits."""

    code = "unreadable"


class Damaged(Unreadable):
    code = "damaged"


class WrongType(Unreadable):
    code = "wrong_type"


class NoText(Unreadable):
    code = "no_text"


class OverLimit(Unreadable):
    code = "over_limit"


class PasswordProtected(Unreadable):
    code = "password"


class Unsupported(Unreadable):
    code = "unsupported"


class NotInstalled(Unreadable):
    """Reading the file needs OCR, and its packages are not installed."""

    code = "not_installed"


class NoSuchPage(PagewordsError):
    """The page, or a file type with pages, does not exist."""

    code = "not_found"


class ReadersUnavailable(PagewordsError):
    """The processes that read files do not run. The file is not the cause."""

    code = "unavailable"

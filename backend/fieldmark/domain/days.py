"""Calendar dates as text."""

from __future__ import annotations

from datetime import date


def is_iso_date(text: str) -> bool:
    """Return whether the text is an existing date, formatted YYYY-MM-DD."""
    try:
        return date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False

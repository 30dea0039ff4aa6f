"""A photo of a receipt, recognised once for all tests that look at what comes of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmark.documents.reading.pages import DocumentContent, Limits
from fieldmark.documents.reading.sandbox import read_file

RECEIPT = "sm_lidl_02032020_02_00716.jpg"
together = pytest.mark.xdist_group("receipt")
"""For these tests: in one process, since that is what knows the reading."""
_readings: list[DocumentContent] = []


async def receipt() -> DocumentContent:
    if not _readings:
        path = Path(__file__).parents[1] / "docs" / "samples" / RECEIPT
        _readings.append(await read_file(path, "photo.jpg", Limits(seconds=600)))
    return _readings[0]

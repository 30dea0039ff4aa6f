"""The extraction agent's spec."""

from __future__ import annotations

from pathlib import Path

from fieldmark.agents.extraction.tools import (
    COMPLETE_EXTRACTION,
    EXTRACT_FIELDS,
    GET_CURRENT_EXTRACTION,
    IDENTIFY_DOCUMENT,
    REMOVE_FIELD,
    UPDATE_FIELD,
)
from fieldmark.agents.spec import AgentSpec
from fieldmark.tools.documents import GET_DOCUMENT_TEXT, SEARCH_DOCUMENT
from fieldmark.tools.toolset import Toolset

EXTRACTION = AgentSpec(
    name="extraction",
    folder=Path(__file__).parent,
    toolset=Toolset(
        GET_DOCUMENT_TEXT,
        SEARCH_DOCUMENT,
        GET_CURRENT_EXTRACTION,
        IDENTIFY_DOCUMENT,
        EXTRACT_FIELDS,
        UPDATE_FIELD,
        REMOVE_FIELD,
        COMPLETE_EXTRACTION,
    ),
)

"""All agents, by name."""

from __future__ import annotations

from collections.abc import Mapping

from fieldmark.agents.extraction.agent import EXTRACTION
from fieldmark.agents.spec import AgentSpec

AGENTS: Mapping[str, AgentSpec] = {agent.name: agent for agent in (EXTRACTION,)}

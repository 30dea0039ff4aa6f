"""Options of the CLI."""

from __future__ import annotations

from uuid import uuid4

import pytest

from fieldmark.agents.registry import AGENTS
from fieldmark.domain.statuses import Effort
from fieldmark.runs.engine.binding import RunBinding
from fieldmark.runs.engine.options import CliKind, ModelService, agent_options


@pytest.mark.parametrize(
    ("agent", "effort_setting", "effort", "thinking"),
    [
        ("extraction", None, "medium", "disabled"),
        ("library", None, "high", "adaptive"),
        ("extraction", Effort.HIGH, "high", "adaptive"),
        ("library", Effort.LOW, "low", "disabled"),
    ],
)
def test_setting_overrides_the_effort_of_agents(tmp_path, agent, effort_setting, effort, thinking):
    kind, service = CliKind.of(AGENTS[agent], "m", max_turns=2), ModelService(None, "k", None, effort=effort_setting)
    options = agent_options(kind, RunBinding(uuid4()), tmp_path, service=service, cpu_seconds=1)
    assert (options.effort, options.thinking) == (effort, {"type": thinking})

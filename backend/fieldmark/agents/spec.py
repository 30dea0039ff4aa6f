"""What makes an agent: a name, a prompt, a set of tools and limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from fieldmark.tools.toolset import Toolset


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent. `folder` holds its texts: prompt.md, `<task>.md` for what the first message of a task says, and
    resumed.md for what it is told when the task was begun before and broken off.

    The prompt and the tools are the same for every run, so that the provider's cache is hit; all that is particular to
    one document stands in the first message.
    """

    name: str
    folder: Path
    toolset: Toolset
    # Who admits the agent's writes where the request does not say: auto or ask.
    approval: str = "auto"

    @property
    def prompt(self) -> str:
        return self._text("prompt")

    @property
    def resumed(self) -> str:
        """What the agent is told when its task was begun before and broken off."""
        return self._text("resumed").strip()

    def first_message(self, task: str, **particulars: Any) -> str:
        """What the agent is told first. Raises KeyError for a particular that the task's text needs and did not get."""
        return Template(self._text(task)).substitute(particulars).strip()

    def _text(self, name: str) -> str:
        return (self.folder / f"{name}.md").read_text(encoding="utf-8")

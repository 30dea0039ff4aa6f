"""What makes an agent: a name, a prompt, a set of tools and limits."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from fieldmark.tools.toolkit import Toolkit


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent. `folder` holds its texts: prompt.md, and `<task>.md` for what the first message of a task says.

    The prompt and the tools are the same for every run, so that the provider's cache is hit; all that is particular to
    one document stands in the first message.
    """

    name: str
    folder: Path
    toolkit: Toolkit

    @property
    def prompt(self) -> str:
        return (self.folder / "prompt.md").read_text(encoding="utf-8")

    def first_message(self, task: str, **particulars: Any) -> str:
        """What the agent is told first. Raises KeyError for a particular that the task's text needs and did not get."""
        text = (self.folder / f"{task}.md").read_text(encoding="utf-8")
        return Template(text).substitute(particulars).strip()

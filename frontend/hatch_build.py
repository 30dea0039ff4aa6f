"""Has the page built while Fieldmark is installed. All else is in building.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import building  # beside this file, which is loaded by its path


class PageBuildHook(BuildHookInterface):
    """What hatchling asks."""

    def dependencies(self) -> list[str]:
        """Node, and only where something will be built: it is 60 MB."""
        return [] if building.mode() == "skip" or building.is_up_to_date() else [building.NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before files are gathered."""
        wanted = building.mode()
        if wanted == "skip" or building.is_up_to_date():
            return
        try:
            building.build()
        except building.CannotBuild as error:
            if wanted == "require":
                raise
            self.app.display_warning(f"Fieldmark is installed without its page. {error}")

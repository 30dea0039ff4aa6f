"""Builds the web UI during `pip install`. See building.py."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

sys.path.insert(0, str(Path(__file__).parent))

import building  # in this folder

DOCS = Path(__file__).parents[1] / "docs"


class PageBuildHook(BuildHookInterface):
    """The build hook that hatchling calls."""

    def dependencies(self) -> list[str]:
        """Return Node's wheel (60 MB), only if the web UI will be built."""
        return [] if building.mode() == "skip" or building.is_up_to_date() else [building.NODE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects the files. A wheel also contains the pages of the documentation. An sdist
        contains the built web UI: to install it, no Node is needed."""
        pages = [*DOCS.glob("*.md"), *DOCS.glob("recipes/*.md")]
        if self.target_name == "wheel":
            build_data["force_include"] |= {str(page): f"fieldmark/docs/{page.relative_to(DOCS)}" for page in pages}
        mode = building.mode()
        if mode == "skip" or building.is_up_to_date():
            return
        try:
            building.build()
        except building.CannotBuild as error:
            if mode == "require":
                raise
            self.app.display_warning(f"Fieldmark is installed without its web UI. {error}")

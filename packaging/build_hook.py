"""Build hook that adds shell completions and the manual page, which `make dist` wrote to `packaging/share/`.

They are generated from the argument parsers, which need hotdesk's dependencies, while a build has only hatchling. So a
package that is built directly from a clone has none; `hotdesk completion` prints them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ShareBuildHook(BuildHookInterface[Any]):
    """Adds every file of `packaging/share/`: to a wheel's data files below `share/`, and to an sdist unchanged."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        above = Path(self.root) / ("packaging" if self.target_name == "wheel" else ".")
        found = sorted(Path(self.root, "packaging/share").rglob("*"))
        files = {str(each): str(each.relative_to(above)) for each in found if each.is_file()}
        key = "shared_data" if self.target_name == "wheel" else "force_include"
        if version != "editable":
            build_data[key].update(files)

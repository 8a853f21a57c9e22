"""What a wheel holds beside its packages: the golden set. An editable install has it where it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CODE = "qwen3_golden"


class GoldenSet(BuildHookInterface[Any]):
    """Puts golden/, all but its package, into the package as `data`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is "standard" or "editable"."""
        if version == "standard":
            golden = Path(self.root) / "golden"
            data = (path for path in sorted(golden.iterdir()) if path.name != _CODE)
            build_data["force_include"].update({str(path): f"{_CODE}/data/{path.name}" for path in data})

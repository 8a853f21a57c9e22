"""What a wheel holds beside its packages: the golden set, the pages, and the tests that judge recordings.

An editable install has all of them where they stand.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_CODE = "qwen3_golden"
_TESTS = ("conftest.py", "test_parity_components.py", "test_parity_plumbing.py", "test_parity_tokenization.py")
"""Those of tests/parity that judge recordings, and nothing that seeds a bug."""
_FACE = '"""The tests that judge recordings: pytest --pyargs qwen3_parity.tests --parity-candidate=DIR"""\n'


class WholeWheel(BuildHookInterface[Any]):
    """Puts golden/, all but its package, into that package as `data`, docs/*.md beside it, tests into qwen3_parity."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling; `version` is "standard" or "editable"."""
        if version != "standard":
            return
        golden, tests = Path(self.root) / "golden", Path(self.root) / "tests" / "parity"
        data = (path for path in sorted(golden.iterdir()) if path.name != _CODE)
        build_data["force_include"].update({str(path): f"{_CODE}/data/{path.name}" for path in data})
        pages = sorted((Path(self.root) / "docs").glob("*.md"))
        build_data["force_include"].update({str(page): f"{_CODE}/docs/{page.name}" for page in pages})
        build_data["force_include"].update({str(tests / name): f"qwen3_parity/tests/{name}" for name in _TESTS})
        self._made = TemporaryDirectory()
        face = Path(self._made.name) / "__init__.py"
        face.write_text(_FACE, encoding="utf-8")
        build_data["force_include"][str(face)] = "qwen3_parity/tests/__init__.py"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is there."""
        if version == "standard":
            self._made.cleanup()

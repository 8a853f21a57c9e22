"""The request before: the golden of the case that ran first on the same model object, whose remains may be found."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from qwen3_golden import Array, Recording, read
from qwen3_spec.site import Site


def earlier(site: Site) -> Recording | None:
    """The golden of the request that ran before the site's; None where it ran alone, or that golden is not at hand."""
    of: Recording = site.values.golden or site.values.recording
    return _beside(str(of.source), of.case.after) if of.case.after else None


@lru_cache(maxsize=4)
def _beside(golden: str, after: str) -> Recording | None:
    """The case `after` of the same set as a golden's file; it is looked for by name, which is no path."""
    files = Path(golden).parent.parent.glob("*/*.pb")
    file = next((path for path in files if f"{path.parent.name}/{path.stem}" == after), None)
    return None if file is None else read(file, digests=True)


def earlier_input(site: Site, name: str) -> Array | None:
    """What the request before was given as the input `name`; None without one."""
    before = earlier(site)
    tap = None if before is None else before.get(name, 0)
    return None if tap is None else tap.values()

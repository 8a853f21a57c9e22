"""Rotations by angles that nobody recorded: how far they are off, and judged by the nearest honest ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qwen3_golden import Array
from qwen3_parity.blame.evidence import Evidence
from qwen3_spec.angles import ULPS, ulps_off
from qwen3_spec.heads import heads_first
from qwen3_spec.site import Result, Site

_ANGLE = 100
"""So many times the honest distance is no angle any more: something else is wrong, and it is looked for with the
frequencies as they should be."""


def angles_off(evidence: Evidence) -> tuple[str, Array, Array] | None:
    """Of a rotation whose cos and sin are not recorded: the tap of its inv_freq, that itself, and by how many ulp
    another one explains the rotation better, both `[pair]`. None for a rotation by recorded angles.
    """
    site = evidence.site
    table = site.names[1]
    if site.values.recorded(table, site.step) is not None:
        return None
    table_site = site.values.site(table, site.step)
    if table_site is None or len(table_site.inputs) < 2:
        return None
    positions, inv_freq = table_site.inputs
    x = heads_first(site.inputs[0], site.config.head_dim)
    if x.shape != evidence.actual.shape or positions.shape != (x.shape[0], x.shape[2]):
        return None
    return table_site.names[1], inv_freq, ulps_off(x, evidence.actual, positions, inv_freq, evidence.judged)


def by_nearest_angles(evidence: Evidence) -> Evidence:
    """The evidence with the inv_freq that explains the rotation best, at most `ULPS` off in each pair.

    What is left is judged by the rotation's own unit and the rounding of cos and sin, that of the angle among it.
    """
    explanation = angles_off(evidence)
    if explanation is None:
        return evidence
    name, inv_freq, ulps = explanation
    step = np.spacing(inv_freq.astype(np.float32)).astype(np.float64)
    near = np.where(np.abs(ulps) <= _ANGLE * ULPS, np.clip(ulps, -ULPS, ULPS), 0)
    nearest = inv_freq + near * step
    values, site = evidence.site.values, evidence.site
    inv_freq_place = values.place(name)
    assert inv_freq_place is not None

    def honest(_site: Site) -> Result:
        return nearest, None

    again = values.another(overrides={**values.overrides, inv_freq_place.pattern: honest}).site(
        site.place.name, site.step
    )
    return evidence if again is None else replace(evidence, site=again)

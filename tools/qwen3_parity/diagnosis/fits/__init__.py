"""What the numbers of a wrong op say by themselves, when no named mistake reproduces them."""

from qwen3_parity.diagnosis.fits.approximated import approximated
from qwen3_parity.diagnosis.fits.concentration import concentrated, size
from qwen3_parity.diagnosis.fits.factors import axis_factor, axis_offset, factor
from qwen3_parity.diagnosis.fits.finding import Finding, Fit
from qwen3_parity.diagnosis.fits.masks import bands
from qwen3_parity.diagnosis.fits.places import axis_order, permuted, shape, shift
from qwen3_parity.diagnosis.fits.values import dropout, grid, not_finite

FITS: tuple[Fit, ...] = (
    shape,
    not_finite,
    bands,
    factor,
    dropout,
    axis_order,
    shift,
    permuted,
    axis_offset,
    axis_factor,
    grid,
    approximated,
    concentrated,
    size,
)
"""In the order of preference among findings that tell equally much."""

__all__ = ["FITS", "Finding", "Fit"]

"""What the numbers of a wrong op say together with the formula's site, when no named mistake reproduces them."""

from qwen3_parity.diagnosis.fits.caches import slot_map
from qwen3_parity.diagnosis.fits.finding import Finding, Fit
from qwen3_parity.diagnosis.fits.requests import earlier_request
from qwen3_parity.diagnosis.fits.shapes import shape
from qwen3_parity.diagnosis.fits.weights import any_weight

FITS: tuple[Fit, ...] = (shape, slot_map, earlier_request, any_weight)
"""In the order of preference among findings that tell equally much."""

__all__ = ["FITS", "Finding", "Fit"]

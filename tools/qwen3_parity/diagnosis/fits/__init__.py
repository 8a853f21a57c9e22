"""What the numbers of a wrong op say together with the formula's site, when no named mistake reproduces them."""

from qwen3_parity.diagnosis.fits.finding import Finding, Fit
from qwen3_parity.diagnosis.fits.shapes import shape

FITS: tuple[Fit, ...] = (shape,)
"""In the order of preference among findings that tell equally much."""

__all__ = ["FITS", "Finding", "Fit"]

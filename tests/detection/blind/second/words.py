"""Further words of mechanisms, beside those of the first draw; the answers have them as <NAME>."""

from __future__ import annotations

WORDS = {
    # Numbers end at a largest one.
    "CLIP": r"\bclip|clamp|satur|\bcapped|bounded|\blimit|\bcut (off|at)|overflow",
    # A key cannot be seen.
    "HIDDEN": r"\bhid(es|den|ing|e)?\b|invisible|not (seen|visible)|unseen|masked|dropp|drops?\b|discard|\blost\b"
    r"|forg|evict|cut off|truncat|missing|ignored",
    # A key can be seen.
    "SEEN": r"visible|\bseen|not hidden|ignored|missing|left out|forg|not applied|unmasked|attended",
    # Two things are one.
    "SAME": r"\bsame\b|\bequal|identical|\bshared?\b|copies\b|copy\b|copied|duplicat|\bone and the\b"
    r"|all (hold|read|have)",
    # No gradient comes through.
    "CUT": r"\bcut\b|no gradients?\b|detach|nothing (comes |goes |gets )?back|(passes|gets|receives?) (nothing|none)"
    r"|untrained|gradients? (is|are|stays?) (all )?0(?![\d.,])|vanish|not (differentiable|propagated|passed)",
    # A number is added everywhere.
    "ADDED": r"\badded|\badds|\bplus\b|\boffset|\bshifted by|\bconstant|\bbias|\+ ?[a-z(]",
    # Where the layer's input goes past a block.
    "SKIP": r"residual|\bskip\b|skip.connection|identity|\bstream|short.?cut|bypass",
}

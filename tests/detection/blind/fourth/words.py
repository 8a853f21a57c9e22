"""Further words of mechanisms, beside those of the earlier draws; the answers have them as <NAME>."""

from __future__ import annotations

WORDS = {
    # A window does not act.
    "NO_WINDOW": r"left out|leaves (\w+ )*out|missing|dropped|ignored|skipp|not (read|used|applied|there)|unread"
    r"|lacks?\b|\bno\b|\bnone\b|without|forg|\bfull\b|whole|global|unlimited|unwindowed|discard|lost"
    r"|(all|every) (the )?(earlier|past|older|key)",
    # Something holds nothing.
    "NOTHING": r"\bzero|\b(is|are|were|holds?|stays?|reads?|gives?|=) (all )?0(?![\d.,])|: 0$|empty|never.?written"
    r"|not.?written|nothing (was |is )?(there|written)",
    # What nobody computes or writes.
    "UNWRITTEN": r"\bzero|\b(is|are|were|holds?|stays?|gives?|=) (all )?0(?![\d.,])|: 0$|empty|never"
    r"|not (computed|written|processed|run|filled)|unwritten|uncomputed|left out|missing|skipp|dropp|\blost\b",
    # A module gives what it gets.
    "PASSED": r"identity|pass(es|ed)? (on|through)|(equals?|is|=|are|gives) (its|the|their) (own )?inputs?\b",
}

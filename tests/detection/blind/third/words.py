"""Further words of mechanisms, beside those of the earlier draws; the answers have them as <NAME>."""

from __future__ import annotations

WORDS = {
    # A number is 2 times as large, or something is done a second time.
    "DOUBLE": r"twice|doubl|two times|\b2 times\b|\b2(\.0+)? ?[×x·*]|[×x·*] ?2(\.0+)?\b|multiplied by 2\b|times 2\b"
    r"|\bagain\b|factor (of )?2\b|scaled? (by|of|is) 2\b|once more|second time|a further time|· ?2\b",
    # A norm, a scale, a number is not the config's.
    "CODED": r"hard.?cod|constant|\bfixed\b|default|config|ignor|instead of|another|\bother\b|stands in the code",
    # Where something is multiplied by a matrix or a norm's weight, nothing is.
    "UNUSED": r"left out|missing|dropped|ignored|skipp|unread|unused|lacks?\b|forg|not (applied|read|used|multiplied)",
    # A wide matrix is read by the places of another layout.
    "LAYOUT": r"permut|shuffl|\border|interleav|exchang|swap|layout|stack|grouped|regroup|scrambl|mixed up",
    # Something ends at a largest or least value.
    "ENDS": r"satur|clip|clamp|cut off|too early|bounded|reaches (0|1)|\bflat\b|hard.?(sigmoid|swish|tanh|silu)",
    # A token sees what comes behind it.
    "LATER": r"(later|future|following) (key|token|position)s?|non.?causal|acausal|causality is (lost|missing|left out)"
    r"|(not|no|without|nothing|never) (is )?causal",
}

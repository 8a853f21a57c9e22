"""Words in which a mechanism may be said, as parts of regular expressions; `answers.txt` has them as <NAME>."""

from __future__ import annotations

WORDS = {
    # Something holds nothing.
    "ZERO": r"\bzeros?\b|\b(is|are|were|holds?|stays?|reads?|gives?|=) (all )?0(?![\d.,])|: 0$|empty|never.?written"
    r"|not.?written|nothing (was |is )?(there|written)",
    # Something is multiplied by a number.
    "FACTOR": r"scal(e|ed|ing)\b|factor|multipl|×|\btimes (too|what|its|the|as)|\bdivided",
    # Where some numbers are to stand there are others.
    "MOVED": r"←|<-|\bfrom\.|slot_map|\bother_|\b(an)?other (row|slot|head|token|tensor|layer|step|request|block)"
    r"|\b(an)?other (channel|column)|exchang|swap|permut|shuffl|shifted|\broll|overwr|copied|repeat|instead of"
    r"|in the place of"
    r"|\b(holds?|stands?|is|are) (what|rows? |slots? |those of|the next)",
    # The numbers are there in another order.
    "ORDER": r"permut|shuffl|\border|interleav|exchang|swap|layout|transpos|by turns|reorder",
    # Numbers were rounded to a narrower float.
    "LOW": r"bf16|bfloat16|f16\b|fp16|float16|half.precision|mantissa|low(er)? precision|\brounded|\brounding|"
    r"significant bits",
    # Numbers were rounded to few steps.
    "GRID": r"[2-8].?bits?\b|int[48]|fp8|float8|e4m3|quanti[sz]|\bgrid|\bdistinct values|\bcodes?\b|\blevels\b",
    # Something does not take part.
    "LEFT_OUT": r"left out|leaves (\w+ )*out|missing|dropped|ignored|skipp|not (applied|read|summed|counted|added)"
    r"|without (its|the|any)|lost|unread|lacks?\b",
    # Something takes part two times.
    "TWICE": r"twice|doubl|two times|× ?2(\.0+)?\b|\b2(\.0+)? ?×|by 2(\.0+)?\b|added again|applied again|once more",
    # A slot of a cache.
    "SLOT": r"slot|key \d|token \d|position",
    # Blocks of keys.
    "SPLIT": r"blocks? of keys|(two|2) (blocks|halves|parts)|each (half|block|part)|halves|by (half|block|part)|split"
    r"|lse|log.?sum.?exp",
    # A rotation did not happen.
    "UNROTATED": r"(not|never) rotated|unrotated|no.(rope|rotation)|identity|before (rope|its rotation)"
    r"|(rope|rotat\w*) .*(missing|skipp|left out|not applied)|passed (on|through)|(equals?|is) (its|the) input"
    r"|from\..*[qk]_norm",
}

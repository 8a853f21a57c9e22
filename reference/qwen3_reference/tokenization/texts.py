"""Texts of the tokenization cases: words, code, numbers, white space, and runs that stress the merges. Name: text."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

LONG_RUN = 10_000
"""Characters of the long run without a space."""

WORDS: Mapping[str, str] = {
    "empty": "",
    "hello": "Hello",
    "greeting": "Hello, world!",
    "sentence": "The quiet harbour wakes before the gulls do, and nobody minds.",
    "question": 'Did she say "maybe", or was it "never"?',
    "capitals": "READ THIS FIRST: NASA and the iPhone13 are not McDonald words.",
    "one_letter": "a",
    "leading_space": " brought along",
    "trailing_space": "left behind ",
    "two_trailing_spaces": "left behind  ",
    "spaces_around": "  both sides  ",
    "double_spaces": "one  two   three    four",
    "contractions": "I'm sure they're late, he'd go, we've seen, it's hers, don't, I'll",
    "contractions_upper": "DON'T, I'LL, WE'RE, SHE'S, THEY'VE, I'M, HE'D",
    "contractions_mixed": "Don'T I'lL We'Re 'S 'T o'sleep l'tis X'REST u'Llama 'tis 'sleep",
    "contractions_before_letters": "we'vex I'min he'dog it'st we'relax they'llama it's'm",
    "contractions_long_s": "it'\u017f and IT'\u017fO",
    "curly_apostrophe": "we’re, don’t, I’ll, ’tis, o’sleep X’REST ‘llama’",
    "prime_and_backtick": "don`t don´t donʼt 5′ 6″",
    "hyphens": "well-known mother-in-law – a dash — another -minus",
    "address": "Write to someone+tag@example.org or see https://example.org/a/b?c=d&e=f#g today.",
    "camel_case": "parseHTTPResponse XMLHttpRequest snake_case_name kebab-case-name SCREAMING_CASE",
    "brackets": "(a) [b] {c} <d> «e» „f“ ‹g›",
    "ellipsis": "Well... so…what?! No!!! Yes??",
    "rare_words": "brutalist floccinaucinihilipilification antidisestablishment zyzzyva",
    "prefix_of_words": "un re pre ing tion th the ther there thereby",
}

CODE: Mapping[str, str] = {
    "arrow": "p->next->value = q->x;",
    "colon_newline": "def f(x):\n    return (x):\n",
    "python": "class A(Base):\n    def __init__(self, n: int = 0) -> None:\n        self.n = n ** 2 // 3  # half\n",
    "c": '#include <stdio.h>\nint main(void) {\n\tprintf("%d\\n", 1 << 3 & ~0xFF);\n\treturn 0;\n}\n',
    "rust": 'let v: Vec<&\'a str> = s.split("::").map(|x| x.trim()).collect::<Vec<_>>();',
    "javascript": "const f = async ({a, ...rest}) => `${a}${rest?.b ?? 'none'}`;",
    "sql": "SELECT name, COUNT(*) FROM t WHERE x <> 'it''s' GROUP BY 1 HAVING COUNT(*) >= 2;",
    "html": '<p class="note">Caf&eacute;<br/>&nbsp;</p><!-- done -->',
    "json": '{"key": [1, 2.5e-3, null], "text": "a\\u00e9\\n", "nested": {"x": {}}}',
    "shell": "for f in *.txt; do grep -E '^[^#]+$' \"$f\" | sed 's/a/b/g' >> out 2>&1; done",
    "markdown": "# Title\n\n## Part\n\n- item\n- [ ] todo\n\n| a | b |\n|---|---|\n\n```sh\nls -la\n```\n",
    "hashes": "# ## ### #### # # ## ## #! #include #a ##b",
    "hash_lines": "#\n##\n# #\n#version: 0.2\n",
    "deep_indent": "if a:\n        if b:\n            c()\n\n\n        d()\n",
    "tabs_indent": "\tif (a) {\n\t\tb();\n\t}\n",
    "diff": "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n-old\n+new\n",
    "operators": "a+=b-=c*=d/=e%=f&&g||h!=i===j<=k>=l<<m>>n**o",
    "regex": r"^(?:\d{3}-)?\w+\.(?=\s)[^\]\\]$",
    "latex": r"\frac{\partial f}{\partial x_{i}} = \sum_{n=0}^{\infty} a_n \quad (1)",
    "percent_and_at": "100%-@user @@ #tag $5.00 ^_^ ~/bin",
}

NUMBERS: Mapping[str, str] = {
    "digit": "7",
    "digit_run": "1234567890",
    "long_run": "3141592653589793238462643383279502884197",
    "spaced": " 1 22 333 4444",
    "decimals": "3.14 -0.5 +1e-10 6.02E23 1,234,567.89 .5 5.",
    "date": "2024-02-29T23:59:59.999+01:00",
    "units": "5kg 10µm 37°C 100% 3rd 42nd v2.0.1",
    "hex": "0xDEADBEEF 0b1010 0o755 #FF8800",
    "letters_between": "a1b2c3 4d5e6f x86_64 h264",
    "telephone": "+49 (0)30 123-456 / 78",
    "fractions": "1/2 ½ 3¾ 10⁻³ x² y₁",
    "roman": "XIV Ⅷ ⅻ ↂ",
    "arabic_indic": "٠١٢٣٤٥٦٧٨٩ and ۰۱۲۳",
    "other_scripts": "१२३ ೧೨೩ ๑๒๓ 〇一二三 １２３ 𝟏𝟐𝟑",
    "circled": "①②⑩ ㉑ ⓪ 🄁",
}

WHITESPACE: Mapping[str, str] = {
    "space": " ",
    "spaces": "     ",
    "tab": "\t",
    "newline": "\n",
    "newlines": "\n\n\n\n",
    "carriage_return": "\r",
    "crlf": "first\r\nsecond\r\n\r\nthird\r\n",
    "lone_cr": "old\rmac\r\rline",
    "tabs_between": "a\tb\t\tc\t \td",
    "spaces_before_newline": "end   \n   start",
    "newline_then_spaces": "end\n\n   start\n ",
    "blank_lines_with_spaces": "a\n  \n\t\n \nb",
    "trailing_mixture": "word \t \n \t",
    "leading_mixture": "\n\t  word",
    "two_before_word": "a  b",
    "three_before_punctuation": "a   .  ,   (b)",
    "spaces_before_digit": "a  1   2",
    "punctuation_newlines": "Stop!\n\nGo.\r\n\r\n?\n",
    "vertical_tab_and_form_feed": "a\x0bb\x0cc \x0b \x0c",
    "no_break_space": "10\u00a0km \u00a0 x\u00a0",
    "unicode_spaces": "a\u2003b\u2009c\u3000d\u1680e\u202ff\u205fg\u2000\u2001h",
    "line_separators": "a\u2028b\u2029c\u0085d",
    "zero_width": "a\u200bb\u200cc\u200dd\u2060e\ufefff",
    "every_space_twice": (
        "a\u2028\u2028b\u0085\u0085c\u00a0\u00a0d\u202f\u202fe\u2007\u2007f\u200b\u200bg\u001c\u001ch\ufeff\ufeffi\u1680\u1680j"
        "\u180e\u180ek\u3000\u3000l"
    ),
    "every_space_alone": (
        "!\x1c!? !\x1d! !\x1f! !\x0b! !\x0c! !\x85! !\xa0! !\u1680! !\u2000! !\u2007! !\u200b! !\u2028! !\u2029! "
        "!\u202f! !\u205f! !\u2060! !\u3000! !\ufeff! !\u180e!"
    ),
    "separators": "a\x1cb\x1dc\x1ed\x1fe \x1c\x1d",
    "aligned_table": "name      |   value\nx         |      12\nlong name |       3\n",
    "sixty_four_spaces": " " * 64 + "x" + " " * 65,
    "eighty_newlines": "\n" * 80,
}

MERGES: Mapping[str, str] = {
    "brutalist": "brutalist",
    "brutalist_in_text": "a brutalist, brutalists' brutalism; the brutal list",
    "dots_and_colons": ".:.: .:.:.:.:",
    "colons_and_dots": ":.:. ::.. ..:: .::.",
    "ababab": "ababab",
    "ababab_long": "abababababababa babababab",
    "aaa": "aaa",
    "aaaaa": "aaaaa aaaaaa aaaaaaa",
    "three_thousand_a": "a" * 3000,
    "thousand_mixed_repeats": "abaab" * 200,
    "hash_merges": "## # # ### # ## ##",
    "across_words": "of the of the. in the\nthe end",
    "across_newlines": "\n\n a\n\n b",
    "equal_neighbours": "lllllll eeee sssss ooooooo",
    "long_word": "internationalizationalisticallyrepresentationlessness",
    "ruler": "-----===== -=-=-=-= ********** ~~~~~~~ ________",
    "ascii_art": "+----------+\n|  /\\_/\\   |\n| ( o.o )  |\n+----------+\n",
    "base64": "VGhpcyB0ZXh0IGlzIG5vdCBzZWNyZXQsIG9ubHkgd3JhcHBlZC4=",
    "long_run": "".join(Random(17).choices("etaoinshrdlu", k=LONG_RUN)),
}

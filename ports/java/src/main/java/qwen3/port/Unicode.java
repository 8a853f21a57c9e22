package qwen3.port;

import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import qwen3.golden.v1.Span;
import qwen3.golden.v1.UnicodeTables;

/** What letters, numbers, white space and compositions are to a tokenizer: by its own tables, not by Java's newer ones. */
final class Unicode {
  final BitSet letters;
  final BitSet numbers;
  final BitSet spaces;
  final BitSet words;
  private final Map<Integer, int[]> decompositions = new HashMap<>();
  private final Map<Integer, Integer> combiningClasses = new HashMap<>();
  private final Map<Long, Integer> compositions = new HashMap<>();
  private final Map<Integer, List<Integer>> caseVariants = new HashMap<>();

  Unicode(UnicodeTables tables) {
    letters = set(tables.getLetterList());
    numbers = set(tables.getNumberList());
    spaces = set(tables.getSpaceList());
    words = set(tables.getWordList());
    for (var row : tables.getDecompositionList()) {
      decompositions.put(row.getCodePoint(), row.getToList().stream().mapToInt(i -> i).toArray());
    }
    for (var row : tables.getCombiningClassList()) {
      for (int code = row.getRange().getBegin(); code < row.getRange().getEnd(); code++) {
        combiningClasses.put(code, row.getValue());
      }
    }
    for (var row : tables.getCompositionList()) {
      compositions.put(pair(row.getFirst(), row.getSecond()), row.getTo());
    }
    for (var row : tables.getCaseVariantList()) {
      caseVariants.put(row.getLetter(), row.getAlsoList());
    }
  }

  /** The full canonical decomposition of a character; itself where it has none. */
  int[] decomposed(int c) {
    int[] parts = decompositions.get(c);
    if (parts != null) {
      return parts;
    }
    return Hangul.isSyllable(c) ? Hangul.separated(c) : new int[] {c};
  }

  /** What two characters compose to, -1 where they do not. */
  int composed(int first, int second) {
    Integer both = compositions.get(pair(first, second));
    return both != null ? both : Hangul.joined(first, second);
  }

  /** 0 is that of a starter. */
  int combiningClass(int c) {
    return combiningClasses.getOrDefault(c, 0);
  }

  /** Whether a character is a letter from a to z in any case. */
  boolean isLetterIgnoringCase(int c, char letter) {
    return c == letter || caseVariants.getOrDefault((int) letter, List.of()).contains(c);
  }

  private static long pair(int first, int second) {
    return (long) first << 32 | second;
  }

  private static BitSet set(List<Span> ranges) {
    BitSet set = new BitSet();
    ranges.forEach(range -> set.set(range.getBegin(), range.getEnd()));
    return set;
  }

  /** Syllables are computed: 19 leads, 21 vowels, 27 tails or none. */
  private static final class Hangul {
    private static final int SYLLABLE = 0xAC00;
    private static final int LEAD = 0x1100;
    private static final int VOWEL = 0x1161;
    private static final int TAIL = 0x11A7; // stands for none

    static boolean isSyllable(int c) {
      return SYLLABLE <= c && c < SYLLABLE + 19 * 21 * 28;
    }

    static int[] separated(int syllable) {
      int place = syllable - SYLLABLE;
      int lead = LEAD + place / 28 / 21;
      int vowel = VOWEL + place / 28 % 21;
      int tail = TAIL + place % 28;
      return tail == TAIL ? new int[] {lead, vowel} : new int[] {lead, vowel, tail};
    }

    static int joined(int first, int second) {
      if (LEAD <= first && first < LEAD + 19 && VOWEL <= second && second < VOWEL + 21) {
        return SYLLABLE + ((first - LEAD) * 21 + second - VOWEL) * 28;
      }
      boolean tail = isSyllable(first) && (first - SYLLABLE) % 28 == 0 && TAIL < second && second < TAIL + 28;
      return tail ? first + second - TAIL : -1;
    }
  }
}

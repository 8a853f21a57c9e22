package qwen3.port;

import java.util.BitSet;

/** Cuts normalised text into the pieces within which merges happen: the matches of Qwen's pattern, written out. */
final class PreTokenizer {
  static final String PATTERN =
      "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"
          + "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
  private static final String[] CONTRACTIONS = {"s", "t", "re", "ve", "m", "ll", "d"};

  private final Unicode unicode;

  PreTokenizer(Unicode unicode) {
    this.unicode = unicode;
  }

  /** Where the piece that begins at a character ends. The alternatives are tried in the order of the pattern. */
  int end(int[] text, int at) {
    int end = contraction(text, at);
    if (end > at) {
      return end;
    }
    int first = text[at];
    boolean leads = !isNewline(first) && !unicode.letters.get(first) && !unicode.numbers.get(first);
    int letters = leads ? at + 1 : at;
    end = run(text, letters, unicode.letters);
    if (end > letters) {
      return end;
    }
    if (unicode.numbers.get(first)) {
      return at + 1;
    }
    int others = first == ' ' ? at + 1 : at;
    end = others;
    while (end < text.length && isOther(text[end])) {
      end++;
    }
    if (end > others) {
      while (end < text.length && isNewline(text[end])) {
        end++;
      }
      return end;
    }
    end = run(text, at, unicode.spaces);
    for (int last = end; last > at; last--) {
      if (isNewline(text[last - 1])) {
        return last;
      }
    }
    return end == text.length || end == at + 1 ? end : end - 1; // the last space belongs to what follows it
  }

  private int contraction(int[] text, int at) {
    if (text[at] != '\'') {
      return at;
    }
    for (String letters : CONTRACTIONS) {
      int end = at + 1 + letters.length();
      boolean matches = end <= text.length;
      for (int i = 0; matches && i < letters.length(); i++) {
        matches = unicode.isLetterIgnoringCase(text[at + 1 + i], letters.charAt(i));
      }
      if (matches) {
        return end;
      }
    }
    return at;
  }

  private static int run(int[] text, int at, BitSet set) {
    int end = at;
    while (end < text.length && set.get(text[end])) {
      end++;
    }
    return end;
  }

  private boolean isOther(int c) {
    return !unicode.spaces.get(c) && !unicode.letters.get(c) && !unicode.numbers.get(c);
  }

  private static boolean isNewline(int c) {
    return c == '\r' || c == '\n';
  }
}

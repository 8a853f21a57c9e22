package qwen3.port;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.function.Function;
import qwen3.golden.v1.AddedToken;
import qwen3.port.Nfc.Normalized;

/**
 * Cuts a text at its added tokens. Of those that start leftmost the longest is found. The search runs twice: over the text as
 * it is, and over each part between, normalised, for the tokens that are found there.
 */
final class AddedTokens {
  /** A part of the text in characters; the token is null for plain text. */
  record Part(int begin, int end, AddedToken token) {}

  private record Name(AddedToken token, int[] text) {}

  private final Unicode unicode;
  private final Function<int[], Normalized> normalizer;
  private final List<Name> raw;
  private final List<Name> late;

  AddedTokens(List<AddedToken> tokens, Unicode unicode, Function<int[], Normalized> normalizer) {
    this.unicode = unicode;
    this.normalizer = normalizer;
    raw = longestFirst(tokens, false);
    late = longestFirst(tokens, true);
  }

  /** The parts in order; with {@code splitSpecial} names of special tokens are plain text. */
  List<Part> split(int[] text, boolean splitSpecial) {
    List<Part> parts = new ArrayList<>();
    for (Part part : search(text, raw, splitSpecial)) {
      if (part.token() != null || late.isEmpty()) {
        parts.add(part);
        continue;
      }
      Normalized normalized = normalizer.apply(Arrays.copyOfRange(text, part.begin(), part.end()));
      for (Part finer : search(normalized.text(), late, splitSpecial)) {
        parts.add(new Part(place(part, normalized, finer.begin()), place(part, normalized, finer.end()), finer.token()));
      }
    }
    return parts;
  }

  private static int place(Part part, Normalized normalized, int at) {
    return at == normalized.text().length ? part.end() : part.begin() + Math.max(0, normalized.origin()[at]);
  }

  private List<Part> search(int[] text, List<Name> names, boolean splitSpecial) {
    List<Part> parts = new ArrayList<>();
    int done = 0;
    for (int at = 0; at < text.length; ) {
      Name name = nameAt(names, text, at);
      if (name == null) {
        at++;
        continue;
      }
      int begin = at;
      int end = at + name.text().length;
      at = end; // the search goes on behind it, taken or not
      AddedToken token = name.token();
      boolean inWord = begin > 0 && unicode.words.get(text[begin - 1]) || end < text.length && unicode.words.get(text[end]);
      if (splitSpecial && token.getSpecial() || token.getSingleWord() && inWord) {
        continue;
      }
      while (token.getLstrip() && begin > done && unicode.spaces.get(text[begin - 1])) {
        begin--;
      }
      begin = Math.max(begin, done);
      while (token.getRstrip() && end < text.length && unicode.spaces.get(text[end])) {
        end++;
      }
      if (begin >= end) {
        continue; // the token before has taken all of it
      }
      if (done < begin) {
        parts.add(new Part(done, begin, null));
      }
      parts.add(new Part(begin, end, token));
      done = end;
    }
    if (done < text.length) {
      parts.add(new Part(done, text.length, null));
    }
    return parts;
  }

  private static Name nameAt(List<Name> names, int[] text, int at) {
    for (Name name : names) {
      int end = at + name.text().length;
      if (end <= text.length && Arrays.equals(text, at, end, name.text(), 0, name.text().length)) {
        return name;
      }
    }
    return null;
  }

  private List<Name> longestFirst(List<AddedToken> tokens, boolean normalized) {
    return tokens.stream()
        .filter(token -> token.getNormalized() == normalized && !token.getContent().isEmpty())
        .map(
            token -> {
              int[] text = token.getContent().codePoints().toArray();
              return new Name(token, normalized ? normalizer.apply(text).text() : text);
            })
        .sorted(Comparator.comparingInt((Name name) -> name.text().length).reversed())
        .toList();
  }
}

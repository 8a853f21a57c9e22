package qwen3.port;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/** Normalisation form C of code points, and where each character of the result came from. */
final class Nfc {
  /**
   * A normalised text. Character i belongs to character {@code origin[i]} of what it was made from; -1 belongs to nothing, an
   * empty place at the beginning.
   */
  record Normalized(int[] text, int[] origin) {
    /** A text that is its own normalisation. */
    static Normalized unchanged(int[] text) {
      int[] origin = new int[text.length];
      for (int i = 0; i < origin.length; i++) {
        origin[i] = i;
      }
      return new Normalized(text, origin);
    }
  }

  /** A character, and how many characters the text has more since it was put in: -n for one made of n + 1. */
  private record Counted(int c, int change) {}

  private final Unicode unicode;

  Nfc(Unicode unicode) {
    this.unicode = unicode;
  }

  /**
   * As Hugging Face aligns it, counting characters without looking at them: the next one of the result belongs to the next one
   * of the text that is not used up, and one that was put in to the one that was used up last.
   */
  Normalized normalize(int[] text) {
    List<Counted> result = composed(decomposed(text));
    int[] characters = new int[result.size()];
    int[] origin = new int[result.size()];
    int used = 0;
    for (int i = 0; i < characters.length; i++) {
      Counted next = result.get(i);
      characters[i] = next.c();
      origin[i] = next.change() > 0 ? used - 1 : used;
      used += 1 - next.change();
    }
    return new Normalized(characters, origin);
  }

  /** Every character taken apart, each run of marks sorted by class. */
  private List<Counted> decomposed(int[] text) {
    List<Counted> result = new ArrayList<>();
    int marks = 0; // where the run of marks at the end begins
    for (int original : text) {
      int change = 0;
      for (int c : unicode.decomposed(original)) {
        if (unicode.combiningClass(c) == 0) {
          sort(result.subList(marks, result.size()));
          marks = result.size() + 1;
        }
        result.add(new Counted(c, change));
        change = 1;
      }
    }
    sort(result.subList(Math.min(marks, result.size()), result.size()));
    return result;
  }

  private void sort(List<Counted> marks) {
    marks.sort(Comparator.comparingInt(mark -> unicode.combiningClass(mark.c()))); // stable
  }

  /** Each character joins the last starter before it if the two compose and nothing of its class or higher is between. */
  private List<Counted> composed(List<Counted> text) {
    List<Counted> result = new ArrayList<>();
    int starter = -1;
    int lastClass = -1; // of what stands behind the starter; -1: nothing
    for (Counted next : text) {
      int ownClass = unicode.combiningClass(next.c());
      if (starter >= 0 && lastClass < ownClass) {
        Counted before = result.get(starter);
        int both = unicode.composed(before.c(), next.c());
        if (both >= 0) {
          result.set(starter, new Counted(both, before.change() + next.change() - 1));
          continue;
        }
      }
      if (ownClass == 0) {
        starter = result.size();
        lastClass = -1;
      } else {
        lastClass = ownClass;
      }
      result.add(next);
    }
    return result;
  }
}

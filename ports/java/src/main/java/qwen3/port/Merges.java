package qwen3.port;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import qwen3.golden.v1.MergeRule;

/** Byte-pair encoding: of all neighbours those of the lowest rank are merged, the leftmost first, until none are left. */
final class Merges {
  private record Pair(int left, int right) {}

  private record Merge(int rank, int result) {}

  private final Map<Pair, Merge> merges = new HashMap<>();

  Merges(List<MergeRule> rules) {
    for (int rank = 0; rank < rules.size(); rank++) {
      MergeRule rule = rules.get(rank);
      merges.put(new Pair(rule.getLeft(), rule.getRight()), new Merge(rank, rule.getResult()));
    }
  }

  /** Merges ids in place; returns the rank of each merge, in order. */
  List<Integer> apply(List<Integer> ids) {
    List<Integer> ranks = new ArrayList<>();
    while (true) {
      int place = -1;
      Merge best = null;
      for (int i = 0; i + 1 < ids.size(); i++) {
        Merge merge = merges.get(new Pair(ids.get(i), ids.get(i + 1)));
        if (merge != null && (best == null || merge.rank() < best.rank())) {
          best = merge;
          place = i;
        }
      }
      if (best == null) {
        return ranks;
      }
      ids.set(place, best.result());
      ids.remove(place + 1);
      ranks.add(best.rank());
    }
  }
}

package qwen3.port;

import java.util.Arrays;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import qwen3.golden.v1.Generation;
import qwen3.port.Tensor.Floats;

/** The distribution that the next token is drawn from, after Hugging Face's filters in their order. */
public final class Sampling {
  private Sampling() {}

  /**
   * The last row of {@code logits[batch, query, vocab]} through every filter and a softmax → {@code [batch, vocab]}; a
   * removed token has exactly 0. {@code had[batch][…]} are the ids that a row has had, in any order.
   */
  public static Floats nextTokenProbs(Floats logits, long[][] had, Generation filters) {
    int vocab = logits.last();
    Floats probs = Floats.zeros(had.length, vocab);
    int query = logits.data().length / had.length / vocab;
    for (int row = 0; row < had.length; row++) {
      int start = ((row + 1) * query - 1) * vocab;
      float[] x = Arrays.copyOfRange(logits.data(), start, start + vocab);
      filter(x, had[row], filters);
      System.arraycopy(softmax(x), 0, probs.data(), row * vocab, vocab);
    }
    return probs;
  }

  private static void filter(float[] x, long[] had, Generation filters) {
    float penalty = (float) filters.getRepetitionPenalty();
    for (long token : Arrays.stream(had).distinct().toArray()) {
      int id = Math.toIntExact(token);
      x[id] = x[id] < 0 ? x[id] * penalty : x[id] / penalty;
    }
    for (int i = 0; i < x.length; i++) {
      x[i] /= (float) filters.getTemperature();
    }
    if (filters.getTopK() > 0) {
      float[] sorted = x.clone();
      Arrays.sort(sorted);
      float least = sorted[Math.max(0, x.length - filters.getTopK())];
      remove(x, i -> x[i] < least); // what equals the least stays
    }
    if (filters.getTopP() < 1) {
      topP(x, (float) (1 - filters.getTopP()));
    }
    if (filters.getMinP() > 0) {
      float[] probs = softmax(x);
      float least = (float) filters.getMinP() * max(probs);
      remove(x, i -> probs[i] < least);
    }
  }

  /** A token goes when it and all smaller ones together have no more than the rest; the largest stays. */
  private static void topP(float[] x, float rest) {
    float[] probs = softmax(x);
    int[] order =
        IntStream.range(0, x.length).boxed().sorted((a, b) -> Float.compare(x[a], x[b])).mapToInt(i -> i).toArray();
    float below = 0;
    for (int rank = 0; rank < order.length - 1; rank++) {
      below += probs[order[rank]];
      if (below <= rest) {
        x[order[rank]] = Float.NEGATIVE_INFINITY;
      }
    }
  }

  private static void remove(float[] x, IntPredicate goes) {
    for (int i = 0; i < x.length; i++) {
      if (goes.test(i)) {
        x[i] = Float.NEGATIVE_INFINITY;
      }
    }
  }

  private static float[] softmax(float[] x) {
    float[] y = new float[x.length];
    float peak = max(x);
    float sum = 0;
    for (int i = 0; i < x.length; i++) {
      y[i] = (float) Math.exp(x[i] - peak);
      sum += y[i];
    }
    for (int i = 0; i < x.length; i++) {
      y[i] /= sum;
    }
    return y;
  }

  private static float max(float[] x) {
    float max = x[0];
    for (float value : x) {
      max = Math.max(max, value);
    }
    return max;
  }
}

package qwen3.port;

import java.util.Arrays;
import qwen3.golden.v1.Generation;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** Greedy search: the likeliest token, again and again. */
final class Greedy {
  private Greedy() {}

  /** The new ids alone, {@code [batch, newTokens]}, with the pad id behind the end of a row. */
  static Longs search(Continuation continuation, int newTokens, Generation how) {
    int batch = continuation.rows();
    boolean[] ended = new boolean[batch];
    long[] chosen = new long[batch * newTokens];
    for (int step = 0; step < newTokens; step++) {
      Floats logits = continuation.next();
      long[] tokens = new long[batch];
      Arrays.fill(tokens, how.getPadTokenId());
      for (int row = 0; row < batch; row++) {
        if (!ended[row]) {
          tokens[row] = argmax(logits.data(), row * logits.last(), logits.last());
          ended[row] = how.getEosTokenIdList().contains((int) tokens[row]);
        }
        chosen[row * newTokens + step] = tokens[row];
      }
      continuation.append(tokens);
    }
    return new Longs(chosen, batch, newTokens);
  }

  private static int argmax(float[] x, int start, int length) {
    int best = 0;
    for (int i = 1; i < length; i++) {
      if (x[start + i] > x[start + best]) {
        best = i;
      }
    }
    return best;
  }
}

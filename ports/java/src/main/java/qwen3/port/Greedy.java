package qwen3.port;

import java.util.Arrays;
import qwen3.golden.v1.Generation;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** Greedy search: the likeliest token, again and again. */
public final class Greedy {
  private Greedy() {}

  /**
   * The new ids alone, {@code [batch, newTokens]}, with the pad id behind the end of a row. {@code ids} and {@code positions}
   * are the prompt's, {@code [batch, prompt]}; {@code real[batch, at least prompt]} says which of it is no padding. A new
   * token stands one position behind the row's last.
   */
  public static Longs generate(
      Qwen3 decoder, Cache cache, Longs ids, Longs positions, Bools real, int newTokens, Generation how) {
    int batch = ids.shape()[0];
    int prompt = ids.shape()[1];
    boolean[] ended = new boolean[batch];
    long[] chosen = new long[batch * newTokens];
    Arrays.fill(chosen, how.getPadTokenId());
    Bools visible = extended(real, prompt, newTokens);
    for (int step = 0; step < newTokens; step++) {
      Floats logits = decoder.decode(decoder.embed(ids), positions, visible, cache, Tap.NONE);
      int query = ids.shape()[1];
      long[] next = new long[batch];
      long[] behind = new long[batch];
      for (int row = 0; row < batch; row++) {
        int last = (row + 1) * query - 1;
        next[row] = ended[row] ? how.getPadTokenId() : argmax(logits.data(), last * logits.last(), logits.last());
        behind[row] = positions.data()[last] + 1;
        chosen[row * newTokens + step] = next[row];
        ended[row] |= how.getEosTokenIdList().contains((int) next[row]);
      }
      ids = new Longs(next, batch, 1);
      positions = new Longs(behind, batch, 1);
    }
    return new Longs(chosen, batch, newTokens);
  }

  /** The prompt's padding, and nothing but real tokens behind it. */
  private static Bools extended(Bools real, int prompt, int newTokens) {
    int total = prompt + newTokens;
    boolean[] all = new boolean[real.shape()[0] * total];
    Arrays.fill(all, true);
    for (int row = 0; row < real.shape()[0]; row++) {
      System.arraycopy(real.data(), row * real.shape()[1], all, row * total, prompt);
    }
    return new Bools(all, real.shape()[0], total);
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

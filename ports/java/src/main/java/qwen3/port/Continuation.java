package qwen3.port;

import java.util.Arrays;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** A decoder that goes on from a prompt, token by token. A new token stands one position behind the last of its row. */
final class Continuation {
  private final Qwen3 decoder;
  private final Cache cache;
  private final Bools real;
  private Longs ids;
  private Longs positions;

  /** {@code ids} and {@code positions} are the prompt's, {@code [batch, prompt]}; {@code real} covers at least that. */
  Continuation(Qwen3 decoder, Cache cache, Longs ids, Longs positions, Bools real, int newTokens) {
    this.decoder = decoder;
    this.cache = cache;
    this.ids = ids;
    this.positions = positions;
    this.real = extended(real, ids.shape()[1], newTokens);
  }

  int rows() {
    return ids.shape()[0];
  }

  /** Logits of the next token, {@code [batch, vocab]}; what was appended last goes through the network. */
  Floats next() {
    return lastRows(decoder.decode(decoder.embed(ids), positions, real, cache, Tap.NONE));
  }

  /** Row i goes on with {@code tokens[i]}. */
  void append(long[] tokens) {
    int query = positions.shape()[1];
    long[] behind = new long[tokens.length];
    for (int row = 0; row < tokens.length; row++) {
      behind[row] = positions.data()[(row + 1) * query - 1] + 1;
    }
    ids = new Longs(tokens, tokens.length, 1);
    positions = new Longs(behind, tokens.length, 1);
  }

  /** {@code [batch, query, vocab]} → {@code [batch, vocab]} */
  private static Floats lastRows(Floats logits) {
    int batch = logits.shape()[0];
    int vocab = logits.last();
    Floats last = Floats.zeros(batch, vocab);
    for (int row = 0; row < batch; row++) {
      int from = ((row + 1) * logits.shape()[1] - 1) * vocab;
      System.arraycopy(logits.data(), from, last.data(), row * vocab, vocab);
    }
    return last;
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
}

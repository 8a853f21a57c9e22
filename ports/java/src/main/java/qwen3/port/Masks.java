package qwen3.port;

import qwen3.port.Tensor.Bools;

/** Who sees whom, {@code [batch, query, key]}, true = visible. A window counts slots, padding included; 0 is none. */
public final class Masks {
  private Masks() {}

  /** Everybody sees every real token, with a window those at most that many slots away: {@code real[batch, slot]}. */
  public static Bools encoder(Bools real, int window) {
    int slots = real.shape()[1];
    boolean[] mask = new boolean[real.data().length * slots];
    for (int i = 0; i < mask.length; i++) {
      int row = i / slots / slots;
      int query = i / slots % slots;
      int key = i % slots;
      mask[i] = real.data()[row * slots + key] && (window == 0 || Math.abs(query - key) <= window);
    }
    return new Bools(mask, real.shape()[0], slots, slots);
  }

  /**
   * The past and the present, with a window the last that many slots, the query's own included; behind them the encoder's
   * real tokens, all of them. {@code real[batch, slots]} ends with the queries; in its place {@code [batch, total, total]}
   * says itself which slot sees which. {@code encoderReal[batch, key]} is null without an encoder.
   */
  public static Bools decoder(Bools real, int slots, int queries, Bools encoderReal, int window) {
    int batch = real.shape()[0];
    int total = real.shape()[1];
    int memory = encoderReal == null ? 0 : encoderReal.shape()[1];
    boolean[] mask = new boolean[batch * queries * (slots + memory)];
    for (int i = 0; i < mask.length; i++) {
      int row = i / (slots + memory) / queries;
      int query = slots - queries + i / (slots + memory) % queries;
      int key = i % (slots + memory);
      if (key >= slots) {
        mask[i] = encoderReal.data()[row * memory + key - slots];
      } else if (real.shape().length == 3) {
        mask[i] = real.data()[(row * total + query) * total + key];
      } else {
        boolean near = key <= query && (window == 0 || query - key < window);
        mask[i] = near && real.data()[row * total + key];
      }
    }
    return new Bools(mask, batch, queries, slots + memory);
  }
}

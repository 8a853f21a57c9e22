package qwen3.port;

/** Takes what the network computes, under the names of golden/taps.textproto. */
@FunctionalInterface
public interface Tap {
  /** For runs that nobody records. */
  Tap NONE = (name, value) -> {};

  void record(String name, Tensor value);

  /** A tap whose names stand below a prefix, as {@code decoder.layers.3}. */
  default Tap below(String prefix) {
    return (name, value) -> record(prefix + "." + name, value);
  }

  /** Where a tensor stands in a recording. */
  record Key(String name, int step) {}
}

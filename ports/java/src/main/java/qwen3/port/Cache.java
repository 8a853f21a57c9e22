package qwen3.port;

import java.util.ArrayList;
import java.util.List;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** What the decoder keeps between steps: each layer's keys and values, of its own slots and of the encoder's. */
public final class Cache {
  /** The encoder's output {@code [batch, key, hidden]}, its positions and its real tokens, both {@code [batch, key]}. */
  public record Memory(Floats states, Longs positions, Bools real) {}

  private final Memory memory;
  private final List<Layer> layers = new ArrayList<>();

  /** An empty cache; the memory is null without an encoder. */
  public Cache(int layers, Memory memory) {
    this.memory = memory;
    for (int i = 0; i < layers; i++) {
      this.layers.add(new Layer());
    }
  }

  public Memory memory() {
    return memory;
  }

  public Layer layer(int index) {
    return layers.get(index);
  }

  /** Decoder slots of the steps so far. */
  public int length() {
    return layers.get(0).keys == null ? 0 : layers.get(0).keys.shape()[2];
  }

  /** Keys and values of one layer, {@code [batch, kv_heads, key, head_dim]}, keys normed and turned. */
  public static final class Layer {
    private Floats keys;
    private Floats values;
    private Floats encoderKeys;
    private Floats encoderValues;

    void append(Floats newKeys, Floats newValues) {
      keys = keys == null ? newKeys : Ops.joinSlots(keys, newKeys);
      values = values == null ? newValues : Ops.joinSlots(values, newValues);
    }

    void setEncoder(Floats newKeys, Floats newValues) {
      encoderKeys = newKeys;
      encoderValues = newValues;
    }

    /** Whether the encoder's keys and values are there; they are made once. */
    boolean hasEncoder() {
      return encoderKeys != null;
    }

    void record(Tap tap) {
      tap.record("cache_keys", keys);
      tap.record("cache_values", values);
      if (hasEncoder()) {
        tap.record("cache_encoder_keys", encoderKeys);
        tap.record("cache_encoder_values", encoderValues);
      }
    }

    /** What attention reads: the decoder's own keys, behind them the encoder's. */
    Floats mergedKeys() {
      return hasEncoder() ? Ops.joinSlots(keys, encoderKeys) : keys;
    }

    Floats mergedValues() {
      return hasEncoder() ? Ops.joinSlots(values, encoderValues) : values;
    }
  }
}

package qwen3.port;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import qwen3.golden.v1.ModelConfig;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/**
 * A stack of the network, run as bidirectional encoder or as decoder. It keeps nothing between calls: what a run remembers is
 * in its {@link Cache}. Llama and Qwen2 are the same with other numbers.
 */
public final class Qwen3 {
  private final ModelConfig config;
  private final Map<String, Floats> weights;
  private final List<Layer> layers = new ArrayList<>();
  private final Floats inverseFrequencies;

  /** A stack of weights under Hugging Face's names; throws for what the port does not have. */
  public Qwen3(ModelConfig config, Map<String, Floats> weights) {
    if (!config.getHiddenAct().equals("silu")) {
      throw new UnsupportedOperationException("hidden_act " + config.getHiddenAct());
    }
    this.config = config;
    this.weights = weights;
    for (int i = 0; i < config.getNumHiddenLayers(); i++) {
      layers.add(new Layer(config, weights, i));
    }
    inverseFrequencies = Rope.inverseFrequencies(config.getHeadDim(), config.getRopeTheta(), config.getRopeScaling());
  }

  /** {@code ids[batch, slot]} → hidden states {@code [batch, slot, hidden]}. */
  public Floats embed(Longs ids) {
    return Ops.embedding(ids, weights.get("model.embed_tokens.weight"));
  }

  /** The encoder: hidden states {@code x[batch, slot, hidden]} of positions and real tokens {@code [batch, slot]}. */
  public Cache.Memory encode(Floats x, Longs positions, Bools real, Tap tap) {
    Tap stack = tap.below("encoder");
    Rope.Tables tables = tables(positions, "", stack);
    stack.record("inv_freq", inverseFrequencies);
    for (int i = 0; i < layers.size(); i++) {
      Tap layer = stack.below("layers." + i);
      Bools mask = Masks.encoder(real, window(i));
      layer.record("self_attn.mask", mask);
      x = layers.get(i).encode(x, tables, mask, layer);
    }
    return new Cache.Memory(norm(x, stack), positions, real);
  }

  /**
   * One step of the decoder: hidden states {@code x[batch, query, hidden]} at {@code positions[batch, query]} → logits
   * {@code [batch, query, vocab]}. {@code real[batch, total]} covers at least the cache's slots and these.
   */
  public Floats decode(Floats x, Longs positions, Bools real, Cache cache, Tap tap) {
    Tap stack = tap.below("decoder");
    Rope.Tables tables = tables(positions, "", stack);
    stack.record("inv_freq", inverseFrequencies);
    Cache.Memory memory = cache.memory();
    Floats states = null;
    Bools encoderReal = null;
    Rope.Tables encoderTables = null;
    if (memory != null) {
      states = memory.states();
      encoderReal = memory.real();
      if (config.getRotateEncoderKeys() && cache.length() == 0) {
        encoderTables = tables(memory.positions(), "encoder_", stack);
      }
    }
    int queries = x.shape()[1];
    int slots = cache.length() + queries;
    for (int i = 0; i < layers.size(); i++) {
      Tap layer = stack.below("layers." + i);
      Bools mask = Masks.decoder(real, slots, queries, encoderReal, window(i));
      layer.record("merged_attn.mask", mask);
      x = layers.get(i).decode(x, tables, mask, cache.layer(i), states, encoderTables, layer);
    }
    String head = config.getTieWordEmbeddings() ? "model.embed_tokens.weight" : "lm_head.weight";
    Floats logits = Ops.linear(norm(x, stack), weights.get(head), null);
    tap.record("logits", logits);
    return logits;
  }

  private Rope.Tables tables(Longs positions, String half, Tap tap) {
    double factor = config.hasRopeScaling() ? config.getRopeScaling().getAttentionFactor() : 1;
    Rope.Tables tables = Rope.tables(positions, inverseFrequencies, factor);
    tap.record(half + "position_ids", positions);
    tap.record(half + "cos", tables.cos());
    tap.record(half + "sin", tables.sin());
    return tables;
  }

  private Floats norm(Floats x, Tap tap) {
    Floats y = Ops.rmsNorm(x, weights.get("model.norm.weight"), config.getRmsNormEps());
    tap.record("norm", y);
    return y;
  }

  /** The window of a layer, 0 where it has none. */
  private int window(int layer) {
    return config.getLayerTypes(layer).equals("sliding_attention") ? config.getSlidingWindow() : 0;
  }
}

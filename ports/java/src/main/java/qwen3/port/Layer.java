package qwen3.port;

import java.util.Map;
import qwen3.golden.v1.ModelConfig;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;

/** One layer of either stack: attention and MLP, each behind a norm and added to the stream. */
final class Layer {
  private final ModelConfig config;
  private final Map<String, Floats> weights;
  private final String prefix;

  Layer(ModelConfig config, Map<String, Floats> weights, int index) {
    this.config = config;
    this.weights = weights;
    prefix = "model.layers." + index + ".";
  }

  /** A layer of the encoder: {@code x[batch, slot, hidden]} → the same shape, {@code mask[batch, slot, slot]}. */
  Floats encode(Floats x, Rope.Tables tables, Bools mask, Tap tap) {
    Floats normed = enter(x, tap);
    Tap site = tap.below("self_attn");
    Floats q = project("q", "", normed, tables, site);
    Floats k = project("k", "", normed, tables, site);
    Floats v = project("v", "", normed, null, site);
    return leave(x, attention(q, k, v, mask, site), tap);
  }

  /**
   * A layer of the decoder, whose attention reads its own slots and the encoder's in one softmax: {@code x[batch, query,
   * hidden]} → the same shape, {@code mask[batch, query, slots + key]}. The encoder's half is made in the first step, by the
   * decoder's own weights; its tables are null where its keys are not turned.
   */
  Floats decode(
      Floats x, Rope.Tables tables, Bools mask, Cache.Layer cache, Floats encoder, Rope.Tables encoderTables, Tap tap) {
    Floats normed = enter(x, tap);
    Tap site = tap.below("merged_attn");
    Floats q = project("q", "", normed, tables, site);
    cache.append(project("k", "", normed, tables, site), project("v", "", normed, null, site));
    if (encoder != null && !cache.hasEncoder()) {
      Floats k = project("k", "encoder_", encoder, encoderTables, site);
      cache.setEncoder(k, project("v", "encoder_", encoder, null, site));
    }
    cache.record(site);
    return leave(x, attention(q, cache.mergedKeys(), cache.mergedValues(), mask, site), tap);
  }

  private Floats enter(Floats x, Tap tap) {
    tap.record("input", x);
    return norm("input_layernorm", x, tap);
  }

  /** q, k or v of {@code x[batch, slot, hidden]}, by heads, normed and turned → {@code [batch, heads, slot, head_dim]}. */
  private Floats project(String name, String half, Floats x, Rope.Tables tables, Tap tap) {
    Floats y = linear("self_attn." + name + "_proj", x);
    tap.record(half + name + "_proj", y);
    y = y.as(x.shape()[0], x.shape()[1], y.last() / config.getHeadDim(), config.getHeadDim());
    if (config.getUseQkNorm() && !name.equals("v")) {
      y = Ops.rmsNorm(y, weight("self_attn." + name + "_norm.weight"), config.getRmsNormEps());
      tap.record(half + name + "_norm", y);
    }
    y = Ops.swapHeads(y);
    if (tables != null) {
      y = Ops.rope(y, tables);
      tap.record(half + name + "_rope", y);
    }
    return y;
  }

  private Floats attention(Floats q, Floats k, Floats v, Bools mask, Tap tap) {
    Floats scores = Ops.scores(q, k, 1 / Math.sqrt(config.getHeadDim()));
    tap.record("scores", scores);
    Floats probs = Ops.softmax(scores, mask);
    tap.record("probs", probs);
    Floats context = Ops.context(probs, v);
    tap.record("context", context);
    Floats sideBySide = context.as(context.shape()[0], context.shape()[1], context.shape()[2] * context.last());
    Floats y = linear("self_attn.o_proj", sideBySide);
    tap.record("o_proj", y);
    return y;
  }

  private Floats leave(Floats x, Floats attended, Tap tap) {
    Floats stream = Ops.add(x, attended);
    tap.record("attn_residual", stream);
    Floats y = Ops.add(stream, mlp(norm("post_attention_layernorm", stream, tap), tap.below("mlp")));
    tap.record("output", y);
    return y;
  }

  private Floats mlp(Floats x, Tap tap) {
    Floats gate = linear("mlp.gate_proj", x);
    tap.record("gate_proj", gate);
    Floats up = linear("mlp.up_proj", x);
    tap.record("up_proj", up);
    Floats act = Ops.swiglu(gate, up);
    tap.record("act", act);
    Floats down = linear("mlp.down_proj", act);
    tap.record("down_proj", down);
    return down;
  }

  private Floats norm(String name, Floats x, Tap tap) {
    Floats y = Ops.rmsNorm(x, weight(name + ".weight"), config.getRmsNormEps());
    tap.record(name, y);
    return y;
  }

  private Floats linear(String name, Floats x) {
    return Ops.linear(x, weight(name + ".weight"), weights.get(prefix + name + ".bias"));
  }

  private Floats weight(String name) {
    Floats weight = weights.get(prefix + name);
    if (weight == null) {
      throw new IllegalArgumentException("the checkpoint has no " + prefix + name);
    }
    return weight;
  }
}

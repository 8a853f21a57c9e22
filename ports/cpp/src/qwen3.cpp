#include "qwen3.hpp"

#include <cmath>

namespace port {

Qwen3::Qwen3(const pb::ModelConfig& config, Weights weights, bool alone)
    : config_(config), weights_(std::move(weights)), alone_(alone) {
  if (config.hidden_act() != "silu") throw Unsupported("hidden_act " + config.hidden_act());
  inv_freq_ = ops::inv_freq(config.head_dim(), config.rope_theta(), config.rope_scaling());
}

Floats Qwen3::embed(const Longs& ids) const { return ops::embedding(ids, weight("model.embed_tokens.weight")); }

Memory Qwen3::encode(Floats x, const Longs& positions, const Bools& real, const Tap& tap) const {
  Tap stack = tap.below("encoder");
  ops::Tables turn = tables(positions, "", stack);
  stack("inv_freq", inv_freq_);
  for (int i = 0; i < static_cast<int>(config_.num_hidden_layers()); i++) {
    Bools mask = ops::encoder_mask(real, window(i));
    x = layer(i, x, turn, mask, nullptr, nullptr, nullptr, stack.below("layers." + std::to_string(i)));
  }
  if (!alone_) stack("norm", x = norm(x, "model.norm"));
  return {x, positions, real};
}

Floats Qwen3::decode(Floats x, const Longs& positions, const Bools& real, Cache& cache, const Tap& tap) const {
  Tap stack = tap.below("decoder");
  ops::Tables turn = tables(positions, "", stack), encoder_turn;
  stack("inv_freq", inv_freq_);
  const Memory* memory = cache.memory;
  bool turned = memory && config_.rotate_encoder_keys() && cache.length() == 0;
  if (turned) encoder_turn = tables(memory->positions, "encoder_", stack);
  int64_t queries = x.shape[1], slots = cache.length() + queries;
  for (int i = 0; i < static_cast<int>(config_.num_hidden_layers()); i++) {
    Bools mask = ops::decoder_mask(real, slots, queries, memory ? &memory->real : nullptr, window(i));
    x = layer(i, x, turn, mask, &cache.layers[i], memory ? &memory->states : nullptr, turned ? &encoder_turn : nullptr,
              stack.below("layers." + std::to_string(i)));
  }
  if (alone_) return x;
  stack("norm", x = norm(x, "model.norm"));
  Floats logits = linear(x, config_.tie_word_embeddings() ? "model.embed_tokens" : "lm_head");
  tap("logits", logits);
  return logits;
}

const Floats& Qwen3::weight(const std::string& name) const {
  auto found = weights_.find(name);
  if (found == weights_.end()) throw std::runtime_error("the checkpoint has no " + name);
  return found->second;
}

const Floats* Qwen3::bias(const std::string& name) const {
  auto found = weights_.find(name + ".bias");
  return found == weights_.end() ? nullptr : &found->second;
}

Floats Qwen3::norm(const Floats& x, const std::string& name) const {
  return ops::rms_norm(x, weight(name + ".weight"), config_.rms_norm_eps());
}

Floats Qwen3::linear(const Floats& x, const std::string& name) const {
  return ops::linear(x, weight(name + ".weight"), bias(name));
}

ops::Tables Qwen3::tables(const Longs& positions, const std::string& half, const Tap& tap) const {
  double factor = config_.has_rope_scaling() ? config_.rope_scaling().attention_factor() : 1;
  ops::Tables tables = ops::rope_table(positions, inv_freq_, factor);
  tap(half + "position_ids", positions);
  tap(half + "cos", tables.cos);
  tap(half + "sin", tables.sin);
  return tables;
}

int64_t Qwen3::window(int layer) const {
  return config_.layer_types(layer) == "sliding_attention" ? config_.sliding_window() : 0;
}

// q, k or v of x[batch, slot, hidden], by heads, normed and turned -> [batch, heads, slot, head_dim].
Floats Qwen3::project(const std::string& prefix, const std::string& name, const std::string& half, const Floats& x,
                      const ops::Tables* tables, const Tap& tap) const {
  Floats y = linear(x, prefix + "self_attn." + name + "_proj");
  tap(half + name + "_proj", y);
  int64_t head_dim = config_.head_dim();
  y = y.as({x.shape[0], x.shape[1], y.last() / head_dim, head_dim});
  if (config_.use_qk_norm() && name != "v") {
    y = norm(y, prefix + "self_attn." + name + "_norm");
    tap(half + name + "_norm", y);
  }
  y = ops::swap_heads(y);
  if (tables) {
    y = ops::rope(y, *tables);
    tap(half + name + "_rope", y);
  }
  return y;
}

// A layer of either stack; the encoder's has no cache. The encoder's half of keys and values is made in the first step, by the
// decoder's own weights; its tables are null where its keys are not turned.
Floats Qwen3::layer(int index, const Floats& x, const ops::Tables& tables, const Bools& mask, Cache::Layer* cache,
                    const Floats* encoder, const ops::Tables* encoder_tables, const Tap& tap) const {
  std::string prefix = "model.layers." + std::to_string(index) + ".";
  Tap site = tap.below(cache ? "merged_attn" : "self_attn"), mlp = tap.below("mlp");
  tap("input", x);
  site("mask", mask);
  Floats normed = norm(x, prefix + "input_layernorm");
  tap("input_layernorm", normed);
  Floats q = project(prefix, "q", "", normed, &tables, site);
  Floats k = project(prefix, "k", "", normed, &tables, site);
  Floats v = project(prefix, "v", "", normed, nullptr, site);
  if (cache) {
    cache->keys = k = ops::join_slots(cache->keys, k);
    cache->values = v = ops::join_slots(cache->values, v);
    site("cache_keys", k);
    site("cache_values", v);
    if (encoder && cache->encoder_keys.empty()) {
      cache->encoder_keys = project(prefix, "k", "encoder_", *encoder, encoder_tables, site);
      cache->encoder_values = project(prefix, "v", "encoder_", *encoder, nullptr, site);
    }
    if (encoder) {
      site("cache_encoder_keys", cache->encoder_keys);
      site("cache_encoder_values", cache->encoder_values);
      k = ops::join_slots(k, cache->encoder_keys);
      v = ops::join_slots(v, cache->encoder_values);
    }
  }
  Floats context = ops::attention(q, k, v, mask, 1 / std::sqrt(config_.head_dim()));
  site("context", context);
  Floats attended = linear(context.as({x.shape[0], x.shape[1], q.shape[1] * q.last()}), prefix + "self_attn.o_proj");
  site("o_proj", attended);
  Floats stream = ops::add(x, attended);
  tap("attn_residual", stream);
  normed = norm(stream, prefix + "post_attention_layernorm");
  tap("post_attention_layernorm", normed);
  Floats gate = linear(normed, prefix + "mlp.gate_proj"), up = linear(normed, prefix + "mlp.up_proj");
  mlp("gate_proj", gate);
  mlp("up_proj", up);
  Floats act = ops::swiglu(gate, up);
  mlp("act", act);
  Floats down = linear(act, prefix + "mlp.down_proj");
  mlp("down_proj", down);
  Floats y = ops::add(stream, down);
  tap("output", y);
  return y;
}

}  // namespace port

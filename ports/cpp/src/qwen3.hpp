// A stack of the network, run as bidirectional encoder or as decoder. Llama and Qwen2 are the same with other numbers.
#pragma once

#include <map>
#include <memory>
#include <optional>

#include "ops.hpp"
#include "recorder.hpp"

namespace port {

using Weights = std::map<std::string, Floats>;  // under Hugging Face's names

// The encoder's output [batch, key, hidden], its positions and its real tokens, both [batch, key].
struct Memory {
  Floats states;
  Longs positions;
  Bools real;
};

// What the decoder keeps between steps: of each layer keys and values [batch, kv_heads, key, head_dim], keys normed and turned,
// of its own slots and of the encoder's.
struct Cache {
  struct Layer {
    Floats keys, values, encoder_keys, encoder_values;
  };

  std::vector<Layer> layers;
  const Memory* memory;  // null without an encoder

  int64_t length() const { return layers[0].keys.empty() ? 0 : layers[0].keys.shape[2]; }
};

class Qwen3 {
 public:
  // `alone`: one layer, without the norm and the head behind it. Throws Unsupported for what the port does not have.
  Qwen3(const pb::ModelConfig& config, Weights weights, bool alone);

  Floats embed(const Longs& ids) const;  // [batch, slot] -> [batch, slot, hidden]

  // Hidden states x[batch, slot, hidden] of positions and real tokens [batch, slot].
  Memory encode(Floats x, const Longs& positions, const Bools& real, const Tap& tap) const;

  Cache new_cache(const Memory* memory) const { return {std::vector<Cache::Layer>(config_.num_hidden_layers()), memory}; }

  // One step: x[batch, query, hidden] at positions[batch, query] -> logits [batch, query, vocab]. real[batch, total] covers
  // at least the cache's slots and these.
  Floats decode(Floats x, const Longs& positions, const Bools& real, Cache& cache, const Tap& tap) const;

 private:
  const Floats& weight(const std::string& name) const;
  const Floats* bias(const std::string& name) const;
  Floats norm(const Floats& x, const std::string& name) const;
  Floats linear(const Floats& x, const std::string& name) const;
  ops::Tables tables(const Longs& positions, const std::string& half, const Tap& tap) const;
  int64_t window(int layer) const;  // 0 where it has none
  Floats project(const std::string& prefix, const std::string& name, const std::string& half, const Floats& x,
                 const ops::Tables* tables, const Tap& tap) const;
  Floats layer(int index, const Floats& x, const ops::Tables& tables, const Bools& mask, Cache::Layer* cache,
               const Floats* encoder, const ops::Tables* encoder_tables, const Tap& tap) const;

  pb::ModelConfig config_;
  Weights weights_;
  bool alone_;
  Floats inv_freq_;
};

}  // namespace port

// The operations of the network, one function each, in float32 as engines compute it: sums in eight lanes, attention in
// one pass that keeps no scores, two threads.
#pragma once

#include "tensor.hpp"

namespace port::ops {

// Runs f(i) for i in [0, count), half of them on a second thread where that is worth its start: `work` is multiplications.
void parallel(int64_t count, int64_t work, const std::function<void(int64_t)>& f);

// ids[batch, slot], weight[vocab, hidden] -> [batch, slot, hidden]
Floats embedding(const Longs& ids, const Floats& weight);

// y[o] = sum of weight[o, i] x[i], plus bias[o], on the last axis of x; a bias may be null.
Floats linear(const Floats& x, const Floats& weight, const Floats* bias);

// weight x / sqrt(mean(x^2) + eps) over the last axis.
Floats rms_norm(const Floats& x, const Floats& weight, double eps);

// x[batch, slot, heads, head_dim] -> [batch, heads, slot, head_dim], or back again.
Floats swap_heads(const Floats& x);

// cos and sin, each [batch, slot, head_dim]; both halves of the channels have the same angles.
struct Tables {
  Floats cos, sin;
};

// The angle per position of each pair, [head_dim / 2]. A scaling of an empty rope_type stretches nothing.
Floats inv_freq(int head_dim, double theta, const pb::RopeScaling& scaling);
Tables rope_table(const Longs& positions, const Floats& inv_freq, double attention_factor);

// RoPE by halves of x[batch, heads, slot, head_dim].
Floats rope(const Floats& x, const Tables& tables);

// Each KV head `groups` times in a row: [batch, kv_heads, slot, head_dim] -> [batch, heads, slot, head_dim].
Floats repeat_kv(const Floats& x, int64_t groups);

// Slots of b behind those of a: [batch, kv_heads, slot, head_dim]; a may be empty.
Floats join_slots(const Floats& a, const Floats& b);

// Columns [from, to) of the second axis.
template <class T>
Array<T> columns(const Array<T>& x, int64_t from, int64_t to) {
  Shape shape = x.shape;
  int64_t size = 1;
  for (size_t i = 2; i < shape.size(); i++) size *= shape[i];
  shape[1] = to - from;
  Array<T> y(shape);
  for (int64_t row = 0; row < shape[0]; row++) {
    auto start = x.data.begin() + row * x.shape[1] * size;
    std::copy(start + from * size, start + to * size, y.data.begin() + row * (to - from) * size);
  }
  return y;
}

// Who sees whom, [batch, query, key]. A window counts slots, padding included; 0 is none.
// Every real token, with a window those at most that many slots away: real[batch, slot].
Bools encoder_mask(const Bools& real, int64_t window);
// The past and the present, with a window the last that many slots, the query's own included; behind them the encoder's
// real tokens. real[batch, total] has at least `slots`; in its place [batch, total, total] says itself which slot sees which.
Bools decoder_mask(const Bools& real, int64_t slots, int64_t queries, const Bools* encoder_real, int64_t window);

// scaling q.k before the mask, [batch, heads, query, key]; the softmax over visible keys; the sum of probs v,
// [batch, query, heads, head_dim]. Query head h reads KV head h / (heads / kv_heads).
Floats scores(const Floats& q, const Floats& k, double scaling);
Floats softmax(const Floats& scores, const Bools& mask);
Floats context(const Floats& probs, const Floats& v);

// The three in one pass over tiles of keys, as the network runs them. A row that sees nothing is 0.
Floats attention(const Floats& q, const Floats& k, const Floats& v, const Bools& mask, double scaling);

// gate sigmoid(gate) up, element by element.
Floats swiglu(const Floats& gate, const Floats& up);
Floats add(const Floats& a, const Floats& b);

}  // namespace port::ops

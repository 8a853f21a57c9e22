#include "ops.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

namespace port::ops {
namespace {

constexpr int64_t kLanes = 8, kTile = 32, kWorthAThread = 1 << 18;

float dot(const float* a, const float* b, int64_t n) {
  float lanes[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; lane++) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; i++) sum += a[i] * b[i];
  for (float lane : lanes) sum += lane;
  return sum;
}

Shape with_last(Shape shape, int64_t last) {
  shape.back() = last;
  return shape;
}

double clip(double x) { return std::min(std::max(x, 0.0), 1.0); }

// The share of pair i that is divided: 0 for those that turn beta_fast times or more, 1 from beta_slow on.
double yarn_ramp(int i, int head_dim, double theta, const pb::RopeScaling& scaling) {
  auto pair_that_turns = [&](double times) {
    return head_dim * std::log(scaling.original_max_position_embeddings() / (times * 2 * M_PI)) / (2 * std::log(theta));
  };
  double low = pair_that_turns(scaling.beta_fast()), high = pair_that_turns(scaling.beta_slow());
  if (scaling.truncate()) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, head_dim - 1.0);  // not head_dim / 2 - 1: Hugging Face has it so
  return clip((i - low) / (low == high ? 0.001 : high - low));
}

// The same for Llama 3.1, by how often a pair turns over the original length.
double llama3_ramp(double plain, const pb::RopeScaling& scaling) {
  double turns = scaling.original_max_position_embeddings() * plain / (2 * M_PI);
  return 1 - clip((turns - scaling.low_freq_factor()) / (scaling.high_freq_factor() - scaling.low_freq_factor()));
}

}  // namespace

void parallel(int64_t count, int64_t work, const std::function<void(int64_t)>& f) {
  int64_t half = work < kWorthAThread ? count : count / 2;
  auto part = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++) f(i);
  };
  if (half == count) return part(0, count);
  std::thread other(part, half, count);
  part(0, half);
  other.join();
}

Floats embedding(const Longs& ids, const Floats& weight) {
  int64_t hidden = weight.last();
  Floats y({ids.shape[0], ids.shape[1], hidden});
  for (size_t i = 0; i < ids.data.size(); i++) {
    if (ids.data[i] < 0 || ids.data[i] >= weight.shape[0]) throw std::out_of_range("an id is not in the vocabulary");
    std::copy_n(&weight.data[ids.data[i] * hidden], hidden, &y.data[i * hidden]);
  }
  return y;
}

Floats linear(const Floats& x, const Floats& weight, const Floats* bias) {
  int64_t in = x.last(), out = weight.shape[0];
  if (weight.last() != in) throw std::invalid_argument("a weight has another size than what it multiplies");
  Floats y(with_last(x.shape, out));
  parallel(out, out * static_cast<int64_t>(x.data.size()), [&](int64_t o) {
    for (int64_t row = 0; row < x.rows(); row++) {
      y.data[row * out + o] = dot(&weight.data[o * in], &x.data[row * in], in) + (bias ? bias->data[o] : 0);
    }
  });
  return y;
}

Floats rms_norm(const Floats& x, const Floats& weight, double eps) {
  int64_t n = x.last();
  Floats y(x.shape);
  for (int64_t row = 0; row < x.rows(); row++) {
    const float* from = &x.data[row * n];
    float scale = 1 / std::sqrt(dot(from, from, n) / static_cast<float>(n) + static_cast<float>(eps));
    for (int64_t i = 0; i < n; i++) y.data[row * n + i] = weight.data[i] * (from[i] * scale);
  }
  return y;
}

Floats swap_heads(const Floats& x) {
  int64_t batch = x.shape[0], first = x.shape[1], second = x.shape[2], n = x.last();
  Floats y({batch, second, first, n});
  for (int64_t i = 0; i < batch * first * second; i++) {
    int64_t b = i / (first * second), row = i / second % first, column = i % second;
    std::copy_n(&x.data[i * n], n, &y.data[((b * second + column) * first + row) * n]);
  }
  return y;
}

Floats inv_freq(int head_dim, double theta, const pb::RopeScaling& scaling) {
  Floats y({head_dim / 2});
  const std::string& kind = scaling.rope_type();
  for (int i = 0; i < head_dim / 2; i++) {
    double plain = std::pow(theta, -2.0 * i / head_dim), ramp = 0;
    if (kind == "yarn") {
      ramp = yarn_ramp(i, head_dim, theta, scaling);
    } else if (kind == "llama3") {
      ramp = llama3_ramp(plain, scaling);
    } else if (!kind.empty()) {
      throw Unsupported("rope_type " + kind);
    }
    y.data[i] = static_cast<float>(ramp == 0 ? plain : plain * (1 - ramp) + plain / scaling.factor() * ramp);
  }
  return y;
}

Tables rope_table(const Longs& positions, const Floats& inv_freq, double attention_factor) {
  int64_t pairs = inv_freq.last();
  Shape shape{positions.shape[0], positions.shape[1], 2 * pairs};
  Tables tables{Floats(shape), Floats(shape)};
  for (size_t i = 0; i < tables.cos.data.size(); i++) {
    float angle = static_cast<float>(positions.data[i / (2 * pairs)]) * inv_freq.data[i % pairs];
    tables.cos.data[i] = static_cast<float>(std::cos(static_cast<double>(angle)) * attention_factor);
    tables.sin.data[i] = static_cast<float>(std::sin(static_cast<double>(angle)) * attention_factor);
  }
  return tables;
}

Floats rope(const Floats& x, const Tables& tables) {
  int64_t heads = x.shape[1], slots = x.shape[2], n = x.last(), half = n / 2;
  Floats y(x.shape);
  for (int64_t row = 0; row < x.rows(); row++) {
    int64_t turn = (row / (heads * slots) * slots + row % slots) * n;
    const float *from = &x.data[row * n], *cos = &tables.cos.data[turn], *sin = &tables.sin.data[turn];
    for (int64_t i = 0; i < half; i++) {
      y.data[row * n + i] = from[i] * cos[i] - from[i + half] * sin[i];
      y.data[row * n + i + half] = from[i + half] * cos[i + half] + from[i] * sin[i + half];
    }
  }
  return y;
}

Floats repeat_kv(const Floats& x, int64_t groups) {
  int64_t head = x.shape[2] * x.last(), heads = x.shape[1] * groups;
  Floats y({x.shape[0], heads, x.shape[2], x.last()});
  for (int64_t i = 0; i < x.shape[0] * heads; i++) std::copy_n(&x.data[i / groups * head], head, &y.data[i * head]);
  return y;
}

Floats join_slots(const Floats& a, const Floats& b) {
  if (a.empty()) return b;
  int64_t first = a.shape[2] * a.last(), second = b.shape[2] * b.last();
  Floats y({a.shape[0], a.shape[1], a.shape[2] + b.shape[2], a.last()});
  for (int64_t head = 0; head < a.shape[0] * a.shape[1]; head++) {
    std::copy_n(&a.data[head * first], first, &y.data[head * (first + second)]);
    std::copy_n(&b.data[head * second], second, &y.data[head * (first + second) + first]);
  }
  return y;
}

Bools encoder_mask(const Bools& real, int64_t window) {
  int64_t slots = real.shape[1];
  Bools mask({real.shape[0], slots, slots});
  for (size_t i = 0; i < mask.data.size(); i++) {
    int64_t row = i / slots / slots, query = i / slots % slots, key = i % slots;
    mask.data[i] = real.data[row * slots + key] && (window == 0 || std::abs(query - key) <= window);
  }
  return mask;
}

Bools decoder_mask(const Bools& real, int64_t slots, int64_t queries, const Bools* encoder_real, int64_t window) {
  int64_t total = real.shape[1], memory = encoder_real ? encoder_real->shape[1] : 0, keys = slots + memory;
  Bools mask({real.shape[0], queries, keys});
  for (size_t i = 0; i < mask.data.size(); i++) {
    int64_t row = i / keys / queries, query = slots - queries + i / keys % queries, key = i % keys;
    if (key >= slots) {
      mask.data[i] = encoder_real->data[row * memory + key - slots];
    } else if (real.shape.size() == 3) {
      mask.data[i] = real.data[(row * total + query) * total + key];
    } else {
      bool near = key <= query && (window == 0 || query - key < window);
      mask.data[i] = near && real.data[row * total + key];
    }
  }
  return mask;
}

Floats scores(const Floats& q, const Floats& k, double scaling) {
  int64_t query = q.shape[2], key = k.shape[2], n = q.last(), groups = q.shape[1] / k.shape[1];
  Floats y({q.shape[0], q.shape[1], query, key});
  for (int64_t i = 0; i < static_cast<int64_t>(y.data.size()); i++) {
    int64_t row = i / key, kv = row / query / groups;  // over batch, heads and query; over batch and kv_heads
    y.data[i] = dot(&q.data[row * n], &k.data[(kv * key + i % key) * n], n) * static_cast<float>(scaling);
  }
  return y;
}

Floats softmax(const Floats& scores, const Bools& mask) {
  int64_t heads = scores.shape[1], query = scores.shape[2], key = scores.last();
  Floats y(scores.shape);
  for (int64_t row = 0; row < y.rows(); row++) {
    const uint8_t* visible = &mask.data[(row / (heads * query) * query + row % query) * key];
    const float* from = &scores.data[row * key];
    float *to = &y.data[row * key], peak = -INFINITY, sum = 0;
    for (int64_t j = 0; j < key; j++) peak = visible[j] ? std::max(peak, from[j]) : peak;
    for (int64_t j = 0; j < key; j++) sum += to[j] = visible[j] ? std::exp(from[j] - peak) : 0;
    for (int64_t j = 0; j < key && sum > 0; j++) to[j] /= sum;
  }
  return y;
}

Floats context(const Floats& probs, const Floats& v) {
  int64_t batch = probs.shape[0], heads = probs.shape[1], query = probs.shape[2], key = probs.last(), n = v.last();
  int64_t groups = heads / v.shape[1];
  Floats y({batch, query, heads, n});
  for (int64_t row = 0; row < probs.rows(); row++) {
    int64_t kv = row / query / groups, head = row / query % heads, b = row / (heads * query);
    float* to = &y.data[((b * query + row % query) * heads + head) * n];
    for (int64_t j = 0; j < key; j++) {
      for (int64_t i = 0; i < n; i++) to[i] += probs.data[row * key + j] * v.data[(kv * key + j) * n + i];
    }
  }
  return y;
}

Floats attention(const Floats& q, const Floats& k, const Floats& v, const Bools& mask, double scaling) {
  int64_t batch = q.shape[0], heads = q.shape[1], query = q.shape[2], key = k.shape[2], n = q.last();
  int64_t groups = heads / k.shape[1];
  Floats y({batch, query, heads, n});
  parallel(batch * heads * query, 2 * batch * heads * query * key * n, [&](int64_t row) {
    int64_t kv = row / query / groups, head = row / query % heads, b = row / (heads * query);
    const uint8_t* visible = &mask.data[(b * query + row % query) * key];
    float* to = &y.data[((b * query + row % query) * heads + head) * n];
    float peak = -INFINITY, sum = 0, scores[kTile];
    for (int64_t start = 0; start < key; start += kTile) {
      int64_t tile = std::min(kTile, key - start);
      float highest = peak;
      for (int64_t j = 0; j < tile; j++) {
        if (!visible[start + j]) continue;
        scores[j] = dot(&q.data[row * n], &k.data[(kv * key + start + j) * n], n) * static_cast<float>(scaling);
        highest = std::max(highest, scores[j]);
      }
      if (highest == -INFINITY) continue;
      float smaller = std::exp(peak - highest);  // what was summed up under a lower peak
      sum *= smaller;
      for (int64_t i = 0; i < n; i++) to[i] *= smaller;
      peak = highest;
      for (int64_t j = 0; j < tile; j++) {
        if (!visible[start + j]) continue;
        float weight = std::exp(scores[j] - peak);
        sum += weight;
        for (int64_t i = 0; i < n; i++) to[i] += weight * v.data[(kv * key + start + j) * n + i];
      }
    }
    for (int64_t i = 0; i < n && sum > 0; i++) to[i] /= sum;
  });
  return y;
}

Floats swiglu(const Floats& gate, const Floats& up) {
  Floats y(gate.shape);
  for (size_t i = 0; i < y.data.size(); i++) y.data[i] = gate.data[i] / (1 + std::exp(-gate.data[i])) * up.data[i];
  return y;
}

Floats add(const Floats& a, const Floats& b) {
  Floats y(a.shape);
  for (size_t i = 0; i < y.data.size(); i++) y.data[i] = a.data[i] + b.data[i];
  return y;
}

}  // namespace port::ops

#include "generation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace port {
namespace {

using Row = std::vector<float>;

bool ends_row(const pb::Generation& how, int64_t token) {
  return std::find(how.eos_token_id().begin(), how.eos_token_id().end(), token) != how.eos_token_id().end();
}

Row row_of(const Floats& x, int64_t row) { return {x.data.begin() + row * x.last(), x.data.begin() + (row + 1) * x.last()}; }

Row softmax(Row x) {
  float peak = *std::max_element(x.begin(), x.end()), sum = 0;
  for (float& value : x) sum += value = std::exp(value - peak);
  for (float& value : x) value /= sum;
  return x;
}

// A token goes when it and all smaller ones together have no more than the rest; the largest stays.
void top_p(Row& x, float rest) {
  Row probs = softmax(x);
  std::vector<size_t> order(x.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return x[a] < x[b]; });
  float below = 0;
  for (size_t rank = 0; rank + 1 < order.size(); rank++) {
    below += probs[order[rank]];
    if (below <= rest) x[order[rank]] = -INFINITY;
  }
}

void filter(Row& x, const std::vector<int64_t>& had, const pb::Generation& how) {
  auto penalty = static_cast<float>(how.repetition_penalty());
  for (int64_t id : std::set<int64_t>(had.begin(), had.end())) x[id] = x[id] < 0 ? x[id] * penalty : x[id] / penalty;
  for (float& value : x) value /= static_cast<float>(how.temperature());
  if (how.top_k() > 0) {
    Row sorted = x;
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    float least = sorted[std::min<size_t>(how.top_k(), x.size()) - 1];
    for (float& value : x) value = value < least ? -INFINITY : value;  // what equals the least stays
  }
  if (how.top_p() < 1) top_p(x, static_cast<float>(1 - how.top_p()));
  if (how.min_p() > 0) {
    Row probs = softmax(x);
    float least = static_cast<float>(how.min_p()) * *std::max_element(probs.begin(), probs.end());
    for (size_t i = 0; i < x.size(); i++) x[i] = probs[i] < least ? -INFINITY : x[i];
  }
}

}  // namespace

Continuation::Continuation(const Qwen3& decoder, const Memory* memory, Longs ids, Longs positions, const Bools& real, int64_t new_tokens)
    : decoder_(decoder), cache_(decoder.new_cache(memory)), ids_(std::move(ids)), positions_(std::move(positions)) {
  int64_t prompt = ids_.shape[1], total = prompt + new_tokens;
  real_ = Bools({real.shape[0], total});
  std::fill(real_.data.begin(), real_.data.end(), 1);  // behind the prompt's padding nothing but real tokens
  for (int64_t row = 0; row < real.shape[0]; row++) {
    std::copy_n(&real.data[row * real.shape[1]], prompt, &real_.data[row * total]);
  }
}

Floats Continuation::next() { return last_rows(decoder_.decode(decoder_.embed(ids_), positions_, real_, cache_, Tap())); }

void Continuation::append(const std::vector<int64_t>& tokens) {
  Longs behind({static_cast<int64_t>(tokens.size()), 1});
  for (size_t row = 0; row < tokens.size(); row++) behind.data[row] = positions_.data[(row + 1) * positions_.last() - 1] + 1;
  ids_ = Longs({static_cast<int64_t>(tokens.size()), 1}, tokens);
  positions_ = std::move(behind);
}

Longs greedy_search(Continuation continuation, int64_t new_tokens, const pb::Generation& how) {
  int64_t batch = continuation.rows();
  std::vector<bool> ended(batch);
  Longs chosen({batch, new_tokens});
  for (int64_t step = 0; step < new_tokens; step++) {
    Floats logits = continuation.next();
    std::vector<int64_t> tokens(batch, how.pad_token_id());
    for (int64_t row = 0; row < batch; row++) {
      if (!ended[row]) {
        auto start = logits.data.begin() + row * logits.last();
        tokens[row] = std::max_element(start, start + logits.last()) - start;
        ended[row] = ends_row(how, tokens[row]);
      }
      chosen.data[row * new_tokens + step] = tokens[row];
    }
    continuation.append(tokens);
  }
  return chosen;
}

Floats next_token_probs(const Floats& logits, const std::vector<std::vector<int64_t>>& had, const pb::Generation& how) {
  auto batch = static_cast<int64_t>(had.size());
  int64_t vocab = logits.last(), query = logits.rows() / batch;
  Floats probs({batch, vocab});
  for (int64_t row = 0; row < batch; row++) {
    Row x = row_of(logits, (row + 1) * query - 1);
    filter(x, had[row], how);
    x = softmax(x);
    std::copy(x.begin(), x.end(), probs.data.begin() + row * vocab);
  }
  return probs;
}

Floats last_rows(const Floats& logits) {
  return ops::columns(logits, logits.shape[1] - 1, logits.shape[1]).as({logits.shape[0], logits.last()});
}

}  // namespace port

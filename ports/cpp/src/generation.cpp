#include "generation.hpp"

#include <algorithm>
#include <cmath>
#include <set>

namespace port {
namespace {

using Row = std::vector<float>;

constexpr float kNever = -1e9f;

bool ends_row(const pb::Generation& how, int64_t token) {
  return std::find(how.eos_token_id().begin(), how.eos_token_id().end(), token) != how.eos_token_id().end();
}

Row row_of(const Floats& x, int64_t row) { return {x.data.begin() + row * x.last(), x.data.begin() + (row + 1) * x.last()}; }

Row log_softmax(Row x) {
  float peak = *std::max_element(x.begin(), x.end()), sum = 0;
  for (float value : x) sum += std::exp(value - peak);
  for (float& value : x) value = value - peak - std::log(sum);
  return x;
}

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

struct Beam {
  float score;
  int64_t from;  // of a candidate, the beam that it goes on from
  std::vector<int64_t> tokens;
};

// One source: the beams that run, those that have ended, best first, and whether another may still be among them.
struct Source {
  std::vector<Beam> running, ended;
  bool open = true;
};

void best_first(std::vector<Beam>& beams, size_t most) {
  std::stable_sort(beams.begin(), beams.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
  if (beams.size() > most) beams.resize(most);
}

// Of the best candidates - 2 x beams, or more where several ids end - those go on that do not end; only what is among the best
// as many as there are beams may end, and only while that can still change something.
void step(Source& source, const Floats& logits, int64_t first_row, int64_t length, int64_t new_tokens, const pb::Generation& how) {
  size_t width = how.num_beams();
  auto penalised = [&](float score) { return static_cast<float>(score / std::pow(length, how.length_penalty())); };
  std::vector<Beam> candidates;
  for (size_t beam = 0; beam < source.running.size(); beam++) {
    Row costs = log_softmax(row_of(logits, first_row + static_cast<int64_t>(beam)));
    for (size_t token = 0; token < costs.size(); token++) {
      Beam next{source.running[beam].score + costs[token], static_cast<int64_t>(beam), source.running[beam].tokens};
      next.tokens.push_back(static_cast<int64_t>(token));
      candidates.push_back(std::move(next));
    }
  }
  best_first(candidates, std::max(2, 1 + how.eos_token_id_size()) * width);
  auto ends = [&](const Beam& beam) { return length == new_tokens || ends_row(how, beam.tokens.back()); };
  if (source.open && !(how.early_stopping() && source.ended.size() == width)) {
    for (size_t i = 0; i < std::min(width, candidates.size()); i++) {
      if (ends(candidates[i])) source.ended.push_back({penalised(candidates[i].score), 0, candidates[i].tokens});
    }
    best_first(source.ended, width);
  }
  source.running.clear();
  for (Beam& beam : candidates) {
    if (!ends(beam) && source.running.size() < width) source.running.push_back(std::move(beam));
  }
  if (source.ended.size() == width && length < new_tokens) {
    source.open &= penalised(source.running[0].score) > source.ended.back().score;
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

void Continuation::append(const std::vector<int64_t>& from, const std::vector<int64_t>& tokens) {
  cache_.reorder(from);
  Longs behind({static_cast<int64_t>(from.size()), 1});
  for (size_t row = 0; row < from.size(); row++) behind.data[row] = positions_.data[(from[row] + 1) * positions_.last() - 1] + 1;
  ids_ = Longs({static_cast<int64_t>(from.size()), 1}, tokens);
  positions_ = std::move(behind);
}

Longs greedy_search(Continuation continuation, int64_t new_tokens, const pb::Generation& how) {
  int64_t batch = continuation.rows();
  std::vector<int64_t> same(batch);
  std::iota(same.begin(), same.end(), 0);
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
    continuation.append(same, tokens);
  }
  return chosen;
}

Beams beam_search(Continuation continuation, int64_t new_tokens, const pb::Generation& how) {
  int64_t width = how.num_beams(), returned = how.num_return_sequences(), count = continuation.rows() / width;
  std::vector<Source> sources(count);
  for (Source& source : sources) {
    for (int64_t beam = 0; beam < width; beam++) source.running.push_back({beam == 0 ? 0 : kNever, beam, {}});  // they are equal as yet
  }
  for (int64_t length = 1; length <= new_tokens; length++) {
    Floats logits = continuation.next();
    std::vector<int64_t> from(continuation.rows()), tokens(from.size());
    for (int64_t i = 0; i < count; i++) {
      step(sources[i], logits, i * width, length, new_tokens, how);
      for (int64_t beam = 0; beam < width && length < new_tokens; beam++) {
        from[i * width + beam] = i * width + sources[i].running[beam].from;
        tokens[i * width + beam] = sources[i].running[beam].tokens.back();
      }
    }
    continuation.append(from, tokens);
  }
  Beams best{Longs({count * returned, new_tokens}), Floats({count * returned})};
  std::fill(best.ids.data.begin(), best.ids.data.end(), how.pad_token_id());
  for (int64_t row = 0; row < count * returned; row++) {
    const Beam& beam = sources[row / returned].ended.at(row % returned);
    best.scores.data[row] = beam.score;
    std::copy(beam.tokens.begin(), beam.tokens.end(), best.ids.data.begin() + row * new_tokens);
  }
  return best;
}

Floats entering_scores(const Floats& before, const Floats& logits, const std::vector<int64_t>& from, const std::vector<int64_t>& tokens) {
  Floats scores({static_cast<int64_t>(from.size())});
  for (size_t row = 0; row < from.size(); row++) {
    scores.data[row] = (before.empty() ? 0 : before.data[from[row]]) + log_softmax(row_of(logits, from[row]))[tokens[row]];
  }
  return scores;
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

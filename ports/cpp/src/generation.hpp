// How tokens follow from logits: greedy search, and the distribution that one is drawn from.
#pragma once

#include "qwen3.hpp"

namespace port {

// A decoder that goes on from a prompt, token by token. A new token stands one position behind the last of its row.
class Continuation {
 public:
  // ids and positions are the prompt's, [batch, prompt]; real covers at least that.
  Continuation(const Qwen3& decoder, const Memory* memory, Longs ids, Longs positions, const Bools& real, int64_t new_tokens);

  int64_t rows() const { return ids_.shape[0]; }
  Floats next();  // logits of the next token, [batch, vocab]; what was appended last goes through the network
  void append(const std::vector<int64_t>& tokens);  // row i goes on with tokens[i]

 private:
  const Qwen3& decoder_;
  Cache cache_;
  Longs ids_, positions_;
  Bools real_;
};

Longs greedy_search(Continuation continuation, int64_t new_tokens, const pb::Generation& how);  // the new ids alone

// The last row of logits[batch, …, vocab] through every filter and a softmax; a removed token has exactly 0. had[batch] are the
// ids that a row has had.
Floats next_token_probs(const Floats& logits, const std::vector<std::vector<int64_t>>& had, const pb::Generation& how);

Floats last_rows(const Floats& logits);  // [batch, query, vocab] -> [batch, vocab]

}  // namespace port

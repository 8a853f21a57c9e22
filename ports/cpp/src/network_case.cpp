#include "cases.hpp"
#include "generation.hpp"

namespace port {
namespace {

// What enters the first layer in some slots: the rows of the ids, or the hidden states that stand in their place.
Floats states(const Golden& golden, const Qwen3& stack, const std::string& name, int64_t from, int64_t to, const Tap& tap) {
  if (const Stored* embeds = golden.find("input." + name + "_inputs_embeds")) return ops::columns(floats(*embeds), from, to);
  Floats embedded = stack.embed(ops::columns(longs(golden.get("input." + name + "_input_ids")), from, to));
  tap(name + ".embed_tokens", embedded);
  return embedded;
}

// The ids of each row in the first slots that are no padding.
std::vector<std::vector<int64_t>> real_ids(const Longs& ids, const Bools& real, int64_t slots) {
  std::vector<std::vector<int64_t>> rows(ids.shape[0]);
  for (int64_t i = 0; i < ids.shape[0] * slots; i++) {
    int64_t at = i / slots * ids.shape[1] + i % slots;
    if (real.data[at]) rows[i / slots].push_back(ids.data[at]);
  }
  return rows;
}

// The decoder along the ids of the case, whatever the network would have chosen.
void steps(const Golden& golden, const Qwen3& decoder, const Memory* memory, Recorder& recorder) {
  const pb::Generation& how = golden.testcase().generation();
  Longs positions = longs(golden.get("input.decoder_position_ids"));
  Bools real = bools(golden.get("input.decoder_attention_mask"));
  const Stored* given = golden.find("input.decoder_mask");
  Bools visible = given ? bools(*given) : real;
  Cache cache = decoder.new_cache(memory);
  for (int step = 0; step < golden.testcase().steps_size(); step++) {
    int64_t from = cache.length(), to = from + golden.testcase().steps(step);
    Tap tap = recorder.at(step);
    Floats x = states(golden, decoder, "decoder", from, to, tap);
    Floats logits = decoder.decode(x, ops::columns(positions, from, to), visible, cache, tap);
    if (how.strategy() == "sample" && to >= how.prompt_length()) {
      auto had = real_ids(longs(golden.get("input.decoder_input_ids")), real, to);
      recorder.write("next_token_probs", step, next_token_probs(logits, had, how));
    }
  }
}

void generate(const Golden& golden, const Qwen3& decoder, const Memory* memory, Recorder& recorder) {
  const pb::Case& testcase = golden.testcase();
  const pb::Generation& how = testcase.generation();
  if (testcase.max_new_tokens() == 0 || how.strategy() == "sample") return;
  int64_t prompt = testcase.has_generation() ? how.prompt_length() : testcase.steps(0);
  Longs ids = ops::columns(longs(golden.get("input.decoder_input_ids")), 0, prompt);
  Longs positions = ops::columns(longs(golden.get("input.decoder_position_ids")), 0, prompt);
  Continuation continuation(decoder, memory, ids, positions, bools(golden.get("input.decoder_attention_mask")), testcase.max_new_tokens());
  recorder.write("generated_ids", 0, greedy_search(continuation, testcase.max_new_tokens(), how));
}

}  // namespace

void run_network(const Golden& golden, Checkpoints& checkpoints, Recorder& recorder) {
  if (golden.testcase().has_training()) throw Unsupported("training");
  const Qwen3 *encoder = checkpoints.stack(golden, "encoder"), *decoder = checkpoints.stack(golden, "decoder");
  recorder.copy_inputs();
  std::optional<Memory> memory;
  if (encoder) {
    Longs positions = longs(golden.get("input.encoder_position_ids"));
    Floats x = states(golden, *encoder, "encoder", 0, positions.shape[1], recorder.at(0));
    memory = encoder->encode(x, positions, bools(golden.get("input.encoder_attention_mask")), recorder.at(0));
  }
  if (decoder) {
    steps(golden, *decoder, memory ? &*memory : nullptr, recorder);
    generate(golden, *decoder, memory ? &*memory : nullptr, recorder);
  }
}

}  // namespace port

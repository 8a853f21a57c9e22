// One operation alone, on given inputs.
#include "cases.hpp"
#include "generation.hpp"

namespace port {

void run_op(const Golden& golden, Recorder& recorder) {
  const pb::Case& testcase = golden.testcase();
  std::map<std::string, double> attributes;
  for (const pb::Attribute& attribute : testcase.attributes()) attributes[attribute.key()] = attribute.value();
  auto number = [&](const std::string& name, double otherwise = 0) {
    auto found = attributes.find(name);
    return found == attributes.end() ? otherwise : found->second;
  };
  auto input = [&](const std::string& name) { return floats(golden.get("input." + name)); };
  auto integers = [&](const std::string& name) { return longs(golden.get("input." + name)); };
  auto weight = [&] { return floats(golden.get("parameter.weight")); };
  auto output = [&](const std::string& name, const auto& value) { recorder.write("output." + name, 0, value); };

  recorder.copy_inputs();
  const std::string& op = testcase.op();
  if (op == "embedding") {
    output("y", ops::embedding(integers("ids"), weight()));
  } else if (op == "linear") {
    const Stored* given = golden.find("parameter.bias");
    Floats bias = given ? floats(*given) : Floats();
    output("y", ops::linear(input("x"), weight(), given ? &bias : nullptr));
  } else if (op == "rms_norm" || op == "head_norm") {
    output("y", ops::rms_norm(input("x"), weight(), number("eps")));
  } else if (op == "repeat_kv") {
    output("y", ops::repeat_kv(input("x"), static_cast<int64_t>(number("groups"))));
  } else if (op == "swiglu") {
    output("act", ops::swiglu(input("gate"), input("up")));
  } else if (op == "inv_freq") {
    pb::RopeScaling scaling;
    if (attributes.count("factor")) {
      scaling.set_rope_type("yarn");
      scaling.set_factor(number("factor"));
      scaling.set_original_max_position_embeddings(static_cast<uint32_t>(number("original_max_position_embeddings")));
      scaling.set_beta_fast(number("beta_fast"));
      scaling.set_beta_slow(number("beta_slow"));
      scaling.set_truncate(number("truncate") != 0);
    }
    output("inv_freq", ops::inv_freq(static_cast<int>(number("head_dim")), number("theta"), scaling));
  } else if (op == "rope_table") {
    ops::Tables tables = ops::rope_table(integers("position_ids"), input("inv_freq"), number("attention_factor", 1));
    output("cos", tables.cos);
    output("sin", tables.sin);
  } else if (op == "rope") {
    ops::Tables tables{input("cos"), input("sin")};
    output("q", ops::rope(input("q"), tables));
    output("k", ops::rope(input("k"), tables));
  } else if (op == "mask") {
    auto window = static_cast<int64_t>(number("window"));
    const Stored *encoder = golden.find("input.encoder_attention_mask"), *decoder = golden.find("input.decoder_attention_mask");
    Bools encoder_real = encoder ? bools(*encoder) : Bools(), real = decoder ? bools(*decoder) : Bools();
    output("mask", !decoder ? ops::encoder_mask(encoder_real, window)
                            : ops::decoder_mask(real, real.shape[1], static_cast<int64_t>(number("query")), encoder ? &encoder_real : nullptr, window));
  } else if (op == "scores") {
    output("scores", ops::scores(input("q"), input("k"), number("scaling")));
  } else if (op == "softmax") {
    output("probs", ops::softmax(input("scores"), bools(golden.get("input.mask"))));
  } else if (op == "context") {
    output("context", ops::context(input("probs"), input("v")));
  } else if (op == "next_token_probs") {
    pb::Generation how;
    how.set_repetition_penalty(number("repetition_penalty", 1));
    how.set_temperature(number("temperature", 1));
    how.set_top_k(static_cast<uint32_t>(number("top_k")));
    how.set_top_p(number("top_p", 1));
    how.set_min_p(number("min_p"));
    Longs ids = integers("ids");
    std::vector<std::vector<int64_t>> had;
    for (int64_t row = 0; row < ids.shape[0]; row++) {
      had.emplace_back(ids.data.begin() + row * ids.last(), ids.data.begin() + (row + 1) * ids.last());
    }
    output("probs", next_token_probs(input("logits"), had, how));
  } else if (op == "read") {  // of each file, by its bytes, whether the reader refuses it
    for (const auto& [name, step, file] : golden.tensors) {
      if (name.rfind("input.", 0) != 0) continue;
      Bools refused(Shape{});
      try {
        parse(file.bytes, name);
        refused.data[0] = 0;
      } catch (const std::exception&) {
        refused.data[0] = 1;
      }
      output(name.substr(std::string("input.").size()), refused);
    }
  } else {
    throw Unsupported("op " + op);
  }
}

}  // namespace port

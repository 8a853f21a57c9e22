#include "checkpoints.hpp"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>

namespace port {
namespace {

using google::protobuf::Struct;

// A file is eight bytes with the size of its header, the header in JSON, {name: {dtype, shape, data_offsets}}, and the
// tensors' bytes, little-endian and row-major.
void read_safetensors(const std::filesystem::path& file, Weights& weights) {
  std::string bytes = content(file);
  uint64_t header = 0;
  if (bytes.size() >= 8) std::memcpy(&header, bytes.data(), 8);
  Struct json;
  if (header == 0 || header > bytes.size() - 8 || !google::protobuf::util::JsonStringToMessage(bytes.substr(8, header), &json).ok()) {
    throw std::runtime_error(file.string() + ": it is no safetensors file");
  }
  for (const auto& [name, value] : json.fields()) {
    if (name == "__metadata__") continue;
    const auto& entry = value.struct_value().fields();
    Stored stored;
    if (!pb::DType_Parse(entry.at("dtype").string_value(), &stored.dtype)) throw Unsupported("weights of another dtype");
    for (const auto& length : entry.at("shape").list_value().values()) stored.shape.push_back(static_cast<int64_t>(length.number_value()));
    const auto& offsets = entry.at("data_offsets").list_value();
    auto begin = static_cast<uint64_t>(offsets.values(0).number_value()), end = static_cast<uint64_t>(offsets.values(1).number_value());
    bool whole = begin <= end && end <= bytes.size() - 8 - header && static_cast<int64_t>(end - begin) == size_of(stored.shape) * element_size(stored.dtype);
    if (!whole) throw std::runtime_error(file.string() + ": " + name + " was cut off");
    stored.bytes = bytes.substr(8 + header + begin, end - begin);
    weights[name] = floats(stored);
  }
}

// The weights that a request brings for a role, under Hugging Face's names; a golden brings none.
Weights brought(const Golden& golden, const std::string& role) {
  static const std::string merged = ".merged_attn.";
  std::string stack = "parameter." + role + ".";
  Weights weights;
  for (const auto& [name, step, value] : golden.tensors) {
    if (name.compare(0, stack.size(), stack) == 0) {
      std::string own = name.substr(stack.size());
      if (size_t at = own.find(merged); at != std::string::npos) own.replace(at, merged.size(), ".self_attn.");
      weights["model." + own] = floats(value);
    } else if (name == "parameter.lm_head.weight") {
      weights["lm_head.weight"] = floats(value);
    }
  }
  return weights;
}

}  // namespace

const Qwen3* Checkpoints::stack(const Golden& golden, const std::string& role) {
  const pb::Case& testcase = golden.testcase();
  bool bfloat16 = golden.message.run().arithmetic() == pb::ARITHMETIC_BF16, alone = testcase.mode() == pb::BLOCK;
  for (const pb::Checkpoint& checkpoint : testcase.checkpoint()) {
    if (checkpoint.role() != role) continue;
    std::string key = checkpoint.name() + "\n" + role + (bfloat16 ? "\nbf16\n" : "\n") + (alone ? "alone\n" : "\n") + testcase.config().SerializeAsString();
    auto known = stacks_.find(key);
    if (known == stacks_.end()) {
      Weights weights = brought(golden, role);
      if (weights.empty()) {
        for (const auto& file : std::filesystem::directory_iterator(folder_ / checkpoint.name())) {
          if (file.path().extension() == ".safetensors") read_safetensors(file.path(), weights);
        }
      }
      if (bfloat16) {
        for (auto& [name, weight] : weights) round_to_bfloat16(weight);
      }
      known = stacks_.emplace(key, Qwen3(testcase.config(), std::move(weights), alone)).first;
    }
    return &known->second;
  }
  return nullptr;
}

}  // namespace port

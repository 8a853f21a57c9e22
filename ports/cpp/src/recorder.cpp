#include "recorder.hpp"

#include <fnmatch.h>

#include <algorithm>
#include <regex>

#include "sha256.hpp"

namespace port {
namespace {

// The axis of a tap that counts the step's positions; -1 for taps that have none or are never cut.
int query_axis(const std::string& name) {
  std::string leaf = name.substr(name.rfind('.') + 1);
  auto is = [&](std::initializer_list<const char*> names) { return std::find(names.begin(), names.end(), leaf) != names.end(); };
  if (leaf.rfind("cache_", 0) == 0 || leaf.rfind("encoder_", 0) == 0) return -1;
  if (is({"inv_freq", "position_ids", "cos", "sin", "k_proj", "k_norm", "k_rope", "v_proj"})) return -1;
  return is({"q_rope", "scores", "probs"}) ? 2 : 1;
}

// The last positions of an axis.
Stored last_of(const Stored& value, int axis, int64_t rows) {
  if (value.shape[axis] <= rows) return value;
  size_t outer = 1, length = value.shape[axis];
  for (int i = 0; i < axis; i++) outer *= value.shape[i];
  size_t each = value.bytes.size() / outer, kept = each / length * rows;
  Stored last{value.dtype, value.shape, ""};
  last.shape[axis] = rows;
  for (size_t i = 0; i < outer; i++) last.bytes.append(value.bytes, (i + 1) * each - kept, kept);
  return last;
}

}  // namespace

Recorder::Recorder(const Golden& golden, std::ostream& out) : golden_(golden), out_(out) {
  metadata_.mutable_provenance()->set_producer("qwen3-cpp");
  *metadata_.mutable_case_() = golden.testcase();
  pb::Recording part;
  part.mutable_header()->set_magic("qwen3.golden");
  part.mutable_header()->set_schema_major(1);
  put(part);
}

Tap Recorder::at(uint32_t step) {
  return Tap([this, step](const std::string& name, const Stored& value) {
    const auto& wanted = golden_.testcase().taps();
    bool taken = wanted.empty();
    for (const std::string& glob : wanted) taken |= fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    int64_t rows = golden_.testcase().rows();
    int axis = rows > 0 ? query_axis(name) : -1;
    if (taken) write(name, step, axis < 0 ? value : last_of(value, axis, rows));
  });
}

void Recorder::copy_inputs() {
  bool op = golden_.testcase().mode() == pb::OP;
  for (const auto& [name, step, value] : golden_.tensors) {
    if (name.rfind("input.", 0) == 0 || (op && name.rfind("parameter.", 0) == 0)) write(name, step, value);
  }
}

void Recorder::write(const std::string& name, uint32_t step, const Stored& value) {
  static const std::regex layer("layers\\.[0-9]+\\.");
  pb::Recording part;
  part.add_payload(value.bytes);
  put(part);
  payload_bytes_ += value.bytes.size();
  patterns_.insert(std::regex_replace(name, layer, "layers.{layer}."));
  pb::Tensor& info = *metadata_.add_tensor();
  info.set_name(name);
  info.set_step(step);
  info.set_dtype(value.dtype);
  for (int64_t length : value.shape) info.add_shape(length);
  info.set_bytes(value.bytes.size());
  info.set_sha256(sha256(value.bytes));
}

void Recorder::finish() { finish(pb::ARITHMETIC_F32, pb::FOREIGN, {patterns_.begin(), patterns_.end()}); }

void Recorder::finish(const pb::Tokenization& tokenization, const std::vector<std::string>& stages) {
  *metadata_.mutable_tokenization() = tokenization;
  finish(pb::ARITHMETIC_NONE, pb::BACKEND_NONE, stages);
}

void Recorder::finish(pb::Arithmetic arithmetic, pb::Backend backend, const std::vector<std::string>& materialised) {
  pb::Run& run = *metadata_.mutable_run();
  run.set_arithmetic(arithmetic);
  run.set_backend(backend);
  for (const std::string& pattern : materialised) run.add_materialised(pattern);
  std::string content = metadata_.SerializeAsString();
  out_ << content;
  pb::Recording part;
  part.mutable_end()->set_tensors(metadata_.tensor_size());
  part.mutable_end()->set_payload_bytes(payload_bytes_);
  part.mutable_end()->set_digest(sha256(content));
  put(part);
  if (!out_.flush()) throw std::runtime_error("the recording cannot be written");
}

void Recorder::put(const pb::Recording& part) {
  if (!part.SerializeToOstream(&out_)) throw std::runtime_error("the recording cannot be written");
}

}  // namespace port

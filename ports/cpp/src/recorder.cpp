#include "recorder.hpp"

#include <fnmatch.h>

#include <regex>

#include "sha256.hpp"

namespace port {

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
    if (taken) write(name, step, value);
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

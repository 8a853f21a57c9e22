#include "golden.hpp"

#include <google/protobuf/io/coded_stream.h>

#include <fstream>
#include <iterator>
#include <set>

#include "sha256.hpp"

namespace port {
namespace {

void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

// A stock parser takes a file that was cut off between two fields, or that stands twice in one.
void require_layout(const std::string& bytes, const pb::Recording& message) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()), static_cast<int>(bytes.size()));
  int metadata = -1, end = -1;  // where they begin: behind the last payload, and at the last field
  std::multiset<uint32_t> fields;
  uint32_t tag;
  for (int start = 0; (tag = input.ReadTag()) != 0; start = input.CurrentPosition()) {
    uint32_t field = tag >> 3, size;
    require((tag & 7) == 2, "it has a bare number");
    require((start == 0) == (field == pb::Recording::kHeaderFieldNumber), "the header is not its first field");
    require(end < 0, "something stands behind its end");
    if (field == pb::Recording::kEndFieldNumber) {
      end = start;
    } else if (field > pb::Recording::kPayloadFieldNumber && metadata < 0) {
      metadata = start;
    }
    require(field > pb::Recording::kPayloadFieldNumber || metadata < 0, "a payload stands behind the metadata");
    require(input.ReadVarint32(&size) && input.Skip(static_cast<int>(size)), "it was cut off");
    fields.insert(field);
  }
  require(end >= 0 && metadata >= 0, "it has no end");
  for (uint32_t field : {4, 5, 6}) require(fields.count(field) == 1, "its metadata stands twice");
  require(sha256(std::string_view(bytes).substr(metadata, end - metadata)) == message.end().digest(), "its metadata has another digest");
}

Stored taken(const pb::Tensor& info, std::string&& data) {
  Stored stored{info.dtype(), Shape(info.shape().begin(), info.shape().end()), std::move(data)};
  int64_t expected = element_size(info.dtype());
  for (int64_t length : stored.shape) require(length >= 0, info.name() + " has a negative size");
  for (int64_t length : stored.shape) require(!__builtin_mul_overflow(expected, length, &expected), info.name() + " is too large");
  auto size = static_cast<int64_t>(stored.bytes.size());
  require(size == static_cast<int64_t>(info.bytes()) && size == expected, info.name() + " has another size");
  require(info.axes().empty() || info.axes_size() == info.shape_size(), info.name() + " has a name too many or too few for its axes");
  require(info.sha256().empty() || info.sha256() == sha256(stored.bytes), info.name() + " has another digest");
  bool bools = info.dtype() != pb::BOOL || stored.bytes.find_first_not_of(std::string("\0\1", 2)) == std::string::npos;
  require(bools, info.name() + " has a bool that is neither 0 nor 1");
  return stored;
}

void fill(Golden& golden, const std::string& bytes) {
  pb::Recording& message = golden.message;
  require(message.ParseFromString(bytes), "it is no protobuf message of this schema");
  require(message.header().magic() == "qwen3.golden", "it is no recording");
  require(message.header().schema_major() == 1, "its major version is another one");
  require(message.has_provenance() && message.has_case_() && message.has_run(), "its metadata is not complete");
  require(message.case_().mode() > 0 && pb::Mode_IsValid(message.case_().mode()), "its mode is none");
  const pb::Run& run = message.run();
  require(run.arithmetic() > 0 && pb::Arithmetic_IsValid(run.arithmetic()), "its arithmetic is none");
  require(run.backend() > 0 && pb::Backend_IsValid(run.backend()), "its backend is none");
  require_layout(bytes, message);
  int count = static_cast<int>(message.end().tensors());
  require(count == message.payload_size() && count == message.tensor_size(), "tensors are missing");
  uint64_t total = 0;
  std::set<std::pair<std::string, uint32_t>> names;
  for (int i = 0; i < count; i++) {
    const pb::Tensor& info = message.tensor(i);
    total += message.payload(i).size();
    golden.tensors.push_back({info.name(), info.step(), taken(info, std::move(*message.mutable_payload(i)))});
    require(names.emplace(info.name(), info.step()).second, info.name() + " stands twice");
  }
  require(total == message.end().payload_bytes(), "payloads are missing");
}

}  // namespace

const Stored* Golden::find(const std::string& name, uint32_t step) const {
  for (const Entry& entry : tensors) {
    if (entry.step == step && entry.name == name) return &entry.value;
  }
  return nullptr;
}

const Stored& Golden::get(const std::string& name) const {
  const Stored* stored = find(name);
  require(stored, testcase().name() + " has no " + name);
  return *stored;
}

Golden parse(const std::string& bytes, const std::string& where) {
  Golden golden;
  try {
    fill(golden, bytes);
  } catch (const std::exception& error) {
    throw std::runtime_error(where + ": " + error.what());
  }
  return golden;
}

std::string content(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  require(in.good() && std::filesystem::is_regular_file(path), path.string() + ": it cannot be read");
  return {std::istreambuf_iterator<char>(in), {}};
}

Golden read(const std::filesystem::path& path) { return parse(content(path), path.string()); }

}  // namespace port

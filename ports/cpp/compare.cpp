// Holds a recording against its golden, as an engine's own tests would: GOLDEN CANDIDATE golden/tolerances.textproto. Exit code
// 0 within every budget, 1 beyond one, 2 not readable. qwen3-parity check judges more: every op alone, what is missing.
#include <google/protobuf/text_format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <stdexcept>

#include "golden.pb.h"
#include "src/sha256.hpp"

using namespace qwen3::golden::v1;

static void require(bool holds, const std::string& otherwise) {
  if (!holds) throw std::runtime_error(otherwise);
}

static std::string content(const char* path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

static Recording read(const char* path) {
  Recording file;
  require(file.ParseFromString(content(path)) && file.header().magic() == "qwen3.golden" && file.header().schema_major() == 1, std::string(path) + ": no recording");
  int count = static_cast<int>(file.end().tensors());
  require(count == file.payload_size() && count == file.tensor_size(), std::string(path) + ": cut off");
  for (int i = 0; i < count; i++) require(file.tensor(i).sha256() == port::sha256(file.payload(i)), file.tensor(i).name() + " is damaged");
  return file;
}

// Where a tap stands in a recording; -1: nowhere.
static int place(const Recording& file, const std::string& name, uint32_t step) {
  for (int i = 0; i < file.tensor_size(); i++) {
    if (file.tensor(i).step() == step && file.tensor(i).name() == name) return i;
  }
  return -1;
}

static bool real(const Recording& golden, const std::string& stack, int64_t row, int64_t slot) {
  int mask = place(golden, "input." + stack + "_attention_mask", 0);
  return mask < 0 || golden.payload(mask)[row * golden.tensor(mask).shape(1) + slot] != 0;
}

// Whether an element is none of padding. Keys of the decoder stand before those of the encoder.
static bool counts(const Recording& golden, const Tensor& info, int64_t element) {
  int64_t row = 0, query = -1, key = -1, past = 0, own = std::numeric_limits<int64_t>::max();
  for (int axis = info.shape_size() - 1; axis >= 0; element /= info.shape(axis--)) {
    int64_t at = element % info.shape(axis);
    if (info.axes(axis) == "batch") row = at;
    if (info.axes(axis) == "query") query = at;
    if (info.axes(axis) == "key") key = at;
  }
  std::string stack = info.name().rfind("encoder.", 0) == 0 ? "encoder" : "decoder";
  if (stack == "decoder") {
    for (uint32_t step = 0; step < info.step(); step++) past += golden.case_().steps(step);
    if (golden.case_().mode() == ENCODER_DECODER) own = past + golden.case_().steps(info.step());
  }
  bool memory = info.name().find("encoder_") != std::string::npos || key >= own;
  if (key >= 0 && !real(golden, memory ? "encoder" : stack, row, key >= own ? key - own : key)) return false;
  return query < 0 || real(golden, stack, row, past + query);
}

// The larger share of what the RMS and the largest error may be; a tap without a floor is exact.
static double share(const Recording& golden, int right, const Recording& candidate, int ours, const Headroom& allowed) {
  const Tensor &info = golden.tensor(right), &other = candidate.tensor(ours);
  const std::string &expected = golden.payload(right), &actual = candidate.payload(ours);
  require(info.dtype() == other.dtype() && expected.size() == actual.size() && std::equal(info.shape().begin(), info.shape().end(), other.shape().begin(), other.shape().end()), info.name() + " has another shape or dtype");
  if (info.dtype() != F32 || !info.has_floor()) return expected == actual ? 0 : std::numeric_limits<double>::infinity();
  double squares = 0, largest = 0, elements = static_cast<double>(expected.size()) / 4;
  for (size_t i = 0; i < expected.size() / 4; i++) {
    float value, own;
    std::memcpy(&value, &expected[4 * i], 4);
    std::memcpy(&own, &actual[4 * i], 4);
    double error = std::abs(static_cast<double>(own) - value);
    require(std::isfinite(error), info.name() + " has NaN or infinity");
    if (info.op() == "inv_freq") error /= std::abs(value);  // its elements span decades
    if (!counts(golden, info, static_cast<int64_t>(i))) continue;
    squares += error * error;
    largest = std::max(largest, error);
  }
  const Floor& floor = info.has_own_angles_floor() && !candidate.run().golden_tables() ? info.own_angles_floor() : info.floor();
  double rms = std::sqrt(squares / elements) / (allowed.rms() * floor.rms());
  return largest == 0 ? 0 : std::max(rms, largest / (allowed.max() * floor.max()));
}

int main(int count, char** files) try {
  require(count == 4, "GOLDEN CANDIDATE golden/tolerances.textproto");
  Recording golden = read(files[1]), candidate = read(files[2]);
  Tolerances table;
  require(google::protobuf::TextFormat::ParseFromString(content(files[3]), &table), "no tolerances");
  int compared = 0, beyond = 0;
  for (int i = 0; i < golden.tensor_size(); i++) {
    const Tensor& info = golden.tensor(i);
    int ours = place(candidate, info.name(), info.step());
    if (ours < 0) continue;
    compared++;
    double used = share(golden, i, candidate, ours, table.headroom(0));  // the first row is that of whole runs
    if (used > 1) beyond++, std::printf("%s, step %u: %.3g of its budget\n", info.name().c_str(), info.step(), used);
  }
  require(compared > 0, "nothing to compare");
  std::printf("%d of %d taps compared, %d beyond their budgets\n", compared, golden.tensor_size(), beyond);
  return beyond > 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}

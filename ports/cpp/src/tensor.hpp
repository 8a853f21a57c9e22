// Numbers with a shape, row-major: the last axis is contiguous. An empty shape is a scalar.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "golden.pb.h"

namespace pb = qwen3::golden::v1;

namespace port {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "payloads are little-endian");

// What the port does not have; the message says what.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using Shape = std::vector<int64_t>;

inline int64_t size_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

inline uint32_t to_bits(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return bits;
}

inline float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, 4);
  return value;
}

template <class T>
struct Array {
  Shape shape;
  std::vector<T> data;

  Array() = default;
  explicit Array(Shape of) : shape(std::move(of)), data(size_of(shape)) {}
  Array(Shape of, std::vector<T> values) : shape(std::move(of)), data(std::move(values)) {}

  int64_t last() const { return shape.back(); }
  int64_t rows() const { return last() ? static_cast<int64_t>(data.size()) / last() : 0; }
  bool empty() const { return data.empty(); }

  // The same numbers under another shape.
  Array as(Shape other) const { return Array(std::move(other), data); }
};

using Floats = Array<float>;    // what the network computes in
using Longs = Array<int64_t>;   // ids and positions
using Bools = Array<uint8_t>;   // masks: 1 is visible, or a real token

// Whatever a file holds, as it holds it.
struct Stored {
  pb::DType dtype = pb::DTYPE_UNSPECIFIED;
  Shape shape;
  std::string bytes;
};

int64_t element_size(pb::DType dtype);
Floats floats(const Stored& stored);  // widened to float32, exactly; of F32, BF16 and F16
Longs longs(const Stored& stored);
Bools bools(const Stored& stored);
void round_to_bfloat16(Floats& x);    // in place, to nearest, ties to even

template <class T>
Stored stored(const Array<T>& array) {
  pb::DType dtype = std::is_same_v<T, float> ? pb::F32 : std::is_same_v<T, int64_t> ? pb::I64 : pb::BOOL;
  return {dtype, array.shape, std::string(reinterpret_cast<const char*>(array.data.data()), array.data.size() * sizeof(T))};
}

}  // namespace port

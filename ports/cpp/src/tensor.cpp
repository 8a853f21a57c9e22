#include "tensor.hpp"

#include <cmath>

namespace port {
namespace {

template <class T>
Array<T> copied(const Stored& stored, pb::DType dtype) {
  if (stored.dtype != dtype) {
    throw std::invalid_argument("expected " + pb::DType_Name(dtype) + ", got " + pb::DType_Name(stored.dtype));
  }
  Array<T> y(stored.shape);
  std::memcpy(y.data.data(), stored.bytes.data(), stored.bytes.size());
  return y;
}

float from_half(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  float magnitude = exponent == 0      ? std::ldexp(static_cast<float>(fraction), -24)
                    : exponent == 0x1f ? (fraction == 0 ? INFINITY : NAN)
                                       : std::ldexp(static_cast<float>(fraction | 0x400), exponent - 25);
  return bits >> 15 ? -magnitude : magnitude;
}

}  // namespace

int64_t element_size(pb::DType dtype) {
  switch (dtype) {
    case pb::F64: case pb::I64: return 8;
    case pb::F32: case pb::I32: return 4;
    case pb::F16: case pb::BF16: return 2;
    case pb::U8: case pb::BOOL: return 1;
    default: throw std::invalid_argument("a tensor has no dtype of this schema");
  }
}

Floats floats(const Stored& stored) {
  if (stored.dtype != pb::BF16 && stored.dtype != pb::F16) return copied<float>(stored, pb::F32);
  Floats y(stored.shape);
  for (size_t i = 0; i < y.data.size(); i++) {
    uint16_t bits;
    std::memcpy(&bits, &stored.bytes[2 * i], 2);
    y.data[i] = stored.dtype == pb::F16 ? from_half(bits) : from_bits(static_cast<uint32_t>(bits) << 16);
  }
  return y;
}

Longs longs(const Stored& stored) { return copied<int64_t>(stored, pb::I64); }

Bools bools(const Stored& stored) { return copied<uint8_t>(stored, pb::BOOL); }

void round_to_bfloat16(Floats& x) {
  for (float& value : x.data) {
    auto bits = to_bits(value);
    value = from_bits((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000);
  }
}

}  // namespace port

// FIPS 180-4. The constants are the first bits of roots of primes, and are computed from them.
#include "sha256.hpp"

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace port {
namespace {

uint32_t rotr(uint32_t x, int by) { return x >> by | x << (32 - by); }

struct Constants {
  std::array<uint32_t, 64> rounds;
  std::array<uint32_t, 8> start;

  Constants() {
    auto fraction = [](long double root) { return static_cast<uint32_t>((root - std::floor(root)) * 4294967296.0L); };
    for (int prime = 2, count = 0; count < 64; prime++) {
      bool divided = false;
      for (int i = 2; i * i <= prime; i++) divided |= prime % i == 0;
      if (divided) continue;
      if (count < 8) start[count] = fraction(std::sqrt(static_cast<long double>(prime)));
      rounds[count++] = fraction(std::cbrt(static_cast<long double>(prime)));
    }
  }
};

void block(std::array<uint32_t, 8>& state, const unsigned char* bytes, const std::array<uint32_t, 64>& rounds) {
  std::array<uint32_t, 64> w;
  for (int i = 0; i < 16; i++) {
    w[i] = static_cast<uint32_t>(bytes[4 * i]) << 24 | bytes[4 * i + 1] << 16 | bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t low = rotr(w[i - 15], 7) ^ rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    uint32_t high = rotr(w[i - 2], 17) ^ rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + low + w[i - 7] + high;
  }
  auto [a, b, c, d, e, f, g, h] = state;
  for (int i = 0; i < 64; i++) {
    uint32_t first = h + (rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25)) + ((e & f) ^ (~e & g)) + rounds[i] + w[i];
    uint32_t second = (rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + first, d = c, c = b, b = a, a = first + second;
  }
  std::array<uint32_t, 8> more{a, b, c, d, e, f, g, h};
  for (int i = 0; i < 8; i++) state[i] += more[i];
}

}  // namespace

std::string sha256(std::string_view content) {
  static const Constants constants;
  auto state = constants.start;
  auto bytes = reinterpret_cast<const unsigned char*>(content.data());
  size_t whole = content.size() / 64 * 64;
  for (size_t at = 0; at < whole; at += 64) block(state, bytes + at, constants.rounds);
  std::string rest(content.substr(whole));
  rest += '\x80';
  rest.resize(rest.size() <= 56 ? 56 : 120);
  for (int shift = 56; shift >= 0; shift -= 8) rest += static_cast<char>(content.size() * 8ull >> shift);
  for (size_t at = 0; at < rest.size(); at += 64) {
    block(state, reinterpret_cast<const unsigned char*>(rest.data()) + at, constants.rounds);
  }
  std::string digest;
  for (uint32_t word : state) {
    for (int shift = 24; shift >= 0; shift -= 8) digest += static_cast<char>(word >> shift);
  }
  return digest;
}

}  // namespace port

// Bytes to text, as Unicode replaces what is no UTF-8.
#include "tokenizer.hpp"

namespace port {
namespace {

uint8_t byte_at(const std::string& bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }

// Bytes of the character that a byte begins; 0 where none begins with it.
size_t size_from(uint8_t first) {
  if (first < 0x80) return 1;
  return first < 0xc2 || first > 0xf4 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// Whether a byte may stand in a character: no overlong forms, no surrogates, nothing above U+10FFFF.
bool goes_on(const std::string& bytes, size_t first, size_t index) {
  uint8_t b = byte_at(bytes, first + index), begins = byte_at(bytes, first), low = 0x80, high = 0xbf;
  if (index == 1) {
    if (begins == 0xe0) low = 0xa0;
    if (begins == 0xed) high = 0x9f;
    if (begins == 0xf0) low = 0x90;
    if (begins == 0xf4) high = 0x8f;
  }
  return low <= b && b <= high;
}

std::string replaced(const std::string& bytes) {
  std::string text;
  for (size_t at = 0, length; at < bytes.size(); at += length) {
    size_t size = size_from(byte_at(bytes, at));
    length = 1;
    while (length < size && at + length < bytes.size() && goes_on(bytes, at, length)) length++;
    text += length == size ? bytes.substr(at, length) : "\uFFFD";
  }
  return text;
}

// How many bytes at the end are the beginning of a character that more bytes may complete: 0 to 3.
size_t unfinished(const std::string& bytes) {
  for (size_t count = 1; count <= 3 && count <= bytes.size(); count++) {
    size_t at = bytes.size() - count, size = size_from(byte_at(bytes, at));
    if (size > 0) return count < size && (count == 1 || goes_on(bytes, at, 1)) ? count : 0;
  }
  return 0;
}

}  // namespace

std::string Stream::push(const std::string& piece) {
  std::string bytes = waiting_ + piece;
  size_t certain = bytes.size() - unfinished(bytes);
  waiting_ = bytes.substr(certain);
  return replaced(bytes.substr(0, certain));
}

std::string Stream::finish() {
  std::string left = replaced(waiting_);
  waiting_.clear();
  return left;
}

}  // namespace port

// What letters, numbers, white space and compositions are to a tokenizer: by its own tables, not by a library's newer ones.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "golden.pb.h"

namespace pb = qwen3::golden::v1;

namespace port {

using Text = std::u32string;  // code points: what places in a text count

Text text_of(std::string_view utf8);  // of well-formed UTF-8, as protobuf's strings are
std::string utf8_of(std::u32string_view text);

class Unicode {
 public:
  using Set = std::vector<bool>;  // by code point

  explicit Unicode(const pb::UnicodeTables& tables);

  Set letters, numbers, spaces, words;

  Text decomposed(char32_t c) const;                     // in full; itself where it does not come apart
  char32_t composed(char32_t first, char32_t second) const;  // 0 where they do not compose
  int combining_class(char32_t c) const;                 // 0 is that of a starter
  bool is_letter_ignoring_case(char32_t c, char letter) const;  // a letter from a to z in any case

 private:
  std::map<char32_t, Text> decompositions_;
  std::map<char32_t, int> classes_;
  std::map<std::pair<char32_t, char32_t>, char32_t> compositions_;
  std::map<char, Text> variants_;
};

// A text in normalisation form C. Character i belongs to character origin[i] of what it was made from; -1 belongs to
// nothing, an empty place at the beginning.
struct Normalized {
  Text text;
  std::vector<int> origin;
};

Normalized unchanged(const Text& text);
Normalized nfc(const Text& text, const Unicode& unicode);

}  // namespace port

// A byte-level BPE tokenizer from its message in golden/tokenizers. Places in a text are counted in code points.
#pragma once

#include <set>

#include "unicode.hpp"

namespace port {

// Text cut at its added tokens. Of those that start leftmost the longest is found. The search runs twice: over the text as it
// is, and over each part between, normalised, for the tokens that are found there.
class AddedTokens {
 public:
  struct Part {
    size_t begin, end;             // in characters of the text
    const pb::AddedToken* token;  // null for plain text
  };

  AddedTokens(const pb::Tokenizer& message, const Unicode& unicode);

  // In order; with `split_special` names of special tokens are plain text.
  std::vector<Part> split(const Text& text, bool split_special) const;

 private:
  struct Name {
    const pb::AddedToken* token;
    Text text;
  };

  std::vector<Part> search(const Text& text, const std::vector<Name>& names, bool split_special) const;

  const Unicode& unicode_;
  std::vector<Name> raw_, late_;  // longest first; the late ones stand in normalised text
};

class Tokenizer {
 public:
  explicit Tokenizer(const std::string& bytes);  // throws Unsupported for one of another kind
  Tokenizer(const Tokenizer&) = delete;

  const pb::Tokenizer& message() const { return message_; }
  const std::string& piece(uint32_t id) const;  // the bytes that an id stands for
  bool is_special(uint32_t id) const { return special_.count(id) > 0; }

  // Every stage of a text; with `split_special` names of special tokens in it are plain text. No ids are added.
  pb::Encoding encode(const std::string& text, bool split_special = false) const;

 private:
  void encode_plain(const Normalized& text, pb::Segment& segment, pb::Encoding& encoding) const;
  std::vector<uint32_t> merge(std::vector<uint32_t>& ids) const;  // in place; returns the ranks in order
  Normalized normalize(const Text& text) const;

  struct Merge {
    uint32_t rank, result;
  };

  pb::Tokenizer message_;
  Unicode unicode_;
  AddedTokens added_tokens_;
  std::map<std::pair<uint32_t, uint32_t>, Merge> merges_;
  std::map<uint32_t, std::string> pieces_;
  std::map<char, uint32_t> id_of_byte_;
  std::set<uint32_t> special_;
};

// Qwen's pattern, written out: where the piece that begins at a character ends.
extern const char kPattern[];
size_t pre_token_end(const Text& text, size_t at, const Unicode& unicode);

// A stream of ids to text: whole characters as soon as they are certain. U+FFFD stands for each longest beginning of a
// character that nothing completes; together the chunks are the text of all bytes.
class Stream {
 public:
  std::string push(const std::string& piece);
  std::string finish();

 private:
  std::string waiting_;
};

// The text of a conversation; messages and tools are JSON arrays, no tools are empty. A port without Jinja writes out the
// templates that it knows; kTemplate is the SHA-256 of this one, in hexadecimal.
extern const char kTemplate[];
std::string render(const pb::Conversation& conversation);

}  // namespace port

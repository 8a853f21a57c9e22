#include "tokenizer.hpp"

#include <algorithm>

#include "tensor.hpp"

namespace port {
namespace {

// GPT-2's map: bytes that are printable in Latin-1 stand for themselves, the other 68 are U+0100 and up, in order.
const Text& byte_symbols() {
  static const Text symbols = [] {
    Text map;
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; b++) map += (0x21 <= b && b <= 0x7e) || (0xa1 <= b && b != 0xad) ? b : next++;
    return map;
  }();
  return symbols;
}

std::string symbols_of(const std::string& bytes) {
  Text text;
  for (char b : bytes) text += byte_symbols()[static_cast<uint8_t>(b)];
  return utf8_of(text);
}

// The bytes that an added token is decoded to: a byte for each character, or its UTF-8 where one stands for none.
std::string decoded_content(const std::string& content) {
  std::string bytes;
  for (char32_t symbol : text_of(content)) {
    size_t byte = byte_symbols().find(symbol);
    if (byte == Text::npos) return content;
    bytes += static_cast<char>(byte);
  }
  return bytes;
}

// The characters of the text from which some of the normalised ones came.
void add_offset(pb::Encoding& encoding, size_t start, const Normalized& text, size_t first, size_t last) {
  pb::Span& offset = *encoding.add_offset();
  offset.set_begin(static_cast<uint32_t>(start) + std::max(0, text.origin[first]));
  offset.set_end(static_cast<uint32_t>(start) + text.origin[last] + 1);
}

pb::Tokenizer parsed(const std::string& bytes) {
  pb::Tokenizer message;
  if (!message.ParseFromString(bytes) || message.header().magic() != "qwen3.tokenizer" || message.header().schema_major() != 1) {
    throw std::runtime_error("it is no tokenizer");
  }
  if (message.pre_tokenizer() != kPattern) throw Unsupported("the pattern " + message.pre_tokenizer());
  return message;
}

}  // namespace

AddedTokens::AddedTokens(const pb::Tokenizer& message, const Unicode& unicode) : unicode_(unicode) {
  for (const pb::AddedToken& token : message.added_token()) {
    Text text = text_of(token.content());
    if (token.normalized() && !message.normalizer().empty()) text = nfc(text, unicode).text;
    if (!text.empty()) (token.normalized() ? late_ : raw_).push_back({&token, text});
  }
  for (auto* names : {&raw_, &late_}) {
    std::stable_sort(names->begin(), names->end(), [](const Name& a, const Name& b) { return a.text.size() > b.text.size(); });
  }
}

std::vector<AddedTokens::Part> AddedTokens::split(const Text& text, bool split_special) const {
  std::vector<Part> parts;
  for (const Part& part : search(text, raw_, split_special)) {
    if (part.token || late_.empty()) {
      parts.push_back(part);
      continue;
    }
    Normalized normalized = nfc(text.substr(part.begin, part.end - part.begin), unicode_);
    auto place = [&](size_t at) { return at == normalized.text.size() ? part.end : part.begin + std::max(0, normalized.origin[at]); };
    for (const Part& finer : search(normalized.text, late_, split_special)) {
      parts.push_back({place(finer.begin), place(finer.end), finer.token});
    }
  }
  return parts;
}

std::vector<AddedTokens::Part> AddedTokens::search(const Text& text, const std::vector<Name>& names, bool split_special) const {
  std::vector<Part> parts;
  size_t done = 0;
  for (size_t at = 0; at < text.size();) {
    auto name = std::find_if(names.begin(), names.end(), [&](const Name& one) { return text.compare(at, one.text.size(), one.text) == 0; });
    if (name == names.end()) {
      at++;
      continue;
    }
    size_t begin = at, end = at + name->text.size();
    at = end;  // the search goes on behind it, taken or not
    const pb::AddedToken& token = *name->token;
    bool in_word = (begin > 0 && unicode_.words[text[begin - 1]]) || (end < text.size() && unicode_.words[text[end]]);
    if ((split_special && token.special()) || (token.single_word() && in_word)) continue;
    while (token.lstrip() && begin > done && unicode_.spaces[text[begin - 1]]) begin--;
    begin = std::max(begin, done);
    while (token.rstrip() && end < text.size() && unicode_.spaces[text[end]]) end++;
    if (begin >= end) continue;  // the token before has taken all of it
    if (done < begin) parts.push_back({done, begin, nullptr});
    parts.push_back({begin, end, &token});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), nullptr});
  return parts;
}

Tokenizer::Tokenizer(const std::string& bytes) : message_(parsed(bytes)), unicode_(message_.unicode()), added_tokens_(message_, unicode_) {
  for (int rank = 0; rank < message_.merge_size(); rank++) {
    const pb::MergeRule& rule = message_.merge(rank);
    merges_[{rule.left(), rule.right()}] = {static_cast<uint32_t>(rank), rule.result()};
  }
  for (const pb::TokenEntry& token : message_.token()) {
    pieces_[token.id()] = token.bytes();
    if (token.bytes().size() == 1) id_of_byte_[token.bytes()[0]] = token.id();
  }
  for (const pb::AddedToken& token : message_.added_token()) {
    pieces_[token.id()] = decoded_content(token.content());
    if (token.special()) special_.insert(token.id());
  }
}

const std::string& Tokenizer::piece(uint32_t id) const {
  auto known = pieces_.find(id);
  if (known == pieces_.end()) throw std::runtime_error("the tokenizer has no id " + std::to_string(id));
  return known->second;
}

Normalized Tokenizer::normalize(const Text& text) const {
  return message_.normalizer().empty() ? unchanged(text) : nfc(text, unicode_);
}

pb::Encoding Tokenizer::encode(const std::string& text, bool split_special) const {
  Text characters = text_of(text);
  pb::Encoding encoding;
  encoding.set_text(text);
  encoding.set_split_special_tokens(split_special);
  for (const AddedTokens::Part& part : added_tokens_.split(characters, split_special)) {
    Text own = characters.substr(part.begin, part.end - part.begin);
    pb::Segment& segment = *encoding.add_segment();
    segment.set_begin(static_cast<uint32_t>(part.begin));
    segment.set_end(static_cast<uint32_t>(part.end));
    if (!part.token) {
      encode_plain(normalize(own), segment, encoding);
      continue;
    }
    segment.set_added_token(part.token->id());
    encoding.add_id(part.token->id());
    Normalized content = part.token->normalized() ? normalize(own) : unchanged(own);
    add_offset(encoding, part.begin, content, 0, content.text.size() - 1);
  }
  return encoding;
}

void Tokenizer::encode_plain(const Normalized& text, pb::Segment& segment, pb::Encoding& encoding) const {
  segment.set_normalized(utf8_of(text.text));
  uint32_t begin_byte = 0;
  for (size_t begin = 0, end; begin < text.text.size(); begin = end) {
    end = pre_token_end(text.text, begin, unicode_);
    std::string bytes;
    std::vector<size_t> character_of;  // of each byte
    for (size_t at = begin; at < end; at++) {
      bytes += utf8_of(std::u32string_view(&text.text[at], 1));
      character_of.resize(bytes.size(), at);
    }
    std::vector<uint32_t> ids;
    for (char b : bytes) ids.push_back(id_of_byte_.at(b));
    std::vector<uint32_t> ranks = merge(ids);
    pb::PreToken& pre_token = *segment.add_pre_token();
    pre_token.set_begin(static_cast<uint32_t>(begin));
    pre_token.set_end(static_cast<uint32_t>(end));
    pre_token.set_begin_byte(begin_byte);
    pre_token.set_end_byte(begin_byte += static_cast<uint32_t>(bytes.size()));
    pre_token.set_symbols(symbols_of(bytes));
    pre_token.mutable_merge()->Add(ranks.begin(), ranks.end());
    pre_token.mutable_id()->Add(ids.begin(), ids.end());
    encoding.mutable_id()->Add(ids.begin(), ids.end());
    size_t at = 0;
    for (uint32_t id : ids) {
      size_t last = at + piece(id).size() - 1;
      add_offset(encoding, segment.begin(), text, character_of[at], character_of[last]);
      at = last + 1;
    }
  }
}

// Of all neighbours those of the lowest rank are merged, the leftmost first, until none are left.
std::vector<uint32_t> Tokenizer::merge(std::vector<uint32_t>& ids) const {
  std::vector<uint32_t> ranks;
  while (true) {
    size_t place = 0;
    const Merge* best = nullptr;
    for (size_t i = 0; i + 1 < ids.size(); i++) {
      auto rule = merges_.find({ids[i], ids[i + 1]});
      if (rule != merges_.end() && (!best || rule->second.rank < best->rank)) {
        best = &rule->second;
        place = i;
      }
    }
    if (!best) return ranks;
    ids[place] = best->result;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1);
    ranks.push_back(best->rank);
  }
}

const char kPattern[] =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The alternatives are tried in the order of the pattern.
size_t pre_token_end(const Text& text, size_t at, const Unicode& unicode) {
  auto run = [&](size_t from, auto&& holds) {
    while (from < text.size() && holds(text[from])) from++;
    return from;
  };
  auto letter = [&](char32_t c) { return unicode.letters[c]; };
  auto number = [&](char32_t c) { return unicode.numbers[c]; };
  auto space = [&](char32_t c) { return unicode.spaces[c]; };
  auto newline = [](char32_t c) { return c == '\r' || c == '\n'; };
  char32_t first = text[at];
  if (first == '\'') {
    for (std::string_view ending : {"s", "t", "re", "ve", "m", "ll", "d"}) {
      auto same = [&](char32_t c, char of) { return unicode.is_letter_ignoring_case(c, of); };
      if (at + ending.size() < text.size() && std::equal(text.begin() + static_cast<std::ptrdiff_t>(at) + 1, text.begin() + static_cast<std::ptrdiff_t>(at + 1 + ending.size()), ending.begin(), same)) {
        return at + 1 + ending.size();
      }
    }
  }
  size_t letters = at + (!newline(first) && !letter(first) && !number(first));
  size_t end = run(letters, letter);
  if (end > letters) return end;
  if (number(first)) return at + 1;
  size_t others = at + (first == ' ');
  end = run(others, [&](char32_t c) { return !space(c) && !letter(c) && !number(c); });
  if (end > others) return run(end, newline);
  end = run(at, space);
  for (size_t last = end; last > at; last--) {
    if (newline(text[last - 1])) return last;
  }
  return end == text.size() || end == at + 1 ? end : end - 1;  // the last space belongs to what follows it
}

}  // namespace port

#include "unicode.hpp"

#include <algorithm>
#include <numeric>

namespace port {
namespace {

constexpr char32_t kCodePoints = 0x110000;

Unicode::Set set_of(const google::protobuf::RepeatedPtrField<pb::Span>& ranges) {
  Unicode::Set set(kCodePoints);
  for (const pb::Span& range : ranges) {
    for (char32_t c = range.begin(); c < std::min<char32_t>(range.end(), kCodePoints); c++) set[c] = true;
  }
  return set;
}

// Hangul syllables are computed: 19 leads, 21 vowels, 27 tails or none.
constexpr char32_t kSyllable = 0xAC00, kLead = 0x1100, kVowel = 0x1161, kNoTail = 0x11A7;

bool is_syllable(char32_t c) { return kSyllable <= c && c < kSyllable + 19 * 21 * 28; }

Text apart(char32_t syllable) {
  char32_t place = syllable - kSyllable;
  Text parts{kLead + place / 28 / 21, kVowel + place / 28 % 21};
  if (place % 28) parts += kNoTail + place % 28;
  return parts;
}

char32_t syllable(char32_t first, char32_t second) {
  if (kLead <= first && first < kLead + 19 && kVowel <= second && second < kVowel + 21) {
    return kSyllable + ((first - kLead) * 21 + second - kVowel) * 28;
  }
  bool tail = is_syllable(first) && (first - kSyllable) % 28 == 0 && kNoTail < second && second < kNoTail + 28;
  return tail ? first + second - kNoTail : 0;
}

// A character, and how many characters the text has more since it was put in: -n for one made of n + 1.
struct Counted {
  char32_t c;
  int change;
};

// Every character taken apart, each run of marks sorted by class.
std::vector<Counted> taken_apart(const Text& text, const Unicode& unicode) {
  std::vector<Counted> result;
  size_t marks = 0;  // where the run of marks at the end begins
  auto sort = [&] {
    auto before = [&](const Counted& a, const Counted& b) { return unicode.combining_class(a.c) < unicode.combining_class(b.c); };
    std::stable_sort(result.begin() + static_cast<std::ptrdiff_t>(marks), result.end(), before);
  };
  for (char32_t original : text) {
    int change = 0;
    for (char32_t c : unicode.decomposed(original)) {
      bool starter = unicode.combining_class(c) == 0;
      if (starter) sort();
      result.push_back({c, change});
      if (starter) marks = result.size();
      change = 1;
    }
  }
  sort();
  return result;
}

// Each character joins the last starter before it if the two compose and nothing of its class or higher is between.
std::vector<Counted> put_together(const std::vector<Counted>& text, const Unicode& unicode) {
  std::vector<Counted> result;
  int starter = -1, last_class = -1;  // of what stands behind the starter; -1: nothing
  for (const Counted& next : text) {
    int own_class = unicode.combining_class(next.c);
    if (starter >= 0 && last_class < own_class) {
      Counted& before = result[starter];
      if (char32_t both = unicode.composed(before.c, next.c)) {
        before = {both, before.change + next.change - 1};
        continue;
      }
    }
    if (own_class == 0) starter = static_cast<int>(result.size());
    last_class = own_class == 0 ? -1 : own_class;
    result.push_back(next);
  }
  return result;
}

}  // namespace

Text text_of(std::string_view utf8) {
  Text text;
  for (size_t at = 0; at < utf8.size();) {
    auto first = static_cast<uint8_t>(utf8[at++]);
    int more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
    char32_t c = more ? first & (0x3f >> more) : first;
    for (; more > 0 && at < utf8.size(); more--) c = c << 6 | (static_cast<uint8_t>(utf8[at++]) & 0x3f);
    text += c;
  }
  return text;
}

std::string utf8_of(std::u32string_view text) {
  std::string utf8;
  for (char32_t c : text) {
    int more = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    utf8 += static_cast<char>(more ? (0xff00 >> (more + 1) & 0xff) | c >> 6 * more : c);
    while (more-- > 0) utf8 += static_cast<char>(0x80 | (c >> 6 * more & 0x3f));
  }
  return utf8;
}

Unicode::Unicode(const pb::UnicodeTables& tables)
    : letters(set_of(tables.letter())), numbers(set_of(tables.number())), spaces(set_of(tables.space())), words(set_of(tables.word())) {
  for (const auto& row : tables.decomposition()) decompositions_[row.code_point()] = Text(row.to().begin(), row.to().end());
  for (const auto& row : tables.combining_class()) {
    for (char32_t c = row.range().begin(); c < std::min<char32_t>(row.range().end(), kCodePoints); c++) classes_[c] = static_cast<int>(row.value());
  }
  for (const auto& row : tables.composition()) compositions_[{row.first(), row.second()}] = row.to();
  for (const auto& row : tables.case_variant()) variants_[static_cast<char>(row.letter())] = Text(row.also().begin(), row.also().end());
}

Text Unicode::decomposed(char32_t c) const {
  auto parts = decompositions_.find(c);
  if (parts != decompositions_.end()) return parts->second;
  return is_syllable(c) ? apart(c) : Text(1, c);
}

char32_t Unicode::composed(char32_t first, char32_t second) const {
  auto both = compositions_.find({first, second});
  return both != compositions_.end() ? both->second : syllable(first, second);
}

int Unicode::combining_class(char32_t c) const {
  auto known = classes_.find(c);
  return known == classes_.end() ? 0 : known->second;
}

bool Unicode::is_letter_ignoring_case(char32_t c, char letter) const {
  auto also = variants_.find(letter);
  return c == static_cast<char32_t>(letter) || (also != variants_.end() && also->second.find(c) != Text::npos);
}

Normalized unchanged(const Text& text) {
  Normalized same{text, std::vector<int>(text.size())};
  std::iota(same.origin.begin(), same.origin.end(), 0);
  return same;
}

// As Hugging Face aligns it, counting characters without looking at them: the next one of the result belongs to the next
// one of the text that is not used up, and one that was put in to the one that was used up last.
Normalized nfc(const Text& text, const Unicode& unicode) {
  Normalized result;
  int used = 0;
  for (const Counted& next : put_together(taken_apart(text, unicode), unicode)) {
    result.text += next.c;
    result.origin.push_back(next.change > 0 ? used - 1 : used);
    used += 1 - next.change;
  }
  return result;
}

}  // namespace port

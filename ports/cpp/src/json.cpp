#include "json.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>

#include "unicode.hpp"

namespace port {
namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Json whole() {
    Json value = this->value(0);
    if (peek() != '\0') unexpected();
    return value;
  }

 private:
  static constexpr int kDeepest = 500;

  Json value(int depth) {
    Json json;
    char c = peek();
    if (depth > kDeepest) unexpected();
    if (c == '"') {
      json.kind = Json::kString;
      json.text = string();
    } else if (c == '[' || c == '{') {
      json.kind = c == '[' ? Json::kArray : Json::kObject;
      at_++;
      members(json, c == '[' ? ']' : '}', depth + 1);
    } else {
      size_t end = std::min(text_.find_first_of(",]} \t\n\r", at_), text_.size());
      json.text = text_.substr(at_, end - at_);
      bool word = json.text == "true" || json.text == "false" || json.text == "null";
      if (json.text.empty() || !(word || json.text.find_first_not_of("+-.eE0123456789") == std::string::npos)) unexpected();
      at_ = end;
    }
    return json;
  }

  void members(Json& json, char close, int depth) {
    for (bool more = peek() != close; more; more = peek() == ',' && at_++ < text_.size()) {
      std::string name;
      if (json.kind == Json::kObject) {
        name = string();
        expect(':');
      }
      Json item = value(depth);
      auto known = std::find(json.names.begin(), json.names.end(), name);
      if (known != json.names.end()) {  // the last of equals, in the first one's place
        json.items[known - json.names.begin()] = std::move(item);
        continue;
      }
      if (json.kind == Json::kObject) json.names.push_back(name);
      json.items.push_back(std::move(item));
    }
    expect(close);
  }

  std::string string() {
    expect('"');
    std::string string;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\') string += escaped(); else string += c;
    }
    expect('"');
    return string;
  }

  std::string escaped() {
    static constexpr std::string_view kNames = "bfnrt", kMeant = "\b\f\n\r\t";
    if (at_ >= text_.size()) unexpected();
    char c = text_[at_++];
    if (c == 'u') {
      char32_t code = unit();
      if (0xd800 <= code && code < 0xdc00 && text_.substr(at_, 2) == "\\u") {
        at_ += 2;
        code = 0x10000 + (code - 0xd800) * 0x400 + (unit() - 0xdc00);
      }
      return utf8_of(std::u32string_view(&code, 1));
    }
    size_t known = kNames.find(c);
    return std::string(1, known == std::string_view::npos ? c : kMeant[known]);
  }

  char32_t unit() {
    std::string digits(text_.substr(at_, 4));
    if (digits.size() < 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string::npos) unexpected();
    at_ += 4;
    return static_cast<char32_t>(std::stoul(digits, nullptr, 16));
  }

  // The next character that is no white space, '\0' at the end.
  char peek() {
    at_ = std::min(text_.find_first_not_of(" \t\n\r", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  void expect(char c) {
    if (peek() != c) unexpected();
    at_++;
  }

  [[noreturn]] void unexpected() const { throw std::runtime_error("no JSON at byte " + std::to_string(at_)); }

  std::string_view text_;
  size_t at_ = 0;
};

std::string quoted(const std::string& text) {
  static constexpr std::string_view kMeant = "\"\\\b\f\n\r\t", kNames = "\"\\bfnrt", kDigits = "0123456789abcdef";
  std::string quoted = "\"";
  for (char c : text) {
    size_t special = kMeant.find(c);
    if (special != std::string_view::npos) {
      quoted += {'\\', kNames[special]};
    } else if (static_cast<uint8_t>(c) < 0x20) {
      quoted += {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

// As Python writes it: a whole number as it is, another one by the fewest digits that are read as the same double.
std::string number(const std::string& text) {
  if (text.find_first_of(".eE") == std::string::npos) return text == "-0" ? "0" : text;
  double value = std::strtod(text.c_str(), nullptr);
  std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "Infinity";
  char buffer[32];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, std::abs(value), std::chars_format::scientific).ptr;
  std::string shortest(buffer, end);  // d.ddde+dd
  size_t e = shortest.find('e');
  int point = std::stoi(shortest.substr(e + 1)) + 1;  // how many digits stand before it
  if (value != 0 && (point <= -4 || point > 16)) return sign + shortest;
  std::string digits = shortest.substr(0, 1) + (e > 2 ? shortest.substr(2, e - 2) : "");
  if (point < 1) digits.insert(0, 1 - point, '0');
  size_t before = std::max(1, point);
  digits.resize(std::max(digits.size(), before + 1), '0');
  return sign + digits.insert(before, ".");
}

}  // namespace

Json Json::parse(std::string_view text) { return Parser(text).whole(); }

const Json* Json::find(std::string_view name) const {
  auto known = std::find(names.begin(), names.end(), name);
  if (known == names.end()) return nullptr;
  const Json& item = items[known - names.begin()];
  return item.kind == kLiteral && item.text == "null" ? nullptr : &item;
}

std::string Json::written() const {
  if (kind == kLiteral) return text.find_first_of("0123456789") == std::string::npos ? text : number(text);
  if (kind == kString) return quoted(text);
  std::string all;
  for (size_t i = 0; i < items.size(); i++) {
    all += i ? ", " : "";
    all += (kind == kObject ? quoted(names[i]) + ": " : "") + items[i].written();
  }
  return kind == kObject ? "{" + all + "}" : "[" + all + "]";
}

}  // namespace port

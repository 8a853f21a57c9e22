// A small JSON reader: libprotobuf's own forgets the order of members and how numbers were written.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace port {

struct Json {
  enum Kind { kLiteral, kString, kArray, kObject };

  Kind kind = kLiteral;
  std::string text;                // a string's content; a number, true, false or null as it is written
  std::vector<std::string> names;  // an object's, in order
  std::vector<Json> items;         // an array's, or those of an object's names

  static Json parse(std::string_view text);  // throws std::runtime_error

  const Json* find(std::string_view name) const;  // an object's member; null where there is none, or JSON's null
  bool is_string() const { return kind == kString; }

  // As Python's json.dumps writes it: a space behind commas and colons, only what must be is escaped.
  std::string written() const;
};

}  // namespace port

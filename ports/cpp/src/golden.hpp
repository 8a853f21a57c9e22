// Reading a recording: its metadata, and every tensor by name and step, in their order.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "tensor.hpp"

namespace port {

struct Golden {
  struct Entry {
    std::string name;
    uint32_t step;
    Stored value;
  };

  pb::Recording message;  // its payloads were moved into the tensors
  std::vector<Entry> tensors;

  const pb::Case& testcase() const { return message.case_(); }
  const Stored* find(const std::string& name, uint32_t step = 0) const;  // null when there is none
  const Stored& get(const std::string& name) const;                      // at step 0; throws when there is none
};

// Throws std::runtime_error for what is no recording, or a damaged one; `where` begins its message.
Golden parse(const std::string& bytes, const std::string& where);
Golden read(const std::filesystem::path& path);
std::string content(const std::filesystem::path& path);  // of a file; throws std::runtime_error

}  // namespace port

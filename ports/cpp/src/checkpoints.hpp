// The directories that cases name, each read once.
#pragma once

#include "qwen3.hpp"

namespace port {

class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}  // golden/checkpoints

  // The stack that a case's checkpoint has a role for, or null. The weights of a bfloat16 case are rounded to that.
  const Qwen3* stack(const Golden& golden, const std::string& role);

 private:
  std::filesystem::path folder_;
  std::map<std::string, Qwen3> stacks_;
};

}  // namespace port

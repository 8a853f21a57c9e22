#pragma once

#include <string>
#include <string_view>

namespace port {

std::string sha256(std::string_view content);  // 32 bytes

}  // namespace port

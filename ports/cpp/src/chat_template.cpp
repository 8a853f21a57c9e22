// The chat template of the golden tokenizers in C++.
#include <algorithm>

#include "json.hpp"
#include "tokenizer.hpp"

namespace port {
namespace {

std::string strip_front(const std::string& text) { return text.substr(std::min(text.find_first_not_of('\n'), text.size())); }

std::string strip(const std::string& text) {
  std::string behind = strip_front(text);
  return behind.substr(0, behind.find_last_not_of('\n') + 1);
}

bool starts_with(const std::string& text, const std::string& start) { return text.compare(0, start.size(), start) == 0; }

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A member that is a string; another one is none.
std::string string_of(const Json& message, std::string_view name) {
  const Json* member = message.find(name);
  return member && member->is_string() ? member->text : "";
}

// What an assistant thought, under any of its names: the first that is not null counts.
const Json* reasoning(const Json& message) {
  for (const char* name : {"reasoning_content", "thinking", "reasoning"}) {
    if (const Json* member = message.find(name)) return member;
  }
  return nullptr;
}

std::string system(const Json& first, const Json& tools) {
  bool has_system = string_of(first, "role") == "system";
  if (!has_system && tools.items.empty()) return "";
  std::string out = "<|im_start|>system\n";
  if (has_system) out += string_of(first, "content") + (tools.items.empty() ? "" : "\n\n");
  if (!tools.items.empty()) {
    out += "# Functions\n\nThese functions can be called, one JSON object a line:\n<tools>";
    for (const Json& tool : tools.items) out += "\n" + tool.written();
    out += "\n</tools>\n\nA call is a JSON object between two tags:\n<tool_call>\n";
    out += "{\"name\": <name>, \"arguments\": <object>}\n</tool_call>";
  }
  return out + "<|im_end|>\n";
}

// The last message of a person; reasoning behind it is kept.
size_t last_question(const std::vector<Json>& messages) {
  for (size_t i = messages.size(); i-- > 0;) {
    const Json* content = messages[i].find("content");
    if (string_of(messages[i], "role") != "user" || !content || !content->is_string()) continue;
    if (!(starts_with(content->text, "<tool_response>") && ends_with(content->text, "</tool_response>"))) return i;
  }
  return messages.size() - 1;
}

std::string assistant(const Json& message, bool behind_question, bool last) {
  std::string text = string_of(message, "content"), thought;
  const Json* said = reasoning(message);
  size_t closes = text.find("</think>");
  if (said && said->is_string()) {
    thought = said->text;
  } else if (closes != std::string::npos) {
    std::string before = text.substr(0, closes);
    size_t opens = before.rfind("<think>");
    thought = strip(opens == std::string::npos ? before : before.substr(opens + 7));
    text = strip_front(text.substr(text.rfind("</think>") + 8));
  }
  std::string out = "<|im_start|>assistant\n";
  bool shown = behind_question && (last || !thought.empty());
  out += shown ? "<think>\n" + strip(thought) + "\n</think>\n\n" + strip_front(text) : text;
  const Json* calls = message.find("tool_calls");
  bool follows = !text.empty();
  for (size_t i = 0; calls && i < calls->items.size(); i++) {
    const Json *call = &calls->items[i], *function = call->find("function");
    if (function && !function->items.empty()) call = function;
    const Json* arguments = call->find("arguments");
    out += follows ? "\n" : "";
    out += "<tool_call>\n{\"name\": \"" + string_of(*call, "name") + "\", \"arguments\": ";
    out += !arguments ? "null" : arguments->is_string() ? arguments->text : arguments->written();
    out += "}\n</tool_call>";
    follows = true;
  }
  return out + "<|im_end|>\n";
}

}  // namespace

const char kTemplate[] = "6e37b814a43986a4e40bd5ec9764f10c11d73fbd574cc2dc527fde290591710b";

std::string render(const pb::Conversation& conversation) {
  std::vector<Json> messages = Json::parse(conversation.messages()).items;
  if (messages.empty()) throw std::runtime_error("the conversation has no messages");
  Json tools = conversation.tools().empty() ? Json() : Json::parse(conversation.tools());
  std::string out = system(messages[0], tools);
  size_t question = last_question(messages);
  for (size_t i = 0; i < messages.size(); i++) {
    std::string role = string_of(messages[i], "role"), text = string_of(messages[i], "content");
    auto answers = [&](size_t at) { return at < messages.size() && string_of(messages[at], "role") == "tool"; };
    if (role == "user" || (role == "system" && i > 0)) {
      out += "<|im_start|>" + role + "\n" + text + "<|im_end|>\n";
    } else if (role == "assistant") {
      out += assistant(messages[i], i > question, i + 1 == messages.size());
    } else if (role == "tool") {
      out += i == 0 || !answers(i - 1) ? "<|im_start|>user" : "";
      out += "\n<tool_response>\n" + text + "\n</tool_response>";
      out += answers(i + 1) ? "" : "<|im_end|>\n";
    }
  }
  if (conversation.add_generation_prompt()) {
    out += "<|im_start|>assistant\n";
    if (conversation.thinking() == pb::THINKING_OFF) out += "<think>\n\n</think>\n\n";
  }
  return out;
}

}  // namespace port

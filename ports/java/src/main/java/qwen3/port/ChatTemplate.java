package qwen3.port;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import qwen3.golden.v1.Thinking;

/** The chat template of the golden tokenizers in Java; a port without Jinja writes out the templates that it knows. */
final class ChatTemplate {
  /** SHA-256 of the Jinja that this is. */
  static final String KNOWN = "6e37b814a43986a4e40bd5ec9764f10c11d73fbd574cc2dc527fde290591710b";

  private static final List<String> REASONING = List.of("reasoning_content", "thinking", "reasoning");
  private static final Pattern NEWLINES_BEFORE = Pattern.compile("^\n+");
  private static final Pattern NEWLINES_BEHIND = Pattern.compile("\n+\\z");

  private final StringBuilder out = new StringBuilder();
  private final List<Map<String, Object>> messages = new ArrayList<>();

  private ChatTemplate(String json) {
    for (Object message : Json.array(Json.parse(json))) {
      messages.add(asTemplatesSee(Json.object(message)));
    }
  }

  /** The text of a conversation; messages and tools are JSON arrays, no tools are empty. */
  static String render(String messages, String tools, boolean generationPrompt, Thinking thinking) {
    ChatTemplate chat = new ChatTemplate(messages);
    chat.system(tools.isEmpty() ? List.of() : Json.array(Json.parse(tools)));
    int question = chat.lastQuestion();
    for (int i = 0; i < chat.messages.size(); i++) {
      chat.turn(i, question);
    }
    if (generationPrompt) {
      chat.out.append("<|im_start|>assistant\n");
      if (thinking == Thinking.THINKING_OFF) {
        chat.out.append("<think>\n\n</think>\n\n");
      }
    }
    return chat.out.toString();
  }

  /** Hugging Face leaves out what is null, and gives what an assistant thought under one name. */
  private static Map<String, Object> asTemplatesSee(Map<String, Object> message) {
    Map<String, Object> visible = new HashMap<>(message);
    visible.values().removeIf(value -> value == null);
    REASONING.stream()
        .filter(visible::containsKey)
        .findFirst()
        .ifPresent(name -> visible.put("reasoning_content", visible.get(name)));
    return visible;
  }

  private void system(List<Object> tools) {
    boolean hasSystem = role(0).equals("system");
    if (!hasSystem && tools.isEmpty()) {
      return;
    }
    out.append("<|im_start|>system\n");
    if (hasSystem) {
      out.append(text(0)).append(tools.isEmpty() ? "" : "\n\n");
    }
    if (!tools.isEmpty()) {
      out.append("# Functions\n\nThese functions can be called, one JSON object a line:\n<tools>");
      tools.forEach(tool -> out.append('\n').append(Json.write(tool)));
      out.append("\n</tools>\n\nA call is a JSON object between two tags:\n<tool_call>\n");
      out.append("{\"name\": <name>, \"arguments\": <object>}\n</tool_call>");
    }
    out.append("<|im_end|>\n");
  }

  /** The last message of a person; reasoning behind it is kept. */
  private int lastQuestion() {
    for (int i = messages.size() - 1; i >= 0; i--) {
      boolean plain = messages.get(i).get("content") instanceof String;
      boolean answer = text(i).startsWith("<tool_response>") && text(i).endsWith("</tool_response>");
      if (role(i).equals("user") && plain && !answer) {
        return i;
      }
    }
    return messages.size() - 1;
  }

  private void turn(int i, int question) {
    switch (role(i)) {
      case "user" -> said(i);
      case "system" -> {
        if (i > 0) {
          said(i);
        }
      }
      case "assistant" -> assistant(i, question);
      case "tool" -> {
        out.append(i == 0 || !role(i - 1).equals("tool") ? "<|im_start|>user" : "");
        out.append("\n<tool_response>\n").append(text(i)).append("\n</tool_response>");
        out.append(i == messages.size() - 1 || !role(i + 1).equals("tool") ? "<|im_end|>\n" : "");
      }
      default -> {}
    }
  }

  private void said(int i) {
    out.append("<|im_start|>").append(role(i)).append('\n').append(text(i)).append("<|im_end|>\n");
  }

  private void assistant(int i, int question) {
    String text = text(i);
    String thought = "";
    if (messages.get(i).get("reasoning_content") instanceof String reasoning) {
      thought = reasoning;
    } else if (text.contains("</think>")) {
      String before = text.substring(0, text.indexOf("</think>"));
      int opens = before.lastIndexOf("<think>");
      thought = strip(opens < 0 ? before : before.substring(opens + "<think>".length()));
      text = stripBefore(text.substring(text.lastIndexOf("</think>") + "</think>".length()));
    }
    out.append("<|im_start|>assistant\n");
    if (i > question && (i == messages.size() - 1 || !thought.isEmpty())) {
      out.append("<think>\n").append(strip(thought)).append("\n</think>\n\n").append(stripBefore(text));
    } else {
      out.append(text);
    }
    if (messages.get(i).get("tool_calls") instanceof List<?> calls) {
      boolean follows = !text.isEmpty();
      for (Object item : calls) {
        Map<String, Object> call = Json.object(item);
        if (call.get("function") instanceof Map<?, ?> function && !function.isEmpty()) {
          call = Json.object(function);
        }
        Object arguments = call.get("arguments");
        out.append(follows ? "\n" : "");
        out.append("<tool_call>\n{\"name\": \"").append(call.get("name")).append("\", \"arguments\": ");
        out.append(arguments instanceof String json ? json : Json.write(arguments)).append("}\n</tool_call>");
        follows = true;
      }
    }
    out.append("<|im_end|>\n");
  }

  private String role(int i) {
    return String.valueOf(messages.get(i).get("role"));
  }

  /** A content that is no string is none. */
  private String text(int i) {
    return messages.get(i).get("content") instanceof String text ? text : "";
  }

  private static String strip(String text) {
    return NEWLINES_BEHIND.matcher(stripBefore(text)).replaceFirst("");
  }

  private static String stripBefore(String text) {
    return NEWLINES_BEFORE.matcher(text).replaceFirst("");
  }
}

package qwen3.port;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.MathContext;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * A small JSON reader: objects are maps in their order, arrays lists, strings strings, numbers {@link Number}s as they are
 * written, and true, false and null themselves.
 */
public final class Json {
  /** A number, not converted. */
  public record Number(String text) {
    public int asInt() {
      return Integer.parseInt(text);
    }

    /** As Python writes it: a whole number as it is, another one by the fewest digits that are read as the same double. */
    String written() {
      if (text.matches("-?[0-9]+")) {
        return new BigInteger(text).toString(); // -0 is 0
      }
      double value = Double.parseDouble(text);
      String sign = Math.copySign(1, value) < 0 ? "-" : "";
      if (value == 0 || Double.isInfinite(value)) {
        return sign + (value == 0 ? "0.0" : "Infinity");
      }
      BigDecimal exact = new BigDecimal(Math.abs(value));
      BigDecimal shortest = exact;
      for (int digits = 17; digits > 0 && exact.round(new MathContext(digits)).doubleValue() == Math.abs(value); digits--) {
        shortest = exact.round(new MathContext(digits));
      }
      String digits = shortest.stripTrailingZeros().unscaledValue().toString();
      int point = shortest.precision() - shortest.scale(); // how many digits stand before it
      if (-4 < point && point <= 16) {
        String padded = "0".repeat(Math.max(0, 1 - point)) + digits + "0".repeat(Math.max(0, point + 1 - digits.length()));
        int before = Math.max(1, point);
        return sign + padded.substring(0, before) + "." + padded.substring(before);
      }
      String fraction = digits.length() > 1 ? "." + digits.substring(1) : "";
      return sign + digits.charAt(0) + fraction + String.format(Locale.ROOT, "e%+03d", point - 1);
    }
  }

  private final String text;
  private int at;

  private Json(String text) {
    this.text = text;
  }

  /** Parses one value; throws {@link IllegalArgumentException} when the text is no JSON. */
  public static Object parse(String text) {
    Json json = new Json(text);
    Object value = json.value();
    if (json.peek() != '\0') {
      throw json.unexpected();
    }
    return value;
  }

  @SuppressWarnings("unchecked")
  public static Map<String, Object> object(Object value) {
    return (Map<String, Object>) value;
  }

  @SuppressWarnings("unchecked")
  public static List<Object> array(Object value) {
    return (List<Object>) value;
  }

  /** A value as Python's json.dumps writes it: a space behind commas and colons, only what must be is escaped. */
  public static String write(Object value) {
    if (value instanceof Map<?, ?>) {
      List<String> members = new ArrayList<>();
      object(value).forEach((name, member) -> members.add(quoted(name) + ": " + write(member)));
      return "{" + String.join(", ", members) + "}";
    }
    if (value instanceof List<?> items) {
      return "[" + String.join(", ", items.stream().map(Json::write).toList()) + "]";
    }
    if (value instanceof Number number) {
      return number.written();
    }
    return value instanceof String string ? quoted(string) : String.valueOf(value);
  }

  private static String quoted(String string) {
    StringBuilder quoted = new StringBuilder("\"");
    for (char c : string.toCharArray()) {
      int special = "\"\\\b\f\n\r\t".indexOf(c);
      if (special >= 0) {
        quoted.append('\\').append("\"\\bfnrt".charAt(special));
      } else if (c < 0x20) {
        quoted.append(String.format("\\u%04x", (int) c));
      } else {
        quoted.append(c);
      }
    }
    return quoted.append('"').toString();
  }

  private Object value() {
    return switch (peek()) {
      case '{' -> object();
      case '[' -> array();
      case '"' -> string();
      case 't' -> word("true", true);
      case 'f' -> word("false", false);
      case 'n' -> word("null", null);
      default -> number();
    };
  }

  private Map<String, Object> object() {
    Map<String, Object> members = new LinkedHashMap<>();
    for (boolean more = opens('{', '}'); more; more = goesOn('}')) {
      if (peek() != '"') {
        throw unexpected();
      }
      String name = string();
      expect(':');
      members.put(name, value());
    }
    return members;
  }

  private List<Object> array() {
    List<Object> items = new ArrayList<>();
    for (boolean more = opens('[', ']'); more; more = goesOn(']')) {
      items.add(value());
    }
    return items;
  }

  private boolean opens(char open, char close) {
    expect(open);
    if (peek() == close) {
      at++;
      return false;
    }
    return true;
  }

  private boolean goesOn(char close) {
    char next = peek();
    if (next != ',' && next != close) {
      throw unexpected();
    }
    at++;
    return next == ',';
  }

  private String string() {
    expect('"');
    StringBuilder string = new StringBuilder();
    while (at < text.length() && text.charAt(at) != '"') {
      char c = text.charAt(at++);
      string.append(c == '\\' ? escaped() : c);
    }
    expect('"');
    return string.toString();
  }

  private char escaped() {
    char c = text.charAt(at++);
    switch (c) {
      case 'b':
        return '\b';
      case 'f':
        return '\f';
      case 'n':
        return '\n';
      case 'r':
        return '\r';
      case 't':
        return '\t';
      case 'u':
        at += 4;
        return (char) Integer.parseInt(text.substring(at - 4, at), 16);
      default:
        return c;
    }
  }

  private Number number() {
    int start = at;
    while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    if (start == at) {
      throw unexpected();
    }
    return new Number(text.substring(start, at));
  }

  private Object word(String word, Object value) {
    if (!text.startsWith(word, at)) {
      throw unexpected();
    }
    at += word.length();
    return value;
  }

  /** The next character that is no white space, '\0' at the end. */
  private char peek() {
    while (at < text.length() && " \t\n\r".indexOf(text.charAt(at)) >= 0) {
      at++;
    }
    return at < text.length() ? text.charAt(at) : '\0';
  }

  private void expect(char c) {
    if (peek() != c) {
      throw unexpected();
    }
    at++;
  }

  private IllegalArgumentException unexpected() {
    return new IllegalArgumentException("no JSON at character " + at);
  }
}

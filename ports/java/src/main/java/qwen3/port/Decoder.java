package qwen3.port;

import com.google.protobuf.ByteString;
import java.nio.charset.StandardCharsets;

/**
 * A stream of ids to text: whole characters as soon as they are certain. U+FFFD stands for each longest beginning of a
 * character that nothing completes; together the chunks are the text of all bytes.
 */
public final class Decoder {
  private ByteString waiting = ByteString.EMPTY;

  /** The text that these bytes make certain, empty for nothing yet. */
  public String push(ByteString piece) {
    ByteString bytes = waiting.concat(piece);
    int certain = bytes.size() - unfinished(bytes);
    waiting = bytes.substring(certain);
    return text(bytes.substring(0, certain));
  }

  /** What is left at the end of the stream. */
  public String finish() {
    String left = text(waiting);
    waiting = ByteString.EMPTY;
    return left;
  }

  /** UTF-8 to text. Java's own decoder takes the three bytes of a surrogate for one mistake, Unicode for three. */
  static String text(ByteString bytes) {
    StringBuilder text = new StringBuilder();
    for (int at = 0, length; at < bytes.size(); at += length) {
      int size = size(bytes.byteAt(at));
      length = 1;
      while (length < size && at + length < bytes.size() && goesOn(bytes, at, length)) {
        length++;
      }
      boolean whole = length == size && size > 0;
      text.append(whole ? bytes.substring(at, at + length).toString(StandardCharsets.UTF_8) : "\ufffd");
    }
    return text.toString();
  }

  /** How many bytes at the end are the beginning of a character that more bytes may complete: 0 to 3. */
  private static int unfinished(ByteString bytes) {
    for (int count = 1; count <= Math.min(3, bytes.size()); count++) {
      int at = bytes.size() - count;
      int size = size(bytes.byteAt(at));
      if (size > 0) {
        return count < size && (count == 1 || goesOn(bytes, at, 1)) ? count : 0;
      }
    }
    return 0;
  }

  /** Bytes of the character that a byte begins; 0 where none begins with it. */
  private static int size(byte first) {
    int b = first & 0xff;
    if (b < 0x80) {
      return 1;
    }
    return b < 0xc2 || b > 0xf4 ? 0 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
  }

  /** Whether a byte may stand in a character: no overlong forms, no surrogates, nothing above U+10FFFF. */
  private static boolean goesOn(ByteString bytes, int first, int index) {
    int b = bytes.byteAt(first + index) & 0xff;
    int low = 0x80;
    int high = 0xbf;
    if (index == 1) {
      switch (bytes.byteAt(first) & 0xff) {
        case 0xe0 -> low = 0xa0;
        case 0xed -> high = 0x9f;
        case 0xf0 -> low = 0x90;
        case 0xf4 -> high = 0x8f;
        default -> {}
      }
    }
    return low <= b && b <= high;
  }
}

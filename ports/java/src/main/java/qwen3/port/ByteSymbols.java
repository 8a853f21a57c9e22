package qwen3.port;

import com.google.protobuf.ByteString;

/**
 * Byte-level BPE writes each byte as one printable character: those of Latin-1 that are printable are themselves, the other 68
 * are U+0100 and up, in ascending order; the space is "Ġ".
 */
final class ByteSymbols {
  private static final char[] SYMBOLS = new char[256];

  static {
    char next = 0x100;
    for (int b = 0; b < 256; b++) {
      boolean printable = 0x21 <= b && b <= 0x7e || 0xa1 <= b && b != 0xad;
      SYMBOLS[b] = printable ? (char) b : next++;
    }
  }

  private ByteSymbols() {}

  static String of(byte[] bytes) {
    StringBuilder symbols = new StringBuilder();
    for (byte b : bytes) {
      symbols.append(SYMBOLS[b & 0xff]);
    }
    return symbols.toString();
  }

  /** The bytes that an added token is decoded to: a byte for each character, or its UTF-8 where one stands for none. */
  static ByteString bytes(String symbols) {
    String known = new String(SYMBOLS);
    byte[] bytes = new byte[symbols.length()];
    for (int i = 0; i < bytes.length; i++) {
      int b = known.indexOf(symbols.charAt(i));
      if (b < 0) {
        return ByteString.copyFromUtf8(symbols);
      }
      bytes[i] = (byte) b;
    }
    return ByteString.copyFrom(bytes);
  }
}

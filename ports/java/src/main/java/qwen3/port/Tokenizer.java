package qwen3.port;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import qwen3.golden.v1.AddedToken;
import qwen3.golden.v1.Encoding;
import qwen3.golden.v1.PreToken;
import qwen3.golden.v1.Segment;
import qwen3.golden.v1.Span;
import qwen3.port.Nfc.Normalized;

/** A byte-level BPE tokenizer from its message in {@code golden/tokenizers}. Places are counted in code points. */
public final class Tokenizer {
  private final qwen3.golden.v1.Tokenizer message;
  private final Nfc nfc;
  private final AddedTokens addedTokens;
  private final PreTokenizer preTokenizer;
  private final Merges merges;
  private final int[] idOfByte = new int[256];
  private final Map<Integer, ByteString> pieces = new HashMap<>();
  private final Set<Integer> special = new HashSet<>();

  /** Throws {@link UnsupportedOperationException} for a tokenizer of another kind. */
  public Tokenizer(qwen3.golden.v1.Tokenizer message) {
    if (!message.getPreTokenizer().equals(PreTokenizer.PATTERN)) {
      throw new UnsupportedOperationException("the pattern " + message.getPreTokenizer());
    }
    this.message = message;
    Unicode unicode = new Unicode(message.getUnicode());
    nfc = new Nfc(unicode);
    addedTokens = new AddedTokens(message.getAddedTokenList(), unicode, this::normalize);
    preTokenizer = new PreTokenizer(unicode);
    merges = new Merges(message.getMergeList());
    for (var token : message.getTokenList()) {
      pieces.put(token.getId(), token.getBytes());
      if (token.getBytes().size() == 1) {
        idOfByte[token.getBytes().byteAt(0) & 0xff] = token.getId();
      }
    }
    for (AddedToken token : message.getAddedTokenList()) {
      pieces.put(token.getId(), ByteSymbols.bytes(token.getContent()));
      if (token.getSpecial()) {
        special.add(token.getId());
      }
    }
  }

  /** Reads a message; throws {@link IOException} when the file is none. */
  public static Tokenizer read(Path path) throws IOException {
    var message = qwen3.golden.v1.Tokenizer.parseFrom(Files.readAllBytes(path));
    if (!message.getHeader().getMagic().equals("qwen3.tokenizer") || message.getHeader().getSchemaMajor() != 1) {
      throw new IOException(path + ": it is no tokenizer");
    }
    return new Tokenizer(message);
  }

  public qwen3.golden.v1.Tokenizer message() {
    return message;
  }

  /** The bytes that an id stands for. */
  public ByteString piece(int id) {
    ByteString piece = pieces.get(id);
    if (piece == null) {
      throw new IllegalArgumentException("the tokenizer has no id " + id);
    }
    return piece;
  }

  /** Whether {@code skip_special_tokens} leaves an id out. */
  public boolean isSpecial(int id) {
    return special.contains(id);
  }

  /** The ids of a text; nothing is added. */
  public List<Integer> encode(String text) {
    return encode(text, false).getIdList();
  }

  /** Every stage of a text; with {@code splitSpecial} names of special tokens in it are plain text. */
  public Encoding encode(String text, boolean splitSpecial) {
    int[] characters = text.codePoints().toArray();
    Encoding.Builder encoding = Encoding.newBuilder().setText(text).setSplitSpecialTokens(splitSpecial);
    for (AddedTokens.Part part : addedTokens.split(characters, splitSpecial)) {
      int[] own = Arrays.copyOfRange(characters, part.begin(), part.end());
      Segment.Builder segment = encoding.addSegmentBuilder().setBegin(part.begin()).setEnd(part.end());
      if (part.token() == null) {
        encodePlain(normalize(own), segment, encoding);
      } else {
        segment.setAddedToken(part.token().getId());
        Normalized content = part.token().getNormalized() ? normalize(own) : Normalized.unchanged(own);
        encoding.addId(part.token().getId()).addOffset(offset(part.begin(), content, 0, content.text().length - 1));
      }
    }
    return encoding.build();
  }

  private void encodePlain(Normalized text, Segment.Builder segment, Encoding.Builder encoding) {
    segment.setNormalized(string(text.text(), 0, text.text().length));
    int beginByte = 0;
    for (int begin = 0, end; begin < text.text().length; begin = end) {
      end = preTokenizer.end(text.text(), begin);
      byte[] bytes = string(text.text(), begin, end).getBytes(StandardCharsets.UTF_8);
      List<Integer> ids = new ArrayList<>();
      for (byte b : bytes) {
        ids.add(idOfByte[b & 0xff]);
      }
      List<Integer> ranks = merges.apply(ids);
      PreToken.Builder preToken = segment.addPreTokenBuilder().setBegin(begin).setEnd(end);
      preToken.setBeginByte(beginByte).setEndByte(beginByte + bytes.length).setSymbols(ByteSymbols.of(bytes));
      preToken.addAllMerge(ranks).addAllId(ids);
      encoding.addAllId(ids);
      int[] characterOf = characterOfByte(text.text(), begin, end);
      int at = 0;
      for (int id : ids) {
        int last = at + piece(id).size() - 1;
        encoding.addOffset(offset(segment.getBegin(), text, characterOf[at], characterOf[last]));
        at = last + 1;
      }
      beginByte += bytes.length;
    }
  }

  private Normalized normalize(int[] text) {
    return message.getNormalizer().isEmpty() ? Normalized.unchanged(text) : nfc.normalize(text);
  }

  /** The characters of the text from which some of the normalised ones came. */
  private static Span offset(int start, Normalized text, int first, int last) {
    int begin = start + Math.max(0, text.origin()[first]);
    return Span.newBuilder().setBegin(begin).setEnd(start + text.origin()[last] + 1).build();
  }

  /** For each byte of some characters as UTF-8, which character it belongs to. */
  private static int[] characterOfByte(int[] text, int begin, int end) {
    List<Integer> characters = new ArrayList<>();
    for (int at = begin; at < end; at++) {
      int c = text[at];
      int size = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
      for (int i = 0; i < size; i++) {
        characters.add(at);
      }
    }
    return characters.stream().mapToInt(i -> i).toArray();
  }

  private static String string(int[] characters, int begin, int end) {
    return new String(characters, begin, end - begin);
  }
}

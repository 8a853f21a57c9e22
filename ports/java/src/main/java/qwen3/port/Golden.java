package qwen3.port;

import com.google.protobuf.ByteString;
import com.google.protobuf.CodedInputStream;
import com.google.protobuf.ProtocolMessageEnum;
import com.google.protobuf.WireFormat;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import qwen3.golden.v1.Case;
import qwen3.golden.v1.DType;
import qwen3.golden.v1.Recording;

/** A recording that was read and verified: its metadata, and every tensor by name and step, in their order. */
public record Golden(Recording message, Map<Tap.Key, Tensor.Stored> tensors) {
  private static final String MAGIC = "qwen3.golden";

  /** Reads a file; throws {@link IOException} when it is no recording, or a damaged one. */
  public static Golden read(Path path) throws IOException {
    byte[] bytes = Files.readAllBytes(path);
    try {
      return parse(bytes);
    } catch (IOException error) {
      throw new IOException(path + ": " + error.getMessage(), error);
    }
  }

  /** As {@link #read}, of a file's content. */
  static Golden parse(byte[] bytes) throws IOException {
    try {
      Recording message = Recording.parseFrom(bytes);
      require(message.getHeader().getMagic().equals(MAGIC), "it is no recording");
      require(message.getHeader().getSchemaMajor() == 1, "its major version is another one");
      require(known(message.getCase().getMode()), "its mode is none");
      require(known(message.getRun().getArithmetic()) && known(message.getRun().getBackend()), "its run is none");
      require(message.hasProvenance() && message.hasCase() && message.hasRun(), "its metadata is not complete");
      requireLayout(bytes, message);
      return new Golden(message, tensors(message));
    } catch (RuntimeException error) {
      throw new IOException(error.getMessage(), error);
    }
  }

  /** What was run. */
  public Case testCase() {
    return message.getCase();
  }

  /** Whether the case has a tensor at step 0. */
  public boolean has(String name) {
    return tensors.containsKey(new Tap.Key(name, 0));
  }

  /** A tensor at step 0; throws {@link IllegalArgumentException} when there is none. */
  public Tensor.Stored get(String name) {
    Tensor.Stored tensor = tensors.get(new Tap.Key(name, 0));
    if (tensor == null) {
      throw new IllegalArgumentException(testCase().getName() + " has no " + name);
    }
    return tensor;
  }

  private static Map<Tap.Key, Tensor.Stored> tensors(Recording message) throws IOException {
    int count = message.getEnd().getTensors();
    require(count == message.getPayloadCount() && count == message.getTensorCount(), "tensors are missing");
    Map<Tap.Key, Tensor.Stored> tensors = new LinkedHashMap<>();
    long total = 0;
    for (int i = 0; i < count; i++) {
      var info = message.getTensor(i);
      ByteString data = message.getPayload(i);
      total += data.size();
      int[] shape = info.getShapeList().stream().mapToInt(Math::toIntExact).toArray();
      require(Arrays.stream(shape).allMatch(length -> length >= 0), info.getName() + " has a negative size");
      long expected = (long) Tensor.size(shape) * Tensor.elementSize(info.getDtype());
      require(data.size() == info.getBytes() && data.size() == expected, info.getName() + " has another size");
      boolean axes = info.getAxesCount() == 0 || info.getAxesCount() == shape.length;
      require(axes, info.getName() + " has a name too many or too few for its axes");
      boolean digest = info.getSha256().isEmpty() || info.getSha256().equals(sha256(data.toByteArray()));
      require(digest, info.getName() + " has another digest");
      require(info.getDtype() != DType.BOOL || areBools(data), info.getName() + " has a bool that is neither 0 nor 1");
      var previous = tensors.put(new Tap.Key(info.getName(), info.getStep()), new Tensor.Stored(info.getDtype(), data, shape));
      require(previous == null, info.getName() + " stands twice");
    }
    require(total == message.getEnd().getPayloadBytes(), "payloads are missing");
    return tensors;
  }

  /** A stock parser takes a file that was cut off between two fields, or that stands twice in one. */
  private static void requireLayout(byte[] bytes, Recording message) throws IOException {
    int metadata = -1; // where it begins: behind the last payload
    int end = -1;
    int[] occurs = new int[Recording.END_FIELD_NUMBER + 1];
    CodedInputStream input = CodedInputStream.newInstance(bytes);
    for (int start = 0; !input.isAtEnd(); start = input.getTotalBytesRead()) {
      int tag = input.readTag();
      int field = WireFormat.getTagFieldNumber(tag);
      require(WireFormat.getTagWireType(tag) == WireFormat.WIRETYPE_LENGTH_DELIMITED, "it has a bare number");
      require((start == 0) == (field == Recording.HEADER_FIELD_NUMBER), "the header is not its first field");
      require(end < 0, "something stands behind its end");
      if (field < occurs.length) {
        occurs[field]++;
      }
      if (field == Recording.END_FIELD_NUMBER) {
        end = start;
      } else if (field > Recording.PAYLOAD_FIELD_NUMBER && metadata < 0) {
        metadata = start;
      }
      require(field > Recording.PAYLOAD_FIELD_NUMBER || metadata < 0, "a payload stands behind the metadata");
      input.skipField(tag);
    }
    require(end >= 0, "it has no end");
    for (int field = Recording.PROVENANCE_FIELD_NUMBER; field <= Recording.RUN_FIELD_NUMBER; field++) {
      require(occurs[field] == 1, "its metadata stands twice");
    }
    ByteString digest = sha256(Arrays.copyOfRange(bytes, metadata, end));
    require(digest.equals(message.getEnd().getDigest()), "its metadata has another digest");
  }

  private static boolean areBools(ByteString data) {
    for (int i = 0; i < data.size(); i++) {
      if ((data.byteAt(i) & ~1) != 0) {
        return false;
      }
    }
    return true;
  }

  /** Whether an enum is set, to a value of this schema. */
  private static boolean known(ProtocolMessageEnum value) {
    return value.getNumber() > 0; // UNRECOGNIZED throws, and is refused with the file
  }

  static ByteString sha256(byte[] bytes) {
    try {
      return ByteString.copyFrom(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException error) {
      throw new AssertionError(error); // every Java has it
    }
  }

  private static void require(boolean holds, String otherwise) throws IOException {
    if (!holds) {
      throw new IOException(otherwise);
    }
  }
}

package qwen3.port;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import qwen3.golden.v1.DType;
import qwen3.port.Tensor.Floats;

/**
 * The weights of a Hugging Face directory, under their names. A file is eight bytes with the size of its header, the header
 * in JSON, {@code {name: {dtype, shape, data_offsets}}}, and the tensors' bytes, little-endian and row-major.
 */
public final class Safetensors {
  private Safetensors() {}

  /** Every tensor of every part, widened to float32; throws {@link IOException} for a file that is no such one. */
  public static Map<String, Floats> read(Path directory) throws IOException {
    Map<String, Floats> weights = new HashMap<>();
    List<Path> parts;
    try (Stream<Path> files = Files.list(directory)) {
      parts = files.filter(file -> file.toString().endsWith(".safetensors")).sorted().toList();
    }
    for (Path part : parts) {
      try {
        readPart(Files.readAllBytes(part), weights);
      } catch (RuntimeException error) {
        throw new IOException(part + ": " + error.getMessage(), error);
      }
    }
    if (weights.isEmpty()) {
      throw new IOException(directory + ": no weights");
    }
    return weights;
  }

  private static void readPart(byte[] bytes, Map<String, Floats> weights) {
    long header = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN).getLong();
    int data = Math.toIntExact(Math.addExact(8, header));
    String json = new String(bytes, 8, data - 8, StandardCharsets.UTF_8);
    Json.object(Json.parse(json))
        .forEach(
            (name, value) -> {
              if (name.equals("__metadata__")) {
                return;
              }
              Map<String, Object> entry = Json.object(value);
              int[] shape = ints(entry.get("shape"));
              int[] offsets = ints(entry.get("data_offsets"));
              ByteString content = ByteString.copyFrom(bytes, data + offsets[0], offsets[1] - offsets[0]);
              DType dtype = DType.valueOf((String) entry.get("dtype"));
              weights.put(name, new Tensor.Stored(dtype, content, shape).floats());
            });
  }

  private static int[] ints(Object array) {
    return Json.array(array).stream().mapToInt(item -> ((Json.Number) item).asInt()).toArray();
  }
}

package qwen3.port;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.stream.Stream;
import qwen3.golden.v1.ConformanceAnswer;
import qwen3.golden.v1.ConformanceRequest;
import qwen3.golden.v1.Recording;

/** The port as a process, for {@code qwen3-parity conformance}: requests come in, answers go out, until there are none. */
final class Pipe {
  private Pipe() {}

  /** Each message has its size in front, four bytes, little-endian. */
  static void answerAll(InputStream in, OutputStream out) throws IOException {
    for (byte[] size = in.readNBytes(4); size.length == 4; size = in.readNBytes(4)) {
      int count = ByteBuffer.wrap(size).order(ByteOrder.LITTLE_ENDIAN).getInt();
      byte[] message = answer(ConformanceRequest.parseFrom(in.readNBytes(count))).toByteArray();
      out.write(ByteBuffer.allocate(4).order(ByteOrder.LITTLE_ENDIAN).putInt(message.length).array());
      out.write(message);
      out.flush();
    }
  }

  /** What a request brings is put where the golden files stand, in a folder of its own. */
  private static ConformanceAnswer answer(ConformanceRequest request) throws IOException {
    ConformanceAnswer.Builder answer = ConformanceAnswer.newBuilder().setId(request.getId());
    Path folder = Files.createTempDirectory("qwen3-port");
    try {
      Path cases = folder.resolve("cases");
      Golden golden = Golden.read(put(request.getRecording(), cases));
      if (!request.getPrior().isEmpty()) {
        put(request.getPrior(), cases);
      }
      if (!request.getTokenizer().isEmpty()) {
        write(request.getTokenizer(), folder.resolve("tokenizers"), golden.testCase().getCheckpoint(0).getName());
      }
      Path made = folder.resolve("answer.pb");
      new Main(cases).run(golden, made);
      return answer.setRecording(ByteString.copyFrom(Files.readAllBytes(made))).build();
    } catch (UnsupportedOperationException error) {
      return answer.setUnsupported(String.valueOf(error.getMessage())).build();
    } catch (IOException | RuntimeException error) {
      return answer.setError(String.valueOf(error.getMessage())).build();
    } finally {
      delete(folder);
    }
  }

  private static Path put(ByteString recording, Path cases) throws IOException {
    return write(recording, cases, Recording.parseFrom(recording).getCase().getName());
  }

  private static Path write(ByteString content, Path folder, String name) throws IOException {
    Path file = folder.resolve(name + ".pb");
    Files.createDirectories(file.getParent());
    Files.write(file, content.toByteArray());
    return file;
  }

  private static void delete(Path folder) throws IOException {
    try (Stream<Path> files = Files.walk(folder)) {
      for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
        Files.delete(file);
      }
    }
  }
}

package qwen3.port;

import com.google.protobuf.ByteString;
import java.io.BufferedOutputStream;
import java.io.Closeable;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import qwen3.golden.v1.Arithmetic;
import qwen3.golden.v1.Backend;
import qwen3.golden.v1.DType;
import qwen3.golden.v1.End;
import qwen3.golden.v1.Header;
import qwen3.golden.v1.Mode;
import qwen3.golden.v1.Provenance;
import qwen3.golden.v1.Recording;
import qwen3.golden.v1.Run;
import qwen3.golden.v1.Tokenization;

/**
 * Writes the recording of a case while it is run. Payloads go to the disk as they come, metadata follows them, and the
 * file has its name only when it is whole.
 */
public final class Recorder implements Closeable {
  private final Golden golden;
  private final Path path;
  private final Path partial;
  private final OutputStream out;
  private final List<Pattern> wanted;
  private final Recording.Builder metadata;
  private final Set<String> patterns = new LinkedHashSet<>();
  private long payloadBytes;

  /** A recorder of the golden's case; throws {@link IOException} when the file cannot be made. */
  public Recorder(Golden golden, Path path) throws IOException {
    this.golden = golden;
    this.path = path;
    partial = path.resolveSibling(path.getFileName() + ".partial");
    wanted = golden.testCase().getTapsList().stream().map(Recorder::glob).toList();
    metadata =
        Recording.newBuilder()
            .setProvenance(Provenance.newBuilder().setProducer("qwen3-java"))
            .setCase(golden.testCase());
    Files.createDirectories(path.toAbsolutePath().getParent());
    out = new BufferedOutputStream(Files.newOutputStream(partial));
    Header header = Header.newBuilder().setMagic("qwen3.golden").setSchemaMajor(1).build();
    Recording.newBuilder().setHeader(header).build().writeTo(out);
  }

  /** The tap of one forward. Takes what the case asks for and lets the rest go by. */
  public Tap at(int step) {
    return (name, value) -> {
      try {
        if (wanted.isEmpty() || wanted.stream().anyMatch(glob -> glob.matcher(name).matches())) {
          int axis = golden.testCase().getRows() > 0 ? queryAxis(name) : -1;
          write(name, step, value.dtype(), value.shape(), value.bytes(), axis);
        }
      } catch (IOException error) {
        throw new UncheckedIOException(error);
      }
    };
  }

  /** Copies what the case is given: an op's parameters, too, but not the weights that a request brings for a network. */
  public void copyInputs() throws IOException {
    boolean op = golden.testCase().getMode() == Mode.OP;
    for (var tensor : golden.tensors().entrySet()) {
      String name = tensor.getKey().name();
      if (name.startsWith("input.") || (op && name.startsWith("parameter."))) {
        write(name, tensor.getKey().step(), tensor.getValue());
      }
    }
  }

  /** Writes a tensor whatever the case asks for. */
  public void write(String name, int step, Tensor value) throws IOException {
    write(name, step, value.dtype(), value.shape(), value.bytes(), -1);
  }

  /** Of an axis that is not -1 the last positions alone, as many as the case keeps. */
  private void write(String name, int step, DType dtype, int[] wholeShape, ByteString whole, int axis)
      throws IOException {
    int[] shape = wholeShape.clone();
    ByteString data = whole;
    if (axis >= 0 && shape[axis] > golden.testCase().getRows()) {
      shape[axis] = golden.testCase().getRows();
      int outer = Arrays.stream(shape, 0, axis).reduce(1, Math::multiplyExact);
      int each = whole.size() / outer;
      int kept = each / wholeShape[axis] * shape[axis];
      data = ByteString.EMPTY;
      for (int i = 1; i <= outer; i++) {
        data = data.concat(whole.substring(i * each - kept, i * each));
      }
    }
    Recording.newBuilder().addPayload(data).build().writeTo(out);
    payloadBytes += data.size();
    patterns.add(name.replaceFirst("layers\\.\\d+\\.", "layers.{layer}."));
    metadata
        .addTensorBuilder()
        .setName(name)
        .setStep(step)
        .setDtype(dtype)
        .addAllShape(Arrays.stream(shape).mapToObj(Long::valueOf).toList())
        .setBytes(data.size())
        .setSha256(Golden.sha256(data.toByteArray()));
  }

  /** Finishes the recording of a network that was run in float32, and gives the file its name. */
  public void finish() throws IOException {
    finish(Arithmetic.ARITHMETIC_F32, Backend.FOREIGN, patterns);
  }

  /** Finishes the recording of a tokenizer, which holds no tensors. */
  public void finish(Tokenization tokenization, List<String> stages) throws IOException {
    metadata.setTokenization(tokenization);
    finish(Arithmetic.ARITHMETIC_NONE, Backend.BACKEND_NONE, stages);
  }

  private void finish(Arithmetic arithmetic, Backend backend, Iterable<String> materialised) throws IOException {
    Run.Builder run = Run.newBuilder().setArithmetic(arithmetic).setBackend(backend).addAllMaterialised(materialised);
    ByteString content = metadata.setRun(run).build().toByteString();
    content.writeTo(out);
    End end =
        End.newBuilder()
            .setTensors(metadata.getTensorCount())
            .setPayloadBytes(payloadBytes)
            .setDigest(Golden.sha256(content.toByteArray()))
            .build();
    Recording.newBuilder().setEnd(end).build().writeTo(out);
    out.close();
    Files.move(partial, path, StandardCopyOption.REPLACE_EXISTING);
  }

  /** Drops what was not finished. */
  @Override
  public void close() throws IOException {
    out.close();
    Files.deleteIfExists(partial);
  }

  /** The axis of a tap that counts the step's positions; -1 for taps that have none or are never cut. */
  private static int queryAxis(String name) {
    String leaf = name.substring(name.lastIndexOf('.') + 1);
    return switch (leaf) {
      case "inv_freq", "position_ids", "cos", "sin", "k_proj", "k_norm", "k_rope", "v_proj" -> -1;
      case "q_rope", "scores", "probs" -> 2;
      default -> leaf.startsWith("cache_") || leaf.startsWith("encoder_") ? -1 : 1;
    };
  }

  private static Pattern glob(String glob) {
    return Pattern.compile(("\\Q" + glob + "\\E").replace("*", "\\E.*\\Q").replace("?", "\\E.\\Q"));
  }
}

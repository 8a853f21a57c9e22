import com.google.protobuf.TextFormat;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.Arrays;
import java.util.function.IntPredicate;
import java.util.stream.IntStream;
import qwen3.golden.v1.*;

/**
 * Holds a recording against its golden, as an engine's own tests would: GOLDEN CANDIDATE golden/tolerances.textproto. Exit code
 * 0 within every budget, 1 beyond one, 2 not readable. qwen3-parity check judges more: every op alone, what is missing.
 */
final class Compare {
  static Recording read(String path) throws Exception {
    Recording file = Recording.parseFrom(Files.readAllBytes(Path.of(path)));
    require(file.getHeader().getMagic().equals("qwen3.golden") && file.getHeader().getSchemaMajor() == 1, "no recording");
    require(file.getEnd().getTensors() == file.getPayloadCount() && file.getEnd().getTensors() == file.getTensorCount(), "cut off");
    for (int i = 0; i < file.getTensorCount(); i++) {
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(file.getPayload(i).toByteArray());
      require(Arrays.equals(file.getTensor(i).getSha256().toByteArray(), digest), file.getTensor(i).getName() + " is damaged");
    }
    return file;
  }

  /** Where a tap stands in a recording; -1: nowhere. */
  static int place(Recording file, String name, int step) {
    IntPredicate here = i -> file.getTensor(i).getStep() == step && file.getTensor(i).getName().equals(name);
    return IntStream.range(0, file.getTensorCount()).filter(here).findFirst().orElse(-1);
  }

  static boolean real(Recording golden, String stack, long row, long slot) {
    int mask = place(golden, "input." + stack + "_attention_mask", 0);
    return mask < 0 || golden.getPayload(mask).byteAt((int) (row * golden.getTensor(mask).getShape(1) + slot)) != 0;
  }

  /** Whether an element is none of padding. Keys of the decoder stand before those of the encoder. */
  static boolean counts(Recording golden, Tensor info, long element) {
    long[] at = {0, -1, -1}; // in the axes batch, query and key
    for (int axis = info.getShapeCount() - 1; axis >= 0; element /= info.getShape(axis--)) {
      int known = Arrays.asList("batch", "query", "key").indexOf(info.getAxes(axis));
      at[Math.max(known, 0)] = known < 0 ? at[0] : element % info.getShape(axis);
    }
    String stack = info.getName().startsWith("encoder.") ? "encoder" : "decoder";
    long past = golden.getCase().getStepsList().stream().limit(info.getStep()).mapToInt(i -> i).sum();
    boolean merged = golden.getCase().getMode() == Mode.ENCODER_DECODER && stack.equals("decoder");
    long own = merged ? past + golden.getCase().getSteps(info.getStep()) : Long.MAX_VALUE;
    boolean memory = info.getName().contains("encoder_") || at[2] >= own;
    boolean key = at[2] < 0 || real(golden, memory ? "encoder" : stack, at[0], at[2] >= own ? at[2] - own : at[2]);
    return key && (at[1] < 0 || real(golden, stack, at[0], stack.equals("encoder") ? at[1] : past + at[1]));
  }

  /** The larger share of what the RMS and the largest error may be; a tap without a floor is exact. */
  static double share(Recording golden, int right, Recording candidate, int ours, Headroom allowed) {
    Tensor info = golden.getTensor(right);
    boolean same = info.getShapeList().equals(candidate.getTensor(ours).getShapeList());
    require(same && info.getDtype() == candidate.getTensor(ours).getDtype(), info.getName() + " has another shape or dtype");
    if (info.getDtype() != DType.F32 || !info.hasFloor()) {
      return golden.getPayload(right).equals(candidate.getPayload(ours)) ? 0 : Double.POSITIVE_INFINITY;
    }
    ByteBuffer expected = golden.getPayload(right).asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    ByteBuffer actual = candidate.getPayload(ours).asReadOnlyByteBuffer().order(ByteOrder.LITTLE_ENDIAN);
    double squares = 0, largest = 0, elements = expected.remaining() / 4;
    for (int i = 0; i < elements; i++) {
      double value = expected.getFloat(), error = Math.abs(actual.getFloat() - value);
      require(Double.isFinite(error), info.getName() + " has NaN or infinity");
      error /= info.getOp().equals("inv_freq") ? Math.abs(value) : 1; // its elements span decades
      error *= counts(golden, info, i) ? 1 : 0;
      squares += error * error;
      largest = Math.max(largest, error);
    }
    boolean own = info.hasOwnAnglesFloor() && !candidate.getRun().getGoldenTables();
    Floor floor = own ? info.getOwnAnglesFloor() : info.getFloor();
    double rms = Math.sqrt(squares / elements) / (allowed.getRms() * floor.getRms());
    return largest == 0 ? 0 : Math.max(rms, largest / (allowed.getMax() * floor.getMax()));
  }

  static void require(boolean holds, String otherwise) {
    if (!holds) throw new IllegalArgumentException(otherwise);
  }

  static int compare(Recording golden, Recording candidate, Headroom allowed) {
    int compared = 0, beyond = 0;
    for (int i = 0; i < golden.getTensorCount(); i++) {
      Tensor info = golden.getTensor(i);
      int ours = place(candidate, info.getName(), info.getStep());
      double share = ours < 0 ? 0 : share(golden, i, candidate, ours, allowed);
      compared += ours < 0 ? 0 : 1;
      beyond += share > 1 ? 1 : 0;
      if (share > 1) System.out.printf("%s, step %d: %.3g of its budget%n", info.getName(), info.getStep(), share);
    }
    require(compared > 0, "nothing to compare");
    System.out.printf("%d of %d taps compared, %d beyond their budgets%n", compared, golden.getTensorCount(), beyond);
    return beyond == 0 ? 0 : 1;
  }

  public static void main(String[] files) {
    try {
      Tolerances table = TextFormat.parse(Files.readString(Path.of(files[2])), Tolerances.class);
      Headroom allowed = table.getHeadroomList().stream().filter(row -> row.getKind().equals("run")).findFirst().orElseThrow();
      System.exit(compare(read(files[0]), read(files[1]), allowed));
    } catch (Exception error) {
      System.err.println(error.getMessage());
      System.exit(2);
    }
  }
}

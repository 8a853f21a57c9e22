package qwen3.port;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** Runs golden cases and writes what the port makes of them, for {@code qwen3-parity check}. */
public final class Main {
  private static final String USAGE =
      """
      run GOLDEN OUT.pb           one case
      run-all golden/cases OUT    every case below a folder, as OUT/<case>.pb; those that the port does not have are named
      """;

  private final Path cases;
  private final Checkpoints checkpoints;

  private Main(Path cases) {
    this.cases = cases;
    checkpoints = new Checkpoints(cases.resolveSibling("checkpoints"));
  }

  /** Exit codes: 0 recorded, 1 the port does not have this case, 2 it cannot be read or the arguments are wrong. */
  public static void main(String[] arguments) {
    try {
      System.exit(main(List.of(arguments), System.out));
    } catch (IOException | RuntimeException error) {
      System.err.println(error.getMessage() == null ? error : error.getMessage());
      System.exit(error instanceof UnsupportedOperationException ? 1 : 2);
    }
  }

  private static int main(List<String> arguments, PrintStream out) throws IOException {
    if (arguments.size() != 3 || !List.of("run", "run-all").contains(arguments.get(0))) {
      System.err.print(USAGE);
      return 2;
    }
    Path from = Path.of(arguments.get(1)).toAbsolutePath();
    Path to = Path.of(arguments.get(2));
    if (arguments.get(0).equals("run")) {
      Golden golden = Golden.read(from);
      int depth = Path.of(golden.theCase().getName()).getNameCount();
      Path folder = from;
      for (int i = 0; i < depth; i++) {
        folder = folder.getParent();
      }
      new Main(folder).run(golden, to);
      return 0;
    }
    return new Main(from).runAll(to, out);
  }

  private int runAll(Path to, PrintStream out) throws IOException {
    List<Path> files;
    try (Stream<Path> all = Files.walk(cases)) {
      files = all.filter(file -> file.toString().endsWith(".pb")).sorted().toList();
    }
    int recorded = 0;
    for (Path file : files) {
      Golden golden = Golden.read(file);
      try {
        run(golden, to.resolve(golden.theCase().getName() + ".pb"));
        recorded++;
      } catch (UnsupportedOperationException error) {
        out.println(golden.theCase().getName() + ": the port does not have " + error.getMessage());
      }
    }
    out.println(recorded + " of " + files.size() + " cases recorded in " + to);
    return recorded == 0 ? 2 : 0;
  }

  private void run(Golden golden, Path to) throws IOException {
    try (Recorder recorder = new Recorder(golden, to)) {
      switch (golden.theCase().getMode()) {
        case PLUMBING -> copy(golden, recorder);
        case OP -> OpCase.run(golden, recorder);
        case ENCODER, CAUSAL, ENCODER_DECODER, BLOCK -> network(golden, recorder, to);
        case TOKENIZATION -> TokenizationCase.run(golden, tokenizer(golden), recorder);
        default -> throw new UnsupportedOperationException("mode " + golden.theCase().getMode());
      }
    }
  }

  /** The format's self-test: what was read is written again. */
  private static void copy(Golden golden, Recorder recorder) throws IOException {
    for (var tensor : golden.tensors().entrySet()) {
      recorder.write(tensor.getKey().name(), tensor.getKey().step(), tensor.getValue());
    }
    recorder.finish();
  }

  private Tokenizer tokenizer(Golden golden) throws IOException {
    return Tokenizer.read(cases.resolveSibling("tokenizers").resolve(golden.theCase().getCheckpoint(0).getName() + ".pb"));
  }

  private void network(Golden golden, Recorder recorder, Path to) throws IOException {
    String after = golden.theCase().getAfter();
    if (!after.isEmpty()) { // run first on the same stacks, and not recorded
      Golden earlier = Golden.read(cases.resolve(after + ".pb"));
      try (Recorder dropped = new Recorder(earlier, Path.of(to + ".after"))) {
        new NetworkCase(earlier, checkpoints).run(dropped);
      }
    }
    new NetworkCase(golden, checkpoints).run(recorder);
    recorder.finish();
  }
}

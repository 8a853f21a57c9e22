package qwen3.port;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Stream;

/** Runs golden cases and writes what the port makes of them, for {@code qwen3-parity check}. */
public final class Main {
  private static final String USAGE =
      """
      run GOLDEN OUT.pb           one case
      run-all golden/cases OUT    every case below a folder, as OUT/<folder>/<name>.pb; those not ported are named
      answer                      requests on standard input, for qwen3-parity conformance
      """;

  private final Path cases;
  private final Checkpoints checkpoints;

  Main(Path cases) {
    this.cases = cases;
    checkpoints = new Checkpoints(cases.resolveSibling("checkpoints"));
  }

  /** Exit codes: 0 recorded, 1 the port does not have this case, 2 it cannot be read or the arguments are wrong. */
  public static void main(String[] arguments) {
    try {
      System.exit(main(List.of(arguments)));
    } catch (IOException | RuntimeException error) {
      System.err.println(error.getMessage() == null ? error : error.getMessage());
      System.exit(error instanceof UnsupportedOperationException ? 1 : 2);
    }
  }

  private static int main(List<String> arguments) throws IOException {
    if (arguments.equals(List.of("answer"))) {
      Pipe.answerAll(System.in, System.out);
      return 0;
    }
    if (arguments.size() != 3 || !List.of("run", "run-all").contains(arguments.get(0))) {
      System.err.print(USAGE);
      return 2;
    }
    Path from = Path.of(arguments.get(1)).toAbsolutePath();
    Path to = Path.of(arguments.get(2));
    if (arguments.get(0).equals("run")) {
      new Main(casesOf(from)).run(Golden.read(from), to);
      return 0;
    }
    return new Main(from).runAll(to);
  }

  /** The nearest folder above a file that stands beside checkpoints. */
  private static Path casesOf(Path file) {
    Path folder = file.getParent();
    while (folder.getParent() != null && !Files.isDirectory(folder.resolveSibling("checkpoints"))) {
      folder = folder.getParent();
    }
    return folder;
  }

  private int runAll(Path to) throws IOException {
    List<Path> files;
    try (Stream<Path> all = Files.walk(cases)) {
      files = all.filter(file -> file.toString().endsWith(".pb")).sorted().toList();
    }
    int recorded = 0;
    int failed = 0;
    for (Path file : files) {
      try {
        run(Golden.read(file), to.resolve(cases.relativize(file)));
        recorded++;
      } catch (UnsupportedOperationException error) {
        System.out.println(cases.relativize(file) + ": the port does not have " + error.getMessage());
      } catch (IOException | RuntimeException error) {
        System.err.println(error.getMessage());
        failed++;
      }
    }
    System.out.println(recorded + " of " + files.size() + " cases recorded in " + to);
    return recorded == 0 || failed > 0 ? 2 : 0;
  }

  void run(Golden golden, Path to) throws IOException {
    try (Recorder recorder = new Recorder(golden, to)) {
      switch (golden.testCase().getMode()) {
        case PLUMBING -> copy(golden, recorder);
        case OP -> OpCase.run(golden, recorder);
        case ENCODER, CAUSAL, ENCODER_DECODER, BLOCK -> network(golden, recorder, to);
        case TOKENIZATION -> TokenizationCase.run(golden, tokenizer(golden), recorder);
        default -> throw new UnsupportedOperationException("mode " + golden.testCase().getMode());
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
    return Tokenizer.read(cases.resolveSibling("tokenizers").resolve(golden.testCase().getCheckpoint(0).getName() + ".pb"));
  }

  private void network(Golden golden, Recorder recorder, Path to) throws IOException {
    String after = golden.testCase().getAfter();
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

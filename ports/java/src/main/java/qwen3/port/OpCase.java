package qwen3.port;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Collectors;
import qwen3.golden.v1.Attribute;
import qwen3.golden.v1.Generation;
import qwen3.golden.v1.RopeScaling;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** One operation alone, on the inputs and parameters of its case. */
final class OpCase {
  private final Golden golden;
  private final Recorder recorder;
  private final Map<String, Double> attributes;

  private OpCase(Golden golden, Recorder recorder) {
    this.golden = golden;
    this.recorder = recorder;
    attributes =
        golden.testCase().getAttributesList().stream()
            .collect(Collectors.toMap(Attribute::getKey, Attribute::getValue));
  }

  /** Throws {@link UnsupportedOperationException} for an operation that the port does not have. */
  static void run(Golden golden, Recorder recorder) throws IOException {
    new OpCase(golden, recorder).run();
  }

  private void run() throws IOException {
    recorder.copyInputs();
    String op = golden.testCase().getOp();
    switch (op) {
      case "embedding" -> output("y", Ops.embedding(longs("ids"), parameter("weight")));
      case "linear" -> output("y", Ops.linear(floats("x"), parameter("weight"), parameter("bias")));
      case "rms_norm", "head_norm" -> output("y", Ops.rmsNorm(floats("x"), parameter("weight"), number("eps", 0)));
      case "repeat_kv" -> output("y", Ops.repeatKv(floats("x"), (int) number("groups", 1)));
      case "swiglu" -> output("act", Ops.swiglu(floats("gate"), floats("up")));
      case "inv_freq" -> output("inv_freq", inverseFrequencies());
      case "rope_table" -> table(Rope.tables(longs("position_ids"), floats("inv_freq"), number("attention_factor", 1)));
      case "rope" -> {
        Rope.Tables tables = new Rope.Tables(floats("cos"), floats("sin"));
        output("q", Ops.rope(floats("q"), tables));
        output("k", Ops.rope(floats("k"), tables));
      }
      case "mask" -> output("mask", mask());
      case "scores" -> output("scores", Ops.scores(floats("q"), floats("k"), number("scaling", 1)));
      case "softmax" -> output("probs", Ops.softmax(floats("scores"), bools("mask")));
      case "context" -> output("context", Ops.context(floats("probs"), floats("v")));
      case "next_token_probs" -> output("probs", nextTokenProbs());
      case "read" -> read();
      default -> throw new UnsupportedOperationException("op " + op);
    }
    recorder.finish();
  }

  private void table(Rope.Tables tables) throws IOException {
    output("cos", tables.cos());
    output("sin", tables.sin());
  }

  private Floats inverseFrequencies() {
    RopeScaling.Builder scaling = RopeScaling.newBuilder();
    if (attributes.containsKey("factor")) {
      scaling
          .setRopeType("yarn")
          .setFactor(number("factor", 1))
          .setOriginalMaxPositionEmbeddings((int) number("original_max_position_embeddings", 0))
          .setBetaFast(number("beta_fast", 32))
          .setBetaSlow(number("beta_slow", 1))
          .setTruncate(number("truncate", 1) != 0);
    }
    return Rope.inverseFrequencies((int) number("head_dim", 0), number("theta", 0), scaling.build());
  }

  private Bools mask() {
    int window = (int) number("window", 0);
    Bools encoder = golden.has("input.encoder_attention_mask") ? bools("encoder_attention_mask") : null;
    if (!golden.has("input.decoder_attention_mask")) {
      return Masks.encoder(encoder, window);
    }
    Bools decoder = bools("decoder_attention_mask");
    return Masks.decoder(decoder, decoder.shape()[1], (int) number("query", 0), encoder, window);
  }

  private Floats nextTokenProbs() {
    Longs ids = longs("ids");
    long[][] had = new long[ids.shape()[0]][];
    for (int row = 0; row < had.length; row++) {
      had[row] = Arrays.copyOfRange(ids.data(), row * ids.shape()[1], (row + 1) * ids.shape()[1]);
    }
    Generation filters =
        Generation.newBuilder()
            .setRepetitionPenalty(number("repetition_penalty", 1))
            .setTemperature(number("temperature", 1))
            .setTopK((int) number("top_k", 0))
            .setTopP(number("top_p", 1))
            .setMinP(number("min_p", 0))
            .build();
    return Sampling.nextTokenProbs(floats("logits"), had, filters);
  }

  /** Of each file, by its bytes, whether the reader refuses it. */
  private void read() throws IOException {
    for (var file : golden.tensors().entrySet()) {
      String name = file.getKey().name();
      if (!name.startsWith("input.")) {
        continue;
      }
      boolean refused = false;
      try {
        Golden.parse(file.getValue().bytes().toByteArray());
      } catch (IOException error) {
        refused = true;
      }
      output(name.substring("input.".length()), new Bools(new boolean[] {refused}));
    }
  }

  private double number(String name, double otherwise) {
    return attributes.getOrDefault(name, otherwise);
  }

  private Floats floats(String operand) {
    return golden.get("input." + operand).floats();
  }

  private Longs longs(String operand) {
    return golden.get("input." + operand).longs();
  }

  private Bools bools(String operand) {
    return golden.get("input." + operand).bools();
  }

  /** A weight, or null where the case has none. */
  private Floats parameter(String operand) {
    String name = "parameter." + operand;
    return golden.has(name) ? golden.get(name).floats() : null;
  }

  private void output(String operand, Tensor value) throws IOException {
    recorder.write("output." + operand, 0, value);
  }
}

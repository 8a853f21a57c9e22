package qwen3.port;

import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import qwen3.golden.v1.Arithmetic;
import qwen3.golden.v1.Checkpoint;
import qwen3.golden.v1.ModelConfig;
import qwen3.port.Tensor.Floats;

/** The directories that cases name, each read once. */
final class Checkpoints {
  private record Key(String name, String role, ModelConfig config, boolean bfloat16) {}

  private final Path folder;
  private final Map<Key, Qwen3> stacks = new HashMap<>();

  /** Of {@code golden/checkpoints}. */
  Checkpoints(Path folder) {
    this.folder = folder;
  }

  /** The stack that a case's checkpoint has a role for, or null. The weights of a bfloat16 case are rounded to that. */
  Qwen3 stack(Golden golden, String role) throws IOException {
    boolean bfloat16 = golden.message().getRun().getArithmetic() == Arithmetic.ARITHMETIC_BF16;
    for (Checkpoint checkpoint : golden.testCase().getCheckpointList()) {
      if (checkpoint.getRole().equals(role)) {
        Key key = new Key(checkpoint.getName(), role, golden.testCase().getConfig(), bfloat16);
        if (!stacks.containsKey(key)) {
          Map<String, Floats> weights = brought(golden, role);
          if (weights.isEmpty()) {
            weights = Safetensors.read(folder.resolve(key.name()));
          }
          if (bfloat16) {
            weights.values().forEach(Floats::roundToBfloat16);
          }
          stacks.put(key, new Qwen3(key.config(), weights));
        }
        return stacks.get(key);
      }
    }
    return null;
  }

  /** The weights that a request brings for a role, under Hugging Face's names; a golden brings none. */
  private static Map<String, Floats> brought(Golden golden, String role) {
    String stack = "parameter." + role + ".";
    Map<String, Floats> weights = new HashMap<>();
    golden
        .tensors()
        .forEach(
            (key, tensor) -> {
              if (key.name().startsWith(stack)) {
                String name = key.name().substring(stack.length()).replace(".merged_attn.", ".self_attn.");
                weights.put("model." + name, tensor.floats());
              } else if (key.name().equals("parameter.lm_head.weight")) {
                weights.put("lm_head.weight", tensor.floats());
              }
            });
    return weights;
  }
}

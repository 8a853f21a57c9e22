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
  private record Key(String name, ModelConfig config, boolean bfloat16) {}

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
        Key key = new Key(checkpoint.getName(), golden.testCase().getConfig(), bfloat16);
        if (!stacks.containsKey(key)) {
          Map<String, Floats> weights = Safetensors.read(folder.resolve(key.name()));
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
}

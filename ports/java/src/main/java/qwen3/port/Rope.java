package qwen3.port;

import qwen3.golden.v1.RopeScaling;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** How far each pair of channels turns at each position, plain or stretched. */
public final class Rope {
  private Rope() {}

  /** cos and sin, each {@code [batch, slot, head_dim]}; both halves of the channels have the same angles. */
  public record Tables(Floats cos, Floats sin) {}

  /**
   * The angle per position of each pair, {@code theta^(-2 i / head_dim)}, {@code [head_dim / 2]}. A scaling of an empty
   * rope_type stretches nothing.
   */
  public static Floats inverseFrequencies(int headDim, double theta, RopeScaling scaling) {
    Floats y = Floats.zeros(headDim / 2);
    for (int i = 0; i < headDim / 2; i++) {
      double plain = Math.pow(theta, -2.0 * i / headDim);
      double divided =
          switch (scaling.getRopeType()) {
            case "" -> 0;
            case "yarn" -> yarnRamp(i, headDim, theta, scaling);
            case "llama3" -> llama3Ramp(plain, scaling);
            default -> throw new UnsupportedOperationException("rope_type " + scaling.getRopeType());
          };
      y.data()[i] = (float) (divided == 0 ? plain : plain * (1 - divided) + plain / scaling.getFactor() * divided);
    }
    return y;
  }

  /** {@code positions[batch, slot]}; cos and sin are multiplied by YaRN's factor, which is 1 for plain RoPE. */
  public static Tables tables(Longs positions, Floats inverseFrequencies, double attentionFactor) {
    int pairs = inverseFrequencies.last();
    int[] shape = {positions.shape()[0], positions.shape()[1], 2 * pairs};
    Tables tables = new Tables(Floats.zeros(shape), Floats.zeros(shape));
    for (int i = 0; i < tables.cos().data().length; i++) {
      float angle = (float) positions.data()[i / (2 * pairs)] * inverseFrequencies.data()[i % pairs];
      tables.cos().data()[i] = (float) (Math.cos(angle) * attentionFactor);
      tables.sin().data()[i] = (float) (Math.sin(angle) * attentionFactor);
    }
    return tables;
  }

  /** The share of pair i that is divided: 0 for those that turn beta_fast times or more, 1 from beta_slow on. */
  private static double yarnRamp(int i, int headDim, double theta, RopeScaling scaling) {
    double low = pairThatTurns(scaling.getBetaFast(), headDim, theta, scaling);
    double high = pairThatTurns(scaling.getBetaSlow(), headDim, theta, scaling);
    if (scaling.getTruncate()) {
      low = Math.floor(low);
      high = Math.ceil(high);
    }
    low = Math.max(low, 0);
    high = Math.min(high, headDim - 1); // not head_dim / 2 - 1: Hugging Face has it so
    return clip((i - low) / (low == high ? 0.001 : high - low));
  }

  private static double pairThatTurns(double times, int headDim, double theta, RopeScaling scaling) {
    double length = scaling.getOriginalMaxPositionEmbeddings();
    return headDim * Math.log(length / (times * 2 * Math.PI)) / (2 * Math.log(theta));
  }

  /** The same for Llama 3.1, by how often a pair turns over the original length. */
  private static double llama3Ramp(double plain, RopeScaling scaling) {
    double turns = scaling.getOriginalMaxPositionEmbeddings() * plain / (2 * Math.PI);
    double low = scaling.getLowFreqFactor();
    return 1 - clip((turns - low) / (scaling.getHighFreqFactor() - low));
  }

  private static double clip(double x) {
    return Math.min(Math.max(x, 0), 1);
  }
}

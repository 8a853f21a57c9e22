package qwen3.port;

import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** The operations of the network, one function each: float32, plain loops, sums from left to right. */
public final class Ops {
  private Ops() {}

  /** Row number id for each id: {@code ids[batch, slot]}, {@code weight[vocab, hidden]} → {@code [batch, slot, hidden]}. */
  public static Floats embedding(Longs ids, Floats weight) {
    int hidden = weight.last();
    Floats y = Floats.zeros(ids.shape()[0], ids.shape()[1], hidden);
    for (int i = 0; i < ids.data().length; i++) {
      System.arraycopy(weight.data(), Math.toIntExact(ids.data()[i]) * hidden, y.data(), i * hidden, hidden);
    }
    return y;
  }

  /** {@code y[o] = Σ weight[o, i] x[i] + bias[o]} on the last axis of {@code x[…, in]}; a bias may be null. */
  public static Floats linear(Floats x, Floats weight, Floats bias) {
    int in = x.last();
    int out = weight.shape()[0];
    int[] shape = x.shape().clone();
    shape[shape.length - 1] = out;
    Floats y = Floats.zeros(shape);
    for (int row = 0; row < x.data().length / in; row++) {
      for (int o = 0; o < out; o++) {
        float sum = dot(weight.data(), o * in, x.data(), row * in, in);
        y.data()[row * out + o] = bias == null ? sum : sum + bias.data()[o];
      }
    }
    return y;
  }

  /** {@code weight x / sqrt(mean(x²) + eps)} over the last axis; {@code x[…, n]}, {@code weight[n]}. */
  public static Floats rmsNorm(Floats x, Floats weight, double eps) {
    int n = x.last();
    Floats y = Floats.zeros(x.shape());
    for (int start = 0; start < x.data().length; start += n) {
      float meanSquare = dot(x.data(), start, x.data(), start, n) / n;
      float root = (float) Math.sqrt(meanSquare + (float) eps);
      for (int i = 0; i < n; i++) {
        y.data()[start + i] = weight.data()[i] * (x.data()[start + i] / root);
      }
    }
    return y;
  }

  /** {@code x[batch, slot, heads, head_dim]} → {@code [batch, heads, slot, head_dim]}, or back again. */
  public static Floats swapHeads(Floats x) {
    int[] shape = x.shape();
    int n = shape[3];
    Floats y = Floats.zeros(shape[0], shape[2], shape[1], n);
    for (int b = 0; b < shape[0]; b++) {
      for (int i = 0; i < shape[1]; i++) {
        for (int j = 0; j < shape[2]; j++) {
          int from = (b * shape[1] + i) * shape[2] + j;
          int to = (b * shape[2] + j) * shape[1] + i;
          System.arraycopy(x.data(), from * n, y.data(), to * n, n);
        }
      }
    }
    return y;
  }

  /**
   * RoPE by halves: channel i and channel i + head_dim / 2 turn by one angle. {@code x[batch, heads, slot, head_dim]}, cos
   * and sin {@code [batch, slot, head_dim]}.
   */
  public static Floats rope(Floats x, Rope.Tables tables) {
    int heads = x.shape()[1];
    int slots = x.shape()[2];
    int n = x.last();
    Floats y = Floats.zeros(x.shape());
    for (int row = 0; row < x.data().length / n; row++) {
      int turn = (row / (heads * slots) * slots + row % slots) * n;
      for (int i = 0; i < n; i++) {
        float other = i < n / 2 ? -x.data()[row * n + i + n / 2] : x.data()[row * n + i - n / 2];
        y.data()[row * n + i] = x.data()[row * n + i] * tables.cos().data()[turn + i] + other * tables.sin().data()[turn + i];
      }
    }
    return y;
  }

  /** Each KV head {@code groups} times in a row: {@code [batch, kv_heads, slot, head_dim]} → {@code [batch, heads, …]}. */
  public static Floats repeatKv(Floats x, int groups) {
    int head = x.shape()[2] * x.last();
    int heads = x.shape()[1] * groups;
    Floats y = Floats.zeros(x.shape()[0], heads, x.shape()[2], x.last());
    for (int i = 0; i < x.shape()[0] * heads; i++) {
      System.arraycopy(x.data(), i / groups * head, y.data(), i * head, head);
    }
    return y;
  }

  /** Slots of b behind those of a: {@code [batch, kv_heads, slot, head_dim]}. */
  public static Floats joinSlots(Floats a, Floats b) {
    int first = a.shape()[2] * a.last();
    int second = b.shape()[2] * b.last();
    Floats y = Floats.zeros(a.shape()[0], a.shape()[1], a.shape()[2] + b.shape()[2], a.last());
    for (int head = 0; head < a.shape()[0] * a.shape()[1]; head++) {
      System.arraycopy(a.data(), head * first, y.data(), head * (first + second), first);
      System.arraycopy(b.data(), head * second, y.data(), head * (first + second) + first, second);
    }
    return y;
  }

  /**
   * {@code scaling q · k}, before the mask: {@code q[batch, heads, query, head_dim]}, {@code k[batch, kv_heads, key,
   * head_dim]} → {@code [batch, heads, query, key]}. Query head h reads KV head h / (heads / kv_heads).
   */
  public static Floats scores(Floats q, Floats k, double scaling) {
    int query = q.shape()[2];
    int key = k.shape()[2];
    int n = q.last();
    int groups = q.shape()[1] / k.shape()[1];
    Floats y = Floats.zeros(q.shape()[0], q.shape()[1], query, key);
    for (int i = 0; i < y.data().length; i++) {
      int row = i / key; // over batch, heads and query
      int kv = row / query / groups; // over batch and kv_heads
      y.data()[i] = dot(q.data(), row * n, k.data(), (kv * key + i % key) * n, n) * (float) scaling;
    }
    return y;
  }

  /**
   * Softmax over the visible keys: {@code scores[batch, heads, query, key]}, {@code mask[batch, query, key]}. A hidden key
   * has exactly 0, and so has a row that sees nothing.
   */
  public static Floats softmax(Floats scores, Bools mask) {
    int heads = scores.shape()[1];
    int query = scores.shape()[2];
    int key = scores.last();
    Floats y = Floats.zeros(scores.shape());
    for (int row = 0; row < y.data().length / key; row++) {
      int visible = (row / (heads * query) * query + row % query) * key;
      float peak = Float.NEGATIVE_INFINITY;
      for (int j = 0; j < key; j++) {
        if (mask.data()[visible + j]) {
          peak = Math.max(peak, scores.data()[row * key + j]);
        }
      }
      float sum = 0;
      for (int j = 0; j < key; j++) {
        if (mask.data()[visible + j]) {
          float weight = (float) Math.exp(scores.data()[row * key + j] - peak);
          y.data()[row * key + j] = weight;
          sum += weight;
        }
      }
      for (int j = 0; j < key && sum > 0; j++) {
        y.data()[row * key + j] /= sum;
      }
    }
    return y;
  }

  /**
   * {@code Σ probs v} over the keys: {@code probs[batch, heads, query, key]}, {@code v[batch, kv_heads, key, head_dim]} →
   * {@code [batch, query, heads, head_dim]}.
   */
  public static Floats context(Floats probs, Floats v) {
    int batch = probs.shape()[0];
    int heads = probs.shape()[1];
    int query = probs.shape()[2];
    int key = probs.last();
    int n = v.last();
    int groups = heads / v.shape()[1];
    Floats y = Floats.zeros(batch, query, heads, n);
    for (int row = 0; row < batch * heads * query; row++) {
      int kv = row / query / groups;
      int head = row / query % heads;
      int to = ((row / (heads * query) * query + row % query) * heads + head) * n;
      for (int j = 0; j < key; j++) {
        for (int i = 0; i < n; i++) {
          y.data()[to + i] += probs.data()[row * key + j] * v.data()[(kv * key + j) * n + i];
        }
      }
    }
    return y;
  }

  /** {@code gate sigmoid(gate) up}, element by element. */
  public static Floats swiglu(Floats gate, Floats up) {
    Floats y = Floats.zeros(gate.shape());
    for (int i = 0; i < y.data().length; i++) {
      float x = gate.data()[i];
      y.data()[i] = x / (1 + (float) Math.exp(-x)) * up.data()[i];
    }
    return y;
  }

  /** The residual sum, element by element. */
  public static Floats add(Floats a, Floats b) {
    Floats y = Floats.zeros(a.shape());
    for (int i = 0; i < y.data().length; i++) {
      y.data()[i] = a.data()[i] + b.data()[i];
    }
    return y;
  }

  private static float dot(float[] a, int i, float[] b, int j, int n) {
    float sum = 0;
    for (int k = 0; k < n; k++) {
      sum += a[i + k] * b[j + k];
    }
    return sum;
  }
}

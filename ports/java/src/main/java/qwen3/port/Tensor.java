package qwen3.port;

import com.google.protobuf.ByteString;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import qwen3.golden.v1.DType;

/** Numbers with a shape, row-major: the last axis is contiguous. An empty shape is a scalar. */
public sealed interface Tensor {
  int[] shape();

  DType dtype();

  /** The elements as a golden file stores them: little-endian, without gaps. */
  ByteString bytes();

  /** Float32, what the network computes in. */
  record Floats(float[] data, int... shape) implements Tensor {
    public Floats {
      requireSize(data.length, shape);
    }

    static Floats zeros(int... shape) {
      return new Floats(new float[size(shape)], shape);
    }

    /** The same numbers under another shape. */
    Floats as(int... other) {
      return new Floats(data, other);
    }

    /** Rounds every element in place to the nearest number of 8 significant bits, ties to even. */
    void roundToBfloat16() {
      for (int i = 0; i < data.length; i++) {
        int bits = Float.floatToRawIntBits(data[i]);
        data[i] = Float.intBitsToFloat(bits + 0x7fff + (bits >>> 16 & 1) & 0xffff0000);
      }
    }

    /** The size of the last axis. */
    int last() {
      return shape[shape.length - 1];
    }

    @Override
    public DType dtype() {
      return DType.F32;
    }

    @Override
    public ByteString bytes() {
      ByteBuffer bytes = littleEndian(new byte[4 * data.length]);
      bytes.asFloatBuffer().put(data);
      return ByteString.copyFrom(bytes);
    }
  }

  /** Int64: ids and positions. */
  record Longs(long[] data, int... shape) implements Tensor {
    public Longs {
      requireSize(data.length, shape);
    }

    @Override
    public DType dtype() {
      return DType.I64;
    }

    @Override
    public ByteString bytes() {
      ByteBuffer bytes = littleEndian(new byte[8 * data.length]);
      bytes.asLongBuffer().put(data);
      return ByteString.copyFrom(bytes);
    }
  }

  /** Masks; true is visible, or a real token. */
  record Bools(boolean[] data, int... shape) implements Tensor {
    public Bools {
      requireSize(data.length, shape);
    }

    @Override
    public DType dtype() {
      return DType.BOOL;
    }

    @Override
    public ByteString bytes() {
      byte[] bytes = new byte[data.length];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) (data[i] ? 1 : 0);
      }
      return ByteString.copyFrom(bytes);
    }
  }

  /** Whatever a file holds, as it holds it. */
  record Stored(DType dtype, ByteString bytes, int... shape) implements Tensor {
    public Stored {
      requireSize(bytes.size() / elementSize(dtype), shape);
    }

    /** Widened to float32, exactly; of F32, BF16 and F16. */
    public Floats floats() {
      ByteBuffer source = littleEndian(bytes.toByteArray());
      float[] data = new float[size(shape)];
      for (int i = 0; i < data.length; i++) {
        data[i] =
            switch (dtype) {
              case F32 -> source.getFloat(4 * i);
              case BF16 -> Float.intBitsToFloat(source.getShort(2 * i) << 16);
              case F16 -> fromHalf(source.getShort(2 * i));
              default -> throw new IllegalArgumentException(dtype + " is no float that fits float32");
            };
      }
      return new Floats(data, shape);
    }

    public Longs longs() {
      require(DType.I64);
      long[] data = new long[size(shape)];
      littleEndian(bytes.toByteArray()).asLongBuffer().get(data);
      return new Longs(data, shape);
    }

    public Bools bools() {
      require(DType.BOOL);
      boolean[] data = new boolean[size(shape)];
      for (int i = 0; i < data.length; i++) {
        data[i] = bytes.byteAt(i) != 0;
      }
      return new Bools(data, shape);
    }

    private void require(DType expected) {
      if (dtype != expected) {
        throw new IllegalArgumentException("expected " + expected + ", got " + dtype);
      }
    }
  }

  /** The product of a shape's sizes. */
  static int size(int... shape) {
    return Arrays.stream(shape).reduce(1, Math::multiplyExact);
  }

  /** Bytes that an element takes. */
  static int elementSize(DType dtype) {
    return switch (dtype) {
      case F64, I64 -> 8;
      case F32, I32 -> 4;
      case F16, BF16 -> 2;
      case U8, BOOL -> 1;
      default -> throw new IllegalArgumentException("no dtype: " + dtype);
    };
  }

  private static void requireSize(int elements, int[] shape) {
    if (elements != size(shape)) {
      throw new IllegalArgumentException(elements + " elements do not fill " + Arrays.toString(shape));
    }
  }

  private static ByteBuffer littleEndian(byte[] bytes) {
    return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
  }

  private static float fromHalf(short bits) {
    int exponent = bits >> 10 & 0x1f;
    int fraction = bits & 0x3ff;
    float magnitude =
        switch (exponent) {
          case 0 -> Math.scalb((float) fraction, -24);
          case 0x1f -> fraction == 0 ? Float.POSITIVE_INFINITY : Float.NaN;
          default -> Math.scalb((float) (fraction | 0x400), exponent - 25);
        };
    return bits < 0 ? -magnitude : magnitude;
  }
}

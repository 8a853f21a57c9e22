package qwen3.port;

import java.io.IOException;
import java.util.stream.IntStream;
import qwen3.golden.v1.Case;
import qwen3.golden.v1.Generation;
import qwen3.port.Tensor.Bools;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** A case of the network: the encoder once, then the decoder's steps with a cache, then free generation where it has that. */
final class NetworkCase {
  private final Golden golden;
  private final Case testCase;
  private final Qwen3 encoder;
  private final Qwen3 decoder;

  /** A stack that the case does not have is null. */
  NetworkCase(Golden golden, Checkpoints checkpoints) throws IOException {
    this.golden = golden;
    testCase = golden.testCase();
    if (testCase.hasTraining()) {
      throw new UnsupportedOperationException("training");
    }
    encoder = checkpoints.stack(golden, "encoder");
    decoder = checkpoints.stack(golden, "decoder");
  }

  void run(Recorder recorder) throws IOException {
    recorder.copyInputs();
    Cache.Memory memory = encoder == null ? null : encode(recorder.at(0));
    if (decoder != null) {
      decode(memory, recorder);
    }
  }

  private void decode(Cache.Memory memory, Recorder recorder) throws IOException {
    steps(memory, recorder);
    Generation how = testCase.getGeneration();
    if (testCase.getMaxNewTokens() > 0 && !how.getStrategy().equals("sample")) {
      recorder.write("generated_ids", 0, Greedy.search(continuation(memory), testCase.getMaxNewTokens(), how));
    }
  }

  private Cache.Memory encode(Tap tap) {
    Longs positions = golden.get("input.encoder_position_ids").longs();
    Bools real = golden.get("input.encoder_attention_mask").bools();
    return encoder.encode(states(encoder, "encoder", 0, positions.shape()[1], tap), positions, real, tap);
  }

  /** The decoder along the ids of the case, whatever the network would have chosen. */
  private void steps(Cache.Memory memory, Recorder recorder) throws IOException {
    Longs positions = golden.get("input.decoder_position_ids").longs();
    Bools real = golden.get("input.decoder_attention_mask").bools();
    Bools visible = golden.has("input.decoder_mask") ? golden.get("input.decoder_mask").bools() : real;
    Generation how = testCase.getGeneration();
    Cache cache = new Cache(testCase.getConfig().getNumHiddenLayers(), memory);
    for (int step = 0; step < testCase.getStepsCount(); step++) {
      int from = cache.length();
      int to = from + testCase.getSteps(step);
      Tap tap = recorder.at(step);
      Floats x = states(decoder, "decoder", from, to, tap);
      Floats logits = decoder.decode(x, columns(positions, from, to), visible, cache, tap);
      if (how.getStrategy().equals("sample") && to >= how.getPromptLength()) {
        long[][] had = realIds(golden.get("input.decoder_input_ids").longs(), real, to);
        recorder.write("next_token_probs", step, Sampling.nextTokenProbs(logits, had, how));
      }
    }
  }

  private Continuation continuation(Cache.Memory memory) {
    Generation how = testCase.getGeneration();
    int prompt = testCase.hasGeneration() ? how.getPromptLength() : testCase.getSteps(0);
    Longs ids = columns(golden.get("input.decoder_input_ids").longs(), 0, prompt);
    Longs positions = columns(golden.get("input.decoder_position_ids").longs(), 0, prompt);
    Bools real = golden.get("input.decoder_attention_mask").bools();
    Cache cache = new Cache(testCase.getConfig().getNumHiddenLayers(), memory);
    return new Continuation(decoder, cache, ids, positions, real, testCase.getMaxNewTokens());
  }

  /** What enters the first layer in some slots: the rows of the ids, or the hidden states that stand in their place. */
  private Floats states(Qwen3 stack, String name, int from, int to, Tap tap) {
    String embeds = "input." + name + "_inputs_embeds";
    if (golden.has(embeds)) {
      Floats all = golden.get(embeds).floats();
      int hidden = all.last();
      int length = all.shape()[1] * hidden;
      Floats some = Floats.zeros(all.shape()[0], to - from, hidden);
      for (int row = 0; row < all.shape()[0]; row++) {
        int size = (to - from) * hidden;
        System.arraycopy(all.data(), row * length + from * hidden, some.data(), row * size, size);
      }
      return some;
    }
    Floats embedded = stack.embed(columns(golden.get("input." + name + "_input_ids").longs(), from, to));
    tap.record(name + ".embed_tokens", embedded);
    return embedded;
  }

  private static Longs columns(Longs x, int from, int to) {
    long[] some = new long[x.shape()[0] * (to - from)];
    for (int row = 0; row < x.shape()[0]; row++) {
      System.arraycopy(x.data(), row * x.shape()[1] + from, some, row * (to - from), to - from);
    }
    return new Longs(some, x.shape()[0], to - from);
  }

  /** The ids of each row in the first slots that are no padding. */
  private static long[][] realIds(Longs ids, Bools real, int slots) {
    long[][] rows = new long[ids.shape()[0]][];
    for (int row = 0; row < rows.length; row++) {
      int start = row * ids.shape()[1];
      rows[row] =
          IntStream.range(start, start + slots)
              .filter(i -> real.data()[i])
              .mapToLong(i -> ids.data()[i])
              .toArray();
    }
    return rows;
  }
}

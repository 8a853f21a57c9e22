package qwen3.port;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Stream;
import qwen3.golden.v1.Generation;
import qwen3.port.Tensor.Floats;
import qwen3.port.Tensor.Longs;

/** Hugging Face's beam search. Rows are source × beams, a source's together. */
final class Beams {
  /** What is returned of each source, best first: ids {@code [rows, newTokens]} and scores {@code [rows]}. */
  record Result(Longs ids, Floats scores) {}

  /** A beam, its score and the tokens that it has; for a candidate also the beam it goes on from. */
  private record Beam(float score, int from, List<Long> tokens) {}

  /** One source: the beams that run, those that have ended, best first, and whether another may still be among them. */
  private static final class Source {
    private List<Beam> running = new ArrayList<>();
    private List<Beam> ended = List.of();
    private boolean open = true;
  }

  private static final float NEVER = -1e9f;
  private static final Comparator<Beam> BEST_FIRST = Comparator.comparing(Beam::score).reversed();

  private final Generation how;
  private final int newTokens;

  private Beams(Generation how, int newTokens) {
    this.how = how;
    this.newTokens = newTokens;
  }

  /**
   * The scores with which rows enter a step, {@code [rows]}: that of the row before which each goes on from, and the
   * log-probability of its token there. Scores before are null at first.
   */
  static Floats entering(Floats before, Floats logits, int[] from, long[] tokens) {
    Floats scores = Floats.zeros(from.length);
    for (int row = 0; row < from.length; row++) {
      float cost = logSoftmax(logits, from[row])[Math.toIntExact(tokens[row])];
      scores.data()[row] = before == null ? cost : before.data()[from[row]] + cost;
    }
    return scores;
  }

  /** Searches on from a prompt that stands once for each beam. */
  static Result search(Continuation continuation, int newTokens, Generation how) {
    return new Beams(how, newTokens).search(continuation);
  }

  private Result search(Continuation continuation) {
    int width = how.getNumBeams();
    List<Source> sources = Stream.generate(Source::new).limit(continuation.rows() / width).toList();
    for (Source source : sources) {
      for (int beam = 0; beam < width; beam++) {
        source.running.add(new Beam(beam == 0 ? 0 : NEVER, beam, List.of())); // the beams are equal as yet
      }
    }
    for (int length = 1; length <= newTokens; length++) {
      Floats logits = continuation.next();
      int[] from = new int[continuation.rows()];
      long[] tokens = new long[from.length];
      for (int i = 0; i < sources.size(); i++) {
        step(sources.get(i), logits, i * width, length);
        for (int beam = 0; beam < width && length < newTokens; beam++) {
          Beam next = sources.get(i).running.get(beam);
          from[i * width + beam] = i * width + next.from();
          tokens[i * width + beam] = next.tokens().get(length - 1);
        }
      }
      continuation.append(from, tokens);
    }
    return best(sources);
  }

  /** Of the best candidates – 2 × beams, or more where several ids end – those go on that do not end. */
  private void step(Source source, Floats logits, int row, int length) {
    List<Beam> candidates = new ArrayList<>();
    for (int beam = 0; beam < source.running.size(); beam++) {
      float[] costs = logSoftmax(logits, row + beam);
      Beam before = source.running.get(beam);
      for (long token = 0; token < costs.length; token++) {
        List<Long> tokens = Stream.concat(before.tokens().stream(), Stream.of(token)).toList();
        candidates.add(new Beam(before.score() + costs[(int) token], beam, tokens));
      }
    }
    candidates.sort(BEST_FIRST);
    int kept = Math.max(2, 1 + how.getEosTokenIdCount()) * how.getNumBeams();
    candidates = candidates.subList(0, Math.min(kept, candidates.size()));
    end(source, candidates.stream().limit(how.getNumBeams()).filter(this::ends).toList(), length);
    source.running = candidates.stream().filter(beam -> !ends(beam)).limit(how.getNumBeams()).toList();
    if (source.ended.size() == how.getNumBeams() && length < newTokens) {
      float worst = source.ended.get(source.ended.size() - 1).score();
      source.open &= penalised(source.running.get(0), length) > worst;
    }
  }

  /** Only what is among the best as many as there are beams may end, and only while that can still change something. */
  private void end(Source source, List<Beam> candidates, int length) {
    if (source.open && !(how.getEarlyStopping() && source.ended.size() == how.getNumBeams())) {
      Stream<Beam> ending = candidates.stream().map(beam -> new Beam(penalised(beam, length), beam.from(), beam.tokens()));
      source.ended = Stream.concat(source.ended.stream(), ending).sorted(BEST_FIRST).limit(how.getNumBeams()).toList();
    }
  }

  private boolean ends(Beam beam) {
    int length = beam.tokens().size();
    return length == newTokens || how.getEosTokenIdList().contains(beam.tokens().get(length - 1).intValue());
  }

  private float penalised(Beam beam, int length) {
    return (float) (beam.score() / Math.pow(length, how.getLengthPenalty()));
  }

  private Result best(List<Source> sources) {
    int returned = how.getNumReturnSequences();
    long[] ids = new long[sources.size() * returned * newTokens];
    Arrays.fill(ids, how.getPadTokenId());
    Floats scores = Floats.zeros(sources.size() * returned);
    for (int row = 0; row < scores.data().length; row++) {
      Beam beam = sources.get(row / returned).ended.get(row % returned);
      scores.data()[row] = beam.score();
      for (int i = 0; i < beam.tokens().size(); i++) {
        ids[row * newTokens + i] = beam.tokens().get(i);
      }
    }
    return new Result(new Longs(ids, scores.data().length, newTokens), scores);
  }

  private static float[] logSoftmax(Floats logits, int row) {
    float[] x = Arrays.copyOfRange(logits.data(), row * logits.last(), (row + 1) * logits.last());
    float peak = Float.NEGATIVE_INFINITY;
    for (float value : x) {
      peak = Math.max(peak, value);
    }
    float sum = 0;
    for (float value : x) {
      sum += (float) Math.exp(value - peak);
    }
    for (int i = 0; i < x.length; i++) {
      x[i] = x[i] - peak - (float) Math.log(sum);
    }
    return x;
  }
}

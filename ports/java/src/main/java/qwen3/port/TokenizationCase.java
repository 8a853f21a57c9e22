package qwen3.port;

import com.google.protobuf.ByteString;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import qwen3.golden.v1.Batch;
import qwen3.golden.v1.Conversation;
import qwen3.golden.v1.Decoding;
import qwen3.golden.v1.Encoding;
import qwen3.golden.v1.Tokenization;

/** A tokenizer on the texts, ids, batches and conversations of a case: what is given is copied, the rest filled in. */
final class TokenizationCase {
  private TokenizationCase() {}

  static void run(Golden golden, Tokenizer tokenizer, Recorder recorder) throws IOException {
    Tokenization given = golden.message().getTokenization();
    Tokenization.Builder made = Tokenization.newBuilder();
    List<String> stages = new ArrayList<>();
    if (given.getEncodingCount() > 0) {
      stages.addAll(List.of("segments", "normalized", "pre_tokens", "symbols", "merges", "ids", "offsets"));
      given.getEncodingList().forEach(one -> made.addEncoding(encode(one, tokenizer)));
    }
    if (given.getDecodingCount() > 0) {
      stages.addAll(List.of("pieces", "decoded", "chunks"));
      given.getDecodingList().forEach(one -> made.addDecoding(decode(one, tokenizer)));
    }
    if (given.getBatchCount() > 0) {
      stages.add("batch");
      given.getBatchList().forEach(one -> made.addBatch(batch(one, tokenizer)));
    }
    if (given.getConversationCount() > 0) {
      stages.addAll(List.of("rendered", "rendered_ids"));
      requireTemplate(tokenizer);
      given.getConversationList().forEach(one -> made.addConversation(converse(one, tokenizer)));
    }
    recorder.finish(made.build(), stages);
  }

  private static Encoding encode(Encoding given, Tokenizer tokenizer) {
    return tokenizer.encode(given.getText(), given.getSplitSpecialTokens()).toBuilder().setName(given.getName()).build();
  }

  private static Decoding decode(Decoding given, Tokenizer tokenizer) {
    Decoding.Builder made = given.toBuilder().clearPiece().clearText().clearChunk();
    Decoder decoder = new Decoder();
    ByteString all = ByteString.EMPTY;
    for (int id : given.getIdList()) {
      ByteString piece = tokenizer.piece(id);
      ByteString visible = given.getSkipSpecialTokens() && tokenizer.isSpecial(id) ? ByteString.EMPTY : piece;
      made.addPiece(piece).addChunk(decoder.push(visible));
      all = all.concat(visible);
    }
    return made.setText(Decoder.text(all)).addChunk(decoder.finish()).build();
  }

  private static Batch batch(Batch given, Tokenizer tokenizer) {
    List<List<Integer>> rows = new ArrayList<>();
    int length = 0;
    for (String text : given.getTextList()) {
      List<Integer> ids = tokenizer.encode(text);
      int cut = given.getMaxLength() == 0 ? 0 : Math.max(0, ids.size() - given.getMaxLength());
      boolean left = given.getTruncationSide().equals("left");
      rows.add(left ? ids.subList(cut, ids.size()) : ids.subList(0, ids.size() - cut));
      length = Math.max(length, ids.size() - cut);
    }
    int multiple = Math.max(1, given.getPadToMultipleOf());
    length = (length + multiple - 1) / multiple * multiple;
    Batch.Builder made = given.toBuilder().clearRow();
    for (List<Integer> ids : rows) {
      List<Integer> padding = Collections.nCopies(length - ids.size(), tokenizer.message().getPadId());
      List<Integer> hidden = Collections.nCopies(padding.size(), 0);
      List<Integer> seen = Collections.nCopies(ids.size(), 1);
      boolean left = given.getPaddingSide().equals("left");
      made.addRowBuilder()
          .addAllInputId(left ? padding : ids)
          .addAllInputId(left ? ids : padding)
          .addAllAttentionMask(left ? hidden : seen)
          .addAllAttentionMask(left ? seen : hidden);
    }
    return made.build();
  }

  private static Conversation converse(Conversation given, Tokenizer tokenizer) {
    String rendered =
        ChatTemplate.render(given.getMessages(), given.getTools(), given.getAddGenerationPrompt(), given.getThinking());
    return given.toBuilder().setRendered(rendered).clearId().addAllId(tokenizer.encode(rendered)).build();
  }

  private static void requireTemplate(Tokenizer tokenizer) {
    byte[] template = tokenizer.message().getChatTemplate().getBytes(StandardCharsets.UTF_8);
    if (!HexFormat.of().formatHex(Golden.sha256(template).toByteArray()).equals(ChatTemplate.KNOWN)) {
      throw new UnsupportedOperationException("this chat template");
    }
  }
}

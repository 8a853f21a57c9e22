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
    Tokenization input = golden.message().getTokenization();
    Tokenization.Builder result = Tokenization.newBuilder();
    List<String> stages = new ArrayList<>();
    if (input.getEncodingCount() > 0) {
      stages.addAll(List.of("segments", "normalized", "pre_tokens", "symbols", "merges", "ids", "offsets"));
      input.getEncodingList().forEach(encoding -> result.addEncoding(encode(encoding, tokenizer)));
    }
    if (input.getDecodingCount() > 0) {
      stages.addAll(List.of("pieces", "decoded", "chunks"));
      input.getDecodingList().forEach(decoding -> result.addDecoding(decode(decoding, tokenizer)));
    }
    if (input.getBatchCount() > 0) {
      stages.add("batch");
      input.getBatchList().forEach(batch -> result.addBatch(batch(batch, tokenizer)));
    }
    if (input.getConversationCount() > 0) {
      stages.addAll(List.of("rendered", "rendered_ids"));
      requireTemplate(tokenizer);
      input.getConversationList().forEach(conversation -> result.addConversation(converse(conversation, tokenizer)));
    }
    recorder.finish(result.build(), stages);
  }

  private static Encoding encode(Encoding input, Tokenizer tokenizer) {
    return tokenizer.encode(input.getText(), input.getSplitSpecialTokens()).toBuilder().setName(input.getName()).build();
  }

  private static Decoding decode(Decoding input, Tokenizer tokenizer) {
    Decoding.Builder result = input.toBuilder().clearPiece().clearText().clearChunk();
    Decoder decoder = new Decoder();
    ByteString all = ByteString.EMPTY;
    for (int id : input.getIdList()) {
      ByteString piece = tokenizer.piece(id);
      ByteString visible = input.getSkipSpecialTokens() && tokenizer.isSpecial(id) ? ByteString.EMPTY : piece;
      result.addPiece(piece).addChunk(decoder.push(visible));
      all = all.concat(visible);
    }
    return result.setText(Decoder.text(all)).addChunk(decoder.finish()).build();
  }

  private static Batch batch(Batch input, Tokenizer tokenizer) {
    List<List<Integer>> rows = new ArrayList<>();
    int length = 0;
    for (String text : input.getTextList()) {
      List<Integer> ids = tokenizer.encode(text);
      int cut = input.getMaxLength() == 0 ? 0 : Math.max(0, ids.size() - input.getMaxLength());
      boolean left = input.getTruncationSide().equals("left");
      rows.add(left ? ids.subList(cut, ids.size()) : ids.subList(0, ids.size() - cut));
      length = Math.max(length, ids.size() - cut);
    }
    int multiple = Math.max(1, input.getPadToMultipleOf());
    length = (length + multiple - 1) / multiple * multiple;
    Batch.Builder result = input.toBuilder().clearRow();
    for (List<Integer> ids : rows) {
      List<Integer> padding = Collections.nCopies(length - ids.size(), tokenizer.message().getPadId());
      List<Integer> hidden = Collections.nCopies(padding.size(), 0);
      List<Integer> real = Collections.nCopies(ids.size(), 1);
      boolean left = input.getPaddingSide().equals("left");
      result.addRowBuilder()
          .addAllInputId(left ? padding : ids)
          .addAllInputId(left ? ids : padding)
          .addAllAttentionMask(left ? hidden : real)
          .addAllAttentionMask(left ? real : hidden);
    }
    return result.build();
  }

  private static Conversation converse(Conversation input, Tokenizer tokenizer) {
    String rendered =
        ChatTemplate.render(input.getMessages(), input.getTools(), input.getAddGenerationPrompt(), input.getThinking());
    return input.toBuilder().setRendered(rendered).clearId().addAllId(tokenizer.encode(rendered)).build();
  }

  private static void requireTemplate(Tokenizer tokenizer) {
    byte[] template = tokenizer.message().getChatTemplate().getBytes(StandardCharsets.UTF_8);
    if (!HexFormat.of().formatHex(Golden.sha256(template).toByteArray()).equals(ChatTemplate.KNOWN)) {
      throw new UnsupportedOperationException("this chat template");
    }
  }
}

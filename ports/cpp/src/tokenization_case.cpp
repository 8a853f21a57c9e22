// A tokenizer on the texts, ids, batches and conversations of a case: what is given is copied, the rest filled in.
#include <algorithm>

#include "cases.hpp"
#include "sha256.hpp"

namespace port {
namespace {

void decode(pb::Decoding& decoding, const Tokenizer& tokenizer) {
  decoding.clear_piece();
  decoding.clear_chunk();
  Stream stream;
  std::string text;
  auto emit = [&](const std::string& chunk) {
    decoding.add_chunk(chunk);
    text += chunk;
  };
  for (uint32_t id : decoding.id()) {
    const std::string& piece = tokenizer.piece(id);
    decoding.add_piece(piece);
    emit(stream.push(decoding.skip_special_tokens() && tokenizer.is_special(id) ? "" : piece));
  }
  emit(stream.finish());
  decoding.set_text(text);
}

void pad(pb::Batch& batch, const Tokenizer& tokenizer) {
  std::vector<std::vector<uint32_t>> rows;
  size_t length = 0;
  for (const std::string& text : batch.text()) {
    pb::Encoding encoding = tokenizer.encode(text);
    std::vector<uint32_t> ids(encoding.id().begin(), encoding.id().end());
    if (batch.max_length() && ids.size() > batch.max_length()) {
      auto cut = static_cast<std::ptrdiff_t>(ids.size() - batch.max_length());
      if (batch.truncation_side() == "left") ids.erase(ids.begin(), ids.begin() + cut); else ids.erase(ids.end() - cut, ids.end());
    }
    length = std::max(length, ids.size());
    rows.push_back(std::move(ids));
  }
  size_t multiple = std::max<size_t>(1, batch.pad_to_multiple_of());
  length = (length + multiple - 1) / multiple * multiple;
  batch.clear_row();
  for (std::vector<uint32_t>& ids : rows) {
    bool left = batch.padding_side() == "left";
    std::vector<uint32_t> real(ids.size(), 1);
    ids.insert(left ? ids.begin() : ids.end(), length - real.size(), tokenizer.message().pad_id());
    real.insert(left ? real.begin() : real.end(), length - real.size(), 0);
    pb::BatchRow& row = *batch.add_row();
    row.mutable_input_id()->Add(ids.begin(), ids.end());
    row.mutable_attention_mask()->Add(real.begin(), real.end());
  }
}

void converse(pb::Conversation& conversation, const Tokenizer& tokenizer) {
  conversation.set_rendered(render(conversation));
  *conversation.mutable_id() = tokenizer.encode(conversation.rendered()).id();
}

void require_template(const Tokenizer& tokenizer) {
  std::string hexadecimal;
  for (char b : sha256(tokenizer.message().chat_template())) {
    for (int digit : {static_cast<uint8_t>(b) >> 4, b & 15}) hexadecimal += "0123456789abcdef"[digit];
  }
  if (hexadecimal != kTemplate) throw Unsupported("this chat template");
}

}  // namespace

void run_tokenization(const Golden& golden, const Tokenizer& tokenizer, Recorder& recorder) {
  pb::Tokenization result = golden.message.tokenization();
  std::vector<std::string> stages;
  auto delivers = [&](bool there, std::initializer_list<const char*> names) {
    if (there) stages.insert(stages.end(), names.begin(), names.end());
  };
  delivers(result.encoding_size(), {"segments", "normalized", "pre_tokens", "symbols", "merges", "ids", "offsets"});
  delivers(result.decoding_size(), {"pieces", "decoded", "chunks"});
  delivers(result.batch_size(), {"batch"});
  delivers(result.conversation_size(), {"rendered", "rendered_ids"});
  if (result.conversation_size()) require_template(tokenizer);
  for (pb::Encoding& encoding : *result.mutable_encoding()) {
    pb::Encoding made = tokenizer.encode(encoding.text(), encoding.split_special_tokens());
    made.set_name(encoding.name());
    encoding = std::move(made);
  }
  for (pb::Decoding& decoding : *result.mutable_decoding()) decode(decoding, tokenizer);
  for (pb::Batch& batch : *result.mutable_batch()) pad(batch, tokenizer);
  for (pb::Conversation& conversation : *result.mutable_conversation()) converse(conversation, tokenizer);
  recorder.finish(result, stages);
}

}  // namespace port

// What a case asks for, by its mode.
#pragma once

#include "checkpoints.hpp"
#include "tokenizer.hpp"

namespace port {

void run_op(const Golden& golden, Recorder& recorder);
// The encoder once, then the decoder's steps with a cache, then free generation where the case has that.
void run_network(const Golden& golden, Checkpoints& checkpoints, Recorder& recorder);
void run_tokenization(const Golden& golden, const Tokenizer& tokenizer, Recorder& recorder);

}  // namespace port

// Writes the recording of a case while it is run: payloads as they come, metadata behind them.
#pragma once

#include <ostream>
#include <set>
#include <string>

#include "golden.hpp"

namespace port {

// Takes what the network computes in one forward, under the names of golden/taps.textproto.
class Tap {
 public:
  using Sink = std::function<void(const std::string&, const Stored&)>;

  Tap() = default;  // for runs that nobody records
  explicit Tap(Sink sink) : sink_(std::make_shared<Sink>(std::move(sink))) {}

  template <class T>
  void operator()(const std::string& name, const Array<T>& value) const {
    if (sink_) (*sink_)(prefix_ + name, stored(value));
  }

  // A tap whose names stand below a prefix, as "decoder.layers.3".
  Tap below(const std::string& prefix) const {
    Tap tap = *this;
    tap.prefix_ += prefix + ".";
    return tap;
  }

 private:
  std::shared_ptr<Sink> sink_;
  std::string prefix_;
};

class Recorder {
 public:
  Recorder(const Golden& golden, std::ostream& out);

  Tap at(uint32_t step);  // takes what the case asks for and lets the rest go by
  void copy_inputs();     // an op's parameters, too, but not the weights that a request brings for a network
  void write(const std::string& name, uint32_t step, const Stored& value);
  template <class T>
  void write(const std::string& name, uint32_t step, const Array<T>& value) { write(name, step, stored(value)); }

  void finish();  // of a network that was run in float32
  void finish(const pb::Tokenization& tokenization, const std::vector<std::string>& stages);  // holds no tensors

 private:
  void finish(pb::Arithmetic arithmetic, pb::Backend backend, const std::vector<std::string>& materialised);
  void put(const pb::Recording& part);

  const Golden& golden_;
  std::ostream& out_;
  pb::Recording metadata_;
  std::set<std::string> patterns_;
  uint64_t payload_bytes_ = 0;
};

}  // namespace port

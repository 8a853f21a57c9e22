// Runs golden cases and writes what the port makes of them, for `qwen3-parity check`; or answers requests over a pipe.
#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

#include "cases.hpp"

namespace port {
namespace {

namespace fs = std::filesystem;

constexpr char kUsage[] =
    "run GOLDEN OUT.pb           one case\n"
    "run-all golden/cases OUT    every case below a folder, as OUT/<folder>/<name>.pb; those not ported are named\n"
    "answer                      requests on standard input, for qwen3-parity conformance\n";

// What a case may name: files beside it, or what came with its request.
struct Sources {
  Checkpoints& checkpoints;
  std::function<Golden(const std::string&)> prior;           // the golden of a case
  std::function<std::string(const std::string&)> tokenizer;  // the bytes of a message

  static Sources beside(const fs::path& cases, Checkpoints& checkpoints) {
    auto file = [cases](const char* folder, const std::string& name) { return cases.parent_path() / folder / (name + ".pb"); };
    return {checkpoints, [=](auto& name) { return read(cases / (name + ".pb")); }, [=](auto& name) { return content(file("tokenizers", name)); }};
  }
};

void run(const Golden& golden, const Sources& sources, std::ostream& out) {
  Recorder recorder(golden, out);
  const pb::Case& testcase = golden.testcase();
  switch (testcase.mode()) {
    case pb::PLUMBING:  // the format's self-test: what was read is written again
      for (const auto& [name, step, value] : golden.tensors) recorder.write(name, step, value);
      break;
    case pb::OP:
      run_op(golden, recorder);
      break;
    case pb::ENCODER: case pb::CAUSAL: case pb::ENCODER_DECODER: case pb::BLOCK:
      if (!testcase.after().empty()) {  // run first on the same stacks, and not recorded
        Golden earlier = sources.prior(testcase.after());
        std::ostringstream dropped;
        Recorder unread(earlier, dropped);
        run_network(earlier, sources.checkpoints, unread);
      }
      run_network(golden, sources.checkpoints, recorder);
      break;
    case pb::TOKENIZATION:
      if (testcase.checkpoint().empty()) throw std::runtime_error(testcase.name() + " names no tokenizer");
      return run_tokenization(golden, Tokenizer(sources.tokenizer(testcase.checkpoint(0).name())), recorder);
    default:
      throw Unsupported("mode " + pb::Mode_Name(testcase.mode()));
  }
  recorder.finish();
}

// A file has its name only when it is whole.
void run_file(const Golden& golden, Checkpoints& checkpoints, const fs::path& cases, const fs::path& to) {
  fs::path partial = to.string() + ".partial";
  if (to.has_parent_path()) fs::create_directories(to.parent_path());
  try {
    std::ofstream out(partial, std::ios::binary);
    run(golden, Sources::beside(cases, checkpoints), out);
    out.close();
    fs::rename(partial, to);
  } catch (...) {
    fs::remove(partial);
    throw;
  }
}

// The nearest folder above a file that stands beside checkpoints.
fs::path cases_of(const fs::path& file) {
  fs::path folder = file.parent_path();
  while (folder.has_relative_path() && !fs::is_directory(folder.parent_path() / "checkpoints")) folder = folder.parent_path();
  return folder;
}

int run_all(const fs::path& cases, const fs::path& to) {
  Checkpoints checkpoints(cases.parent_path() / "checkpoints");
  std::vector<fs::path> files;
  for (const auto& file : fs::recursive_directory_iterator(cases)) {
    if (file.path().extension() == ".pb") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  int recorded = 0, failed = 0;
  for (const fs::path& file : files) {
    fs::path name = fs::relative(file, cases);
    try {
      run_file(read(file), checkpoints, cases, to / name);
      recorded++;
    } catch (const Unsupported& error) {
      std::cout << name.string() << ": the port does not have " << error.what() << "\n";
    } catch (const std::exception& error) {
      std::cerr << error.what() << "\n";
      failed++;
    }
  }
  std::cout << recorded << " of " << files.size() << " cases recorded in " << to.string() << "\n";
  return recorded == 0 || failed > 0 ? 2 : 0;
}

// What a request brings is all that its case needs: weights are tensors of its recording.
pb::ConformanceAnswer answer(const std::string& bytes) {
  pb::ConformanceRequest request;
  pb::ConformanceAnswer answer;
  try {
    if (!request.ParseFromString(bytes)) throw std::runtime_error("the request is no protobuf message of this schema");
    answer.set_id(request.id());
    Checkpoints none("");
    std::ostringstream out;
    auto prior = [&](const std::string&) { return parse(request.prior(), "prior"); };
    run(parse(request.recording(), "request"), {none, prior, [&](const std::string&) { return request.tokenizer(); }}, out);
    answer.set_recording(out.str());
  } catch (const Unsupported& error) {
    answer.set_unsupported(error.what());
  } catch (const std::exception& error) {
    answer.set_error(error.what());
  }
  return answer;
}

// Each message has its size in front, four bytes, little-endian.
void answer_all(std::istream& in, std::ostream& out) {
  uint32_t size;
  while (in.read(reinterpret_cast<char*>(&size), 4)) {
    std::string message(size, '\0');
    in.read(message.data(), size);
    message = answer(message).SerializeAsString();
    size = static_cast<uint32_t>(message.size());
    out.write(reinterpret_cast<char*>(&size), 4);
    out << message << std::flush;
  }
}

}  // namespace
}  // namespace port

// Exit codes: 0 recorded, 1 the port does not have this case, 2 it cannot be read or the arguments are wrong.
int main(int count, char** arguments) {
  using namespace port;
  std::string verb = count > 1 ? arguments[1] : "";
  try {
    if (verb == "answer" && count == 2) {
      answer_all(std::cin, std::cout);
    } else if (verb == "run-all" && count == 4) {
      return run_all(fs::absolute(arguments[2]).lexically_normal(), arguments[3]);
    } else if (verb == "run" && count == 4) {
      fs::path file = fs::absolute(arguments[2]).lexically_normal(), cases = cases_of(file);
      Checkpoints checkpoints(cases.parent_path() / "checkpoints");
      run_file(read(file), checkpoints, cases, arguments[3]);
    } else {
      std::cerr << kUsage;
      return 2;
    }
  } catch (const Unsupported& error) {
    std::cerr << error.what() << "\n";
    return 1;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}

#include "tests/end_to_end/program.h"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "muster/base/error.h"
#include "muster/base/file_system.h"

namespace muster::testing {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(5);

// The content of a process's file in /proc; empty if it is gone, or ends while it is read.
std::string process_file(pid_t pid, const std::string& name) {
  try {
    return read_file("/proc/" + std::to_string(pid) + "/" + name);
  } catch (const std::ios_base::failure&) {
    return "";
  }
}

// "TF_CONFIG=..." of a running process; empty when it is gone.
std::string variable_of(pid_t pid, const std::string& name) {
  const std::string environment = process_file(pid, "environ");
  std::istringstream stream(environment);
  for (std::string entry; std::getline(stream, entry, '\0');) {
    if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
  }
  return "";
}

// Whether a process has a handler of its own for the signal (proc(5), "SigCgt").
bool handles(pid_t pid, int number) {
  const std::string status = process_file(pid, "status");
  const std::string name = "SigCgt:";
  const size_t at = status.find(name);
  if (at == std::string::npos) return false;
  const uint64_t mask = std::stoull(status.substr(at + name.size()), nullptr, 16);
  return (mask >> (number - 1) & 1U) != 0;
}

// Variables of this process that a program must not have: the variables that a runner set for this
// one alone, and those that decide about clusters and threads.
std::vector<std::string> kept_back() {
  std::vector<std::string> names = {"TF_CONFIG", "OMP_NUM_THREADS"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string variable = *entry;
    if (variable.starts_with("GTEST_")) names.push_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

launch::ChildSpec spec_of(const Words& command, const Variables& environment, int out) {
  launch::ChildSpec spec{.argv = command,
                         .environment = {environment.begin(), environment.end()},
                         .without = kept_back(),
                         .out = out,
                         .err = out,
                         .group = launch::ChildSpec::Group::kOwn,
                         .dies_with_parent = true};
  // One thread for each task, so that bits do not depend on the machine's cores.
  if (!environment.contains("MUSTER_THREADS")) spec.environment.emplace_back("MUSTER_THREADS", "1");
  return spec;
}

// Both outputs of a program; closed here when the program has its own.
class OutputFile {
 public:
  explicit OutputFile(const std::string& path)
      : descriptor(::open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600)) {
    if (descriptor < 0) throw from_errno(errno, "cannot open " + path);
  }
  ~OutputFile() { ::close(descriptor); }
  const int descriptor;
};

}  // namespace

std::string binary(const std::string& name) {
  const char* folder = std::getenv("MUSTER_BIN_DIR");
  if (folder == nullptr) {
    throw not_found("MUSTER_BIN_DIR is not set", "run this test through ctest");
  }
  return join_path(folder, name);
}

Program::Program(const Words& command, const Variables& environment)
    : child_(spec_of(command, environment, OutputFile(directory_ / "output").descriptor)) {}

Program::~Program() {
  // Tasks of `muster run` lead groups of their own, and die with it.
  if (running()) ::kill(-child_.pid(), SIGKILL);
}

bool Program::running() { return !child_.status(); }

int Program::code() {
  const launch::ExitStatus status = child_.status().value();
  return status.signal != 0 ? -status.signal : status.code;
}

int Program::wait(std::chrono::milliseconds deadline) {
  if (!child_.wait_for(deadline)) {
    throw Error(ErrorKind::kTimeout, "the program still runs after " +
                                         std::to_string(deadline.count()) + " ms; it printed:\n" +
                                         output());
  }
  return code();
}

void Program::wait_for(const std::string& text, std::chrono::milliseconds deadline) {
  if (says(text, deadline)) return;
  throw Error(ErrorKind::kTimeout, "the program ended (" + std::to_string(code()) +
                                       ") without the text '" + text + "'; it printed:\n" +
                                       output());
}

bool Program::says(const std::string& text, std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  for (;;) {
    const bool over = !running();
    if (output().find(text) != std::string::npos) return true;
    if (over) return false;
    if (Clock::now() >= end) {
      throw Error(ErrorKind::kTimeout,
                  "the time is over without the text '" + text + "'; it printed:\n" + output());
    }
    std::this_thread::sleep_for(kLook);
  }
}

void Program::signal(int number) { child_.signal(number); }

void Program::wait_until_it_handles(int number, std::chrono::milliseconds deadline) {
  const auto end = Clock::now() + deadline;
  while (running() && !handles(pid(), number)) {
    if (Clock::now() >= end) {
      throw Error(ErrorKind::kTimeout, "the program has no handler for signal " +
                                           std::to_string(number) + "; it printed:\n" + output());
    }
    std::this_thread::sleep_for(kLook);
  }
}

std::string Program::output() const { return read_file(directory_ / "output"); }

std::vector<pid_t> Program::children() const {
  std::istringstream stream(process_file(pid(), "task/" + std::to_string(pid()) + "/children"));
  return {std::istream_iterator<pid_t>(stream), {}};
}

pid_t Program::task(const std::string& type, int index) const {
  for (const pid_t child : children()) {
    const auto config = nlohmann::json::parse(variable_of(child, "TF_CONFIG"), nullptr, false);
    if (config.is_discarded()) continue;
    if (config["task"]["type"] == type && config["task"]["index"] == index) return child;
  }
  throw not_found("there is no task " + type + " " + std::to_string(index) + "; printed:\n" +
                  output());
}

bool Program::signal_task(const std::string& type, int index, int number) {
  try {
    return ::kill(task(type, index), number) == 0;
  } catch (const Error&) {
    if (running()) throw;
    return false;
  }
}

Ran run(const Words& command, const Variables& environment) {
  Program program(command, environment);
  const int code = program.wait();
  return {code, program.output()};
}

std::string result_of(const Ran& ran) {
  const std::string line = "result: ";
  const size_t at = ran.output.find(line);
  EXPECT_NE(at, std::string::npos) << ran.output;
  if (at == std::string::npos) return "{}";
  const size_t begin = at + line.size();
  return ran.output.substr(begin, ran.output.find('\n', begin) - begin);
}

double number_behind(const std::string& output, const std::string& text) {
  const size_t at = output.find(text);
  if (at == std::string::npos) throw internal_error("no \"" + text + "\" in " + output);
  return std::stod(output.substr(at + text.size()));
}

void until_in_time(const std::function<bool()>& attempt) {
  constexpr int kAttempts = 5;
  for (int i = 0; i < kAttempts; ++i) {
    if (attempt()) return;
  }
  FAIL() << "the programs ended before anything was done to them, " << kAttempts << " times";
}

bool alive(pid_t pid) {
  const std::string status = process_file(pid, "stat");
  // "123 (name) S ...": the name may hold anything except the text after the last parenthesis.
  const size_t state = status.rfind(") ");
  return state != std::string::npos && status[state + 2] != 'Z' && status[state + 2] != 'X';
}

void wait_until_gone(const std::vector<pid_t>& processes) {
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (std::any_of(processes.begin(), processes.end(), alive)) {
    if (Clock::now() >= end) throw Error(ErrorKind::kTimeout, "a process is still alive");
    std::this_thread::sleep_for(kLook);
  }
}

const std::string& digits() {
  static const TempDirectory directory;
  static const std::string path = [] {
    const Ran made = run({binary("muster"), "data", "digits", "--out", directory / "digits",
                          "--train", "2000", "--test", "500"});
    if (made.code != 0) throw internal_error("muster data digits failed: " + made.output);
    return directory / "digits";
  }();
  return path;
}

std::string pets(int count, bool labelled) {
  std::string rows = labelled ? "height,colour,kind\n" : "height,colour\n";
  for (int i = 0; i < count; ++i) {
    const bool dog = i % 2 == 1;
    rows += std::to_string((dog ? 50 : 25) + i % 7) + (i % 3 == 0 ? ",grey" : ",brown");
    rows += labelled ? (dog ? ",dog\n" : ",cat\n") : "\n";
  }
  return rows;
}

Words mnist(const std::string& model_dir, const Words& flags) {
  Words words = {binary("mnist"), "--data_dir=" + digits(), "--model_dir=" + model_dir};
  words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

Words muster_run(const Words& options, const Words& program) {
  Words words = {binary("muster"), "run"};
  words.insert(words.end(), options.begin(), options.end());
  words.push_back("--");
  words.insert(words.end(), program.begin(), program.end());
  return words;
}

Variables worker_of(const std::vector<std::string>& addresses, int index) {
  const nlohmann::json config = {{"cluster", {{"worker", addresses}}},
                                 {"task", {{"type", "worker"}, {"index", index}}}};
  return {{"TF_CONFIG", config.dump()}};
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file.flush()) throw internal_error("cannot write " + path);
}

std::string checkpoint_path(const std::string& model_dir, int64_t step) {
  return model_dir + "/model.ckpt-" + std::to_string(step) + ".safetensors";
}

bool has_checkpoint(const std::string& model_dir, int64_t step) {
  return local_file_system().exists(checkpoint_path(model_dir, step)).value();
}

std::string checkpoint_bytes(const std::string& model_dir, int64_t step) {
  const std::string bytes = read_file(checkpoint_path(model_dir, step));
  EXPECT_FALSE(bytes.empty()) << "there is no " << checkpoint_path(model_dir, step);
  return bytes;
}

}  // namespace muster::testing

#include "benchmarks/support/python_peer.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

namespace muster::bench {

Contestant python_peer(const std::string& name, const std::vector<std::string>& arguments) {
  Contestant contestant{.name = name,
                        .argv = {BENCH_PYTHON, BENCH_PEERS "/" + arguments.front()},
                        // As in muster/base/allocator.h: freed memory stays with the program.
                        .environment = {{"LD_PRELOAD", BENCH_MIMALLOC},
                                        {"MIMALLOC_RESERVE_OS_MEMORY", "8GiB"},
                                        {"LD_LIBRARY_PATH", BENCH_OPENBLAS_DIR},
                                        {"PYTHONDONTWRITEBYTECODE", "1"}}};
  contestant.argv.insert(contestant.argv.end(), arguments.begin() + 1, arguments.end());
  return contestant;
}

bool in_environment(const std::string& name, Contestant* contestant) {
  const std::filesystem::path python = "build/peers/" + name + "/bin/python";
  if (!std::filesystem::exists(python)) {
    fmt::print("{} is left out: ./dev peers {} makes its environment.\n", contestant->name, name);
    return false;
  }
  contestant->argv[0] = std::filesystem::absolute(python);
  std::erase_if(contestant->environment,
                [](const auto& variable) { return variable.first == "LD_LIBRARY_PATH"; });
  return true;
}

void add_peer(const std::string& name, const std::string& environment,
              const std::vector<std::string>& arguments, int64_t rows,
              std::vector<Contestant>* contestants) {
  Contestant peer = python_peer(name, arguments);
  peer.rows = rows;
  if (in_environment(environment, &peer)) contestants->push_back(std::move(peer));
}

void add_tf_data(const std::vector<std::string>& arguments, int64_t rows,
                 std::vector<Contestant>* contestants) {
  std::vector<std::string> words{"input_tensorflow.py"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  add_peer("tf.data of TensorFlow 2.15", "tensorflow", words, rows, contestants);
  add_peer("tf.data of today", "today", words, rows, contestants);
}

bool has_python(const std::string& module, const std::string& package) {
  const std::string command =
      fmt::format("{} -c 'import {}' >/dev/null 2>&1", BENCH_PYTHON, module);
  if (std::system(command.c_str()) == 0) return true;
  fmt::print("{} is not here (apt-get install {}): its rows are left out.\n", module, package);
  return false;
}

}  // namespace muster::bench

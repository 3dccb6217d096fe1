// Runs one fuzz target on inputs that are the same every time, without libFuzzer:
//   fuzz_NAME_test [--runs=N]       the first N inputs
//   fuzz_NAME_test FILE...          these files
//   fuzz_NAME_test --seeds=FOLDER   writes the seeds, to begin a corpus with
// When one makes the target crash, it is kept as crash-NAME-INDEX in the working directory.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "muster/base/strings.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

namespace muster::fuzz {
namespace {

constexpr uint64_t kRuns = 12000;
constexpr uint64_t kRunsOfAttacks = 60;
// Seeds that others have written: some of each folder, none longer than this.
constexpr size_t kSeedsOfFolder = 8;
constexpr uint64_t kLongestSeed = 32768;

// The current input, for keep_input().
const std::string* current = nullptr;
std::string current_file;
std::string last_words;

// Calls nothing that a signal handler may not.
void keep_input() {
  if (current == nullptr) return;
  const int file = open(current_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  bool kept = file >= 0;
  kept = kept && write(file, current->data(), current->size()) >= 0;
  if (kept) kept = write(STDERR_FILENO, last_words.data(), last_words.size()) >= 0;
  current = nullptr;
}

void on_signal(int number) {
  keep_input();
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void watch_for_crashes() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_set_death_callback(keep_input);
  std::signal(SIGABRT, on_signal);
#else
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT})
    std::signal(number, on_signal);
#endif
}

void run_one(const std::string& input, const std::string& name) {
  current_file = name;
  last_words = "fuzz: the input that did it is kept: " + name + "\n";
  current = &input;
  try {
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
  } catch (...) {
    keep_input();
    throw;
  }
  current = nullptr;
}

// Files that others have written, if they exist.
std::vector<std::string> real_files() {
  std::vector<std::string> contents;
  const char* data = std::getenv("MUSTER_TEST_DATA");
  if (data == nullptr) return contents;
  FileSystem& files = local_file_system();
  for (const std::string& folder : seed_folders()) {
    const std::string dir = join_path(data, folder);
    size_t taken = 0;
    for (const std::string& name : files.list_directory(dir).value_or({})) {
      const std::string path = join_path(dir, name);
      const Result<FileInfo> info = files.info(path);
      if (taken == kSeedsOfFolder || !info.ok() || info.value().is_directory ||
          info.value().size > kLongestSeed) {
        continue;
      }
      contents.push_back(files.read_file(path).value());
      ++taken;
    }
  }
  return contents;
}

// "csv" of "build/tests/fuzz_csv_test".
std::string target_of(const std::string& program) {
  std::string name = program.substr(program.rfind('/') + 1);
  if (name.starts_with("fuzz_")) name.erase(0, 5);
  if (name.ends_with("_test")) name.erase(name.size() - 5);
  return name;
}

int run(const std::string& target, int argc, char** argv) {
  std::vector<std::string> all = seeds();
  for (std::string& content : real_files()) all.push_back(std::move(content));
  const std::vector<std::string> hostile =
      attacks == nullptr ? std::vector<std::string>() : attacks();
  if (all.empty()) {
    std::fprintf(stderr, "fuzz: %s has no seeds\n", target.c_str());
    return 1;
  }
  uint64_t runs = kRuns;
  bool files_given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--runs=")) {
      runs = std::strtoull(word.c_str() + 7, nullptr, 10);
    } else if (word.starts_with("--seeds=")) {
      const std::string folder = word.substr(8);
      local_file_system().make_directories(folder).value();
      all.insert(all.end(), hostile.begin(), hostile.end());
      for (size_t k = 0; k < all.size(); ++k) {
        local_file_system()
            .write_atomically(join_path(folder, "seed-" + std::to_string(k)), all[k])
            .value();
      }
      return 0;
    } else {
      files_given = true;
      run_one(local_file_system().read_file(word).value(), "crash-" + target + "-again");
    }
  }
  if (files_given) return 0;
  for (uint64_t index = 0; index < kRunsOfAttacks && !hostile.empty(); ++index) {
    run_one(make_input(hostile, target + " attacks", index),
            "crash-" + target + "-attack-" + std::to_string(index));
  }
  for (uint64_t index = 0; index < runs; ++index)
    run_one(make_input(all, target, index), "crash-" + target + "-" + std::to_string(index));
  std::printf("%s: %llu inputs from %zu seeds, %zu attacks\n", target.c_str(),
              static_cast<unsigned long long>(runs), all.size(), hostile.size());
  return 0;
}

}  // namespace
}  // namespace muster::fuzz

int main(int argc, char** argv) {
  const std::string target = muster::fuzz::target_of(argv[0]);
  muster::fuzz::watch_for_crashes();
  try {
    return muster::fuzz::run(target, argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fuzz: %s: %s\n", target.c_str(), error.what());
    return 1;
  }
}

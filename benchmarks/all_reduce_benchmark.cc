// How long an all-reduce of float32 takes on one machine: Muster's transports compared with Gloo,
// Open MPI and the physical limit. Contestants live as long as the benchmark and take turns: one
// works, the others sleep on a pipe.
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "benchmarks/all_reduce/commands.h"
#include "benchmarks/all_reduce/contestants.h"
#include "benchmarks/support/compare.h"
#include "benchmarks/support/scratch.h"
#include "muster/base/error.h"

extern char** environ;

namespace muster::bench {
namespace {

constexpr int kPatience = 120;  // seconds for a turn

struct Entry {
  std::string name;  // of the column
  std::string way;   // empty: Open MPI
};

// All ranks of one contestant.
class Group {
 public:
  // All ranks but the first are in the network namespace `elsewhere`, when one is named.
  Group(const Entry& entry, const std::string& program, const std::string& stem, int size,
        const std::string& elsewhere = "")
      : entry_(entry), size_(size) {
    for (int rank = 0; rank < size; ++rank) {
      for (const char* direction : {"in", "out"}) {
        const std::string path = pipe_of(stem, rank, direction);
        if (mkfifo(path.c_str(), 0600) != 0) throw from_errno(errno, "cannot make " + path);
      }
      in_.push_back(open_pipe(pipe_of(stem, rank, "in")));
      out_.push_back(open_pipe(pipe_of(stem, rank, "out")));
    }
    if (entry.way.empty()) {
      start({BENCH_MPIRUN, "--allow-run-as-root", "--bind-to", "none", "--oversubscribe", "-n",
             std::to_string(size),
             (std::filesystem::path(program).parent_path() / "all_reduce_over_mpi").string(),
             stem});
    } else {
      const int processes = entry.way == kOverThreads ? 1 : size;
      for (int rank = 0; rank < processes; ++rank) {
        std::vector<std::string> words = {program, "--take_part",        entry.way,
                                          stem,    std::to_string(rank), std::to_string(size)};
        if (rank > 0 && !elsewhere.empty()) {
          words.insert(words.begin(), {"ip", "netns", "exec", elsewhere});
        }
        start(std::move(words));
      }
    }
    for (int rank = 0; rank < size; ++rank) answer(rank);
  }
  Group(const Group&) = delete;
  ~Group() {
    const Command end;
    for (const int pipe : in_) write_all(pipe, &end, sizeof end);
    for (const pid_t process : processes_) waitpid(process, nullptr, 0);
    for (const int pipe : in_) close(pipe);
    for (const int pipe : out_) close(pipe);
  }

  // Seconds one all-reduce took, by the slowest rank.
  double take(const Command& command) {
    for (const int pipe : in_) write_all(pipe, &command, sizeof command);
    int64_t slowest = 0;
    for (int rank = 0; rank < size_; ++rank) slowest = std::max(slowest, answer(rank));
    return 1e-9 * static_cast<double>(slowest) / static_cast<double>(command.rounds);
  }

 private:
  void start(std::vector<std::string> words) {
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_t process = 0;
    if (const int failed =
            posix_spawnp(&process, words[0].c_str(), nullptr, nullptr, pointers.data(), environ)) {
      throw from_errno(failed, "cannot start " + words[0]);
    }
    processes_.push_back(process);
  }
  int64_t answer(int rank) {
    pollfd ready{.fd = out_[static_cast<size_t>(rank)], .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, kPatience * 1000) <= 0) {
      throw Error(ErrorKind::kTimeout, fmt::format("rank {} of \"{}\" said nothing for {} s", rank,
                                                   entry_.name, kPatience));
    }
    int64_t nanoseconds = 0;
    read_all(ready.fd, &nanoseconds, sizeof nanoseconds);
    return nanoseconds;
  }

  const Entry entry_;
  const int size_;
  std::vector<int> in_, out_;
  std::vector<pid_t> processes_;
};

std::string readable_bytes(int64_t bytes) {
  if (bytes < 1'000'000) return fmt::format("{} KB", bytes / 1000);
  return fmt::format("{} MB", bytes / 1'000'000);
}

std::string readable_time(double seconds) {
  if (seconds < 100e-6) return fmt::format("{:.1f} us", seconds * 1e6);
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  return fmt::format("{:.1f} ms", seconds * 1e3);
}

// Bytes this machine has sent over an interface.
int64_t bytes_sent(const std::string& interface) {
  std::ifstream file("/sys/class/net/" + interface + "/statistics/tx_bytes");
  int64_t bytes = 0;
  if (!(file >> bytes)) throw Error(ErrorKind::kUnavailable, "no interface " + interface);
  return bytes;
}

// Two ranks on two hosts: `interface` leads to the other one, a network namespace named `other`,
// and lets `rate` bytes a second through each way. benchmarks/network.sh makes both.
void run_over_network(const std::string& program, const std::string& interface, double rate,
                      const std::string& json) {
  fmt::print(
      "\n| bytes | contestant | time | ring bound | of the bound | bytes sent by a rank, of those "
      "of "
      "the bound |\n|---|---|---:|---:|---:|---:|\n");
  const Scratch directory;
  const std::vector<Entry> entries = {{"Muster, TCP", kOverTcp}, {"Gloo", kGloo}};
  std::vector<std::unique_ptr<Group>> groups;
  for (size_t e = 0; e < entries.size(); ++e) {
    groups.push_back(std::make_unique<Group>(
        entries[e], program, fmt::format("{}/net-{}-{}", directory.path, getpid(), e), 2, "other"));
  }
  for (const int64_t bytes : {100'000, 1'000'000, 10'000'000, 100'000'000}) {
    const Command command{bytes, std::clamp<int64_t>(40'000'000 / bytes, 1, 40)};
    for (size_t e = 0; e < entries.size(); ++e) {
      std::vector<double> times;
      const int64_t before = bytes_sent(interface);
      for (int sample = 0; sample < 3; ++sample) times.push_back(groups[e]->take(command));
      // Three more rounds before each sample do not count in time.
      const double rounds = 3.0 * static_cast<double>(command.rounds + 3);
      const double sent = static_cast<double>(bytes_sent(interface) - before) / rounds;
      // A rank sends 2 (p - 1) / p of the buffer: all of it, for two.
      const double bound = static_cast<double>(bytes) / rate;
      const double median = estimate(times).median;
      fmt::print("| {} | {} | {} | {} | {:.0f} % | {:.3f} |\n", readable_bytes(bytes),
                 entries[e].name, readable_time(median), readable_time(bound), 100 * bound / median,
                 sent / static_cast<double>(bytes));
      std::fflush(stdout);
      if (json.empty()) continue;
      const nlohmann::json line = {
          {"benchmark", "network"}, {"bytes", bytes}, {"contestant", entries[e].name},
          {"seconds", median},      {"bound", bound}, {"sent", sent}};
      std::ofstream(json, std::ios::app) << line.dump() << '\n';
    }
  }
}

void run(const std::string& program, int size, bool quick, const std::string& json) {
  std::vector<Entry> entries = {{"limit", kLimit},
                                {"Muster, own memory", kOwnMemory},
                                {"Muster, any memory", kAnyMemory},
                                {"Muster, threads", kOverThreads},
                                {"Muster, TCP", kOverTcp},
                                {"Gloo", kGloo}};
  if (std::filesystem::exists(BENCH_MPIRUN)) entries.push_back({"Open MPI", ""});
  fmt::print("\n### all_reduce over {} processes on one machine\n\n| bytes ", size);
  for (const Entry& entry : entries) fmt::print("| {} ", entry.name);
  fmt::print("| of the limit | Gloo / Muster | Open MPI / Muster |\n|---");
  for (size_t i = 0; i < entries.size() + 3; ++i) fmt::print("|---:");
  fmt::print("|\n");
  const Scratch directory;
  std::vector<std::unique_ptr<Group>> groups;
  for (size_t e = 0; e < entries.size(); ++e) {
    groups.push_back(std::make_unique<Group>(
        entries[e], program, fmt::format("{}/{}-{}-{}", directory.path, getpid(), size, e), size));
  }
  const int samples = quick ? 5 : 15;
  for (const int64_t bytes :
       {1'000, 16'000, 64'000, 256'000, 1'000'000, 4'000'000, 16'000'000, 100'000'000}) {
    // A turn of some milliseconds; slow contestants get fewer rounds below.
    const int64_t rounds = std::clamp<int64_t>(20'000'000 / bytes, 1, 400);
    std::vector<std::vector<double>> times(entries.size());
    for (int sample = 0; sample < samples; ++sample) {
      for (size_t i = 0; i < entries.size(); ++i) {
        // There and back, so that no one always follows the same other.
        const size_t e = sample % 2 == 0 ? i : entries.size() - 1 - i;
        times[e].push_back(groups[e]->take({bytes, rounds}));
      }
    }
    const auto times_of = [&](std::string_view way) -> const std::vector<double>& {
      const auto found = std::ranges::find(entries, way, &Entry::way);
      return times[static_cast<size_t>(found - entries.begin())];
    };
    const std::vector<double>& muster = times_of(kOwnMemory);
    nlohmann::json line = {{"benchmark", "all_reduce"}, {"processes", size}, {"bytes", bytes}};
    fmt::print("| {} ", readable_bytes(bytes));
    for (size_t e = 0; e < entries.size(); ++e) {
      const double median = estimate(times[e]).median;
      line["seconds"][entries[e].name] = median;
      fmt::print("| {} ", readable_time(median));
    }
    const Estimate of_limit = estimate_ratio(times_of(kLimit), muster);
    fmt::print("| {:.0f} % ({:.0f} to {:.0f}) ", 100 * of_limit.median, 100 * of_limit.low,
               100 * of_limit.high);
    fmt::print("| {:.1f} ", estimate_ratio(times_of(kGloo), muster).median);
    if (entries.back().way.empty()) {
      fmt::print("| {:.1f} |\n", estimate_ratio(times.back(), muster).median);
    } else {
      fmt::print("| |\n");
    }
    std::fflush(stdout);
    if (!json.empty()) std::ofstream(json, std::ios::app) << line.dump() << '\n';
  }
}

}  // namespace
}  // namespace muster::bench

int main(int argc, char** argv) {
  signal(SIGPIPE, SIG_IGN);
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 5 && words[0] == "--take_part") {
      muster::bench::take_part(words[1], words[2], std::stoi(words[3]), std::stoi(words[4]));
      return 0;
    }
    bool quick = false;
    std::string json, interface;
    double rate = 0;
    for (const std::string& word : words) {
      if (word.starts_with("--interface=")) interface = word.substr(12);
      if (word.starts_with("--rate=")) rate = std::stod(word.substr(7));
      if (word == "--quick") quick = true;
      if (word.starts_with("--json=")) json = word.substr(7);
    }
    if (!std::filesystem::exists(BENCH_MPIRUN)) {
      fmt::print(
          "Open MPI is not here (Debian: openmpi-bin libopenmpi-dev): its column is left out.\n");
    }
    const std::string program = std::filesystem::canonical("/proc/self/exe");
    if (!interface.empty()) {
      muster::bench::run_over_network(program, interface, rate, json);
      return 0;
    }
    for (const int size : {2, 4}) muster::bench::run(program, size, quick, json);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

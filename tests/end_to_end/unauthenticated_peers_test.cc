// UnauthenticatedPeers at the ports of a run that trains: they are refused, it costs the run
// little, and it computes the same bits.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "muster/base/free_ports.h"
#include "muster/net/socket_channel.h"
#include "tests/end_to_end/program.h"
#include "tests/support/every_call.h"
#include "tests/support/raw_connection.h"

namespace muster::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using namespace std::chrono_literals;

constexpr int64_t kSteps = 12;  // of the program
constexpr const char* kToken = "the token of the run under attack";

// All that somebody can do who reaches the coordinator's port and has no token, in rounds, again
// and again, until it is told to stop.
class UnauthenticatedPeers {
 public:
  explicit UnauthenticatedPeers(int port) : port_(port), thread_([this] { attack(); }) {}
  ~UnauthenticatedPeers() {
    stop_ = true;
    thread_.join();
  }

  int rounds() const { return rounds_; }
  // By call: how often it was answered that the caller is an unauthenticated peer.
  std::map<std::string, int> refusals() const {
    const std::lock_guard lock(mutex_);
    return refusals_;
  }
  // Calls that were answered as those of a task are. There must be none.
  std::vector<std::string> admitted() const {
    const std::lock_guard lock(mutex_);
    return admitted_;
  }

 private:
  void attack() {
    while (!stop_) {
      call_everything({});
      call_everything({.id = "theirs", .token = "a token that it made up"});
      knock();
      ++rounds_;
    }
  }

  void call_everything(const cluster::Job& job) {
    constexpr double kSeconds = 2;
    const plan::Caller who{"worker:1", 7};
    const std::string address = fmt::format("127.0.0.1:{}", port_);
    net::SocketChannel channel(address, job);
    for (const auto& [call, reply] : make_every_call(channel, who, kSeconds))
      note(call, reply.ok() ? "" : reply.error().message());
    constexpr int kWatches = 45;
    for (int i = 0; i < kWatches && !stop_; ++i) {
      const Status watched = channel.watch(who, [](const net::Reply&) {});
      note("watch", watched.ok() ? "" : watched.error().message());
    }
  }

  // What became of a call: the error it ended with, "" when there was none.
  void note(const std::string& call, const std::string& error) {
    const std::lock_guard lock(mutex_);
    if (error.empty()) {
      admitted_.push_back(call);
    } else if (error.find("refused this task") != std::string::npos) {
      ++refusals_[call];
    }
  }

  // Connections that say nothing, speak HTTP/1, or begin a proof that never ends. Most of them
  // stay.
  void knock() {
    constexpr int kOfEach = 8;
    constexpr size_t kMostOpen = 500;
    for (const char* from : {"127.0.0.1", "127.0.0.2"}) {
      for (int i = 0; i < kOfEach; ++i) {
        open_.emplace_back(port_, from);
        open_.emplace_back(port_, from).send("GET / HTTP/1.1\r\n\r\n");
        open_.emplace_back(port_, from).send(unfinished_proof());
      }
    }
    while (open_.size() > kMostOpen) open_.pop_front();
  }

  const int port_;
  std::atomic<bool> stop_ = false;
  std::atomic<int> rounds_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, int> refusals_;
  std::vector<std::string> admitted_;
  std::deque<RawConnection> open_;
  std::thread thread_;  // last: it uses what is above
};

// What the system says of a process: "VmRSS" in kB, "Threads".
int64_t status_of(pid_t pid, const std::string& name) {
  std::istringstream file(read_file(fmt::format("/proc/{}/status", pid)));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name + ":")) return std::stoll(line.substr(name.size() + 1));
  }
  return -1;
}

// The TCP ports at which a process listens.
std::set<int> listening_ports(pid_t pid) {
  std::set<std::string> sockets;  // "socket:[12345]"
  std::error_code gone;           // descriptors come and go
  for (const auto& entry :
       std::filesystem::directory_iterator(fmt::format("/proc/{}/fd", pid), gone))
    sockets.insert(std::filesystem::read_symlink(entry.path(), gone).string());
  std::set<int> ports;
  for (const char* table : {"tcp", "tcp6"}) {
    std::istringstream file(read_file(fmt::format("/proc/{}/net/{}", pid, table)));
    for (std::string line; std::getline(file, line);) {
      // "0: 0100007F:1F90 00000000:0000 0A ...": its address, the other's, the state, and the
      // tenth word is the number of the socket. 0A is LISTEN.
      std::istringstream words(line);
      std::vector<std::string> word;
      for (std::string one; words >> one;) word.push_back(one);
      if (word.size() < 10 || word[3] != "0A" || !sockets.contains("socket:[" + word[9] + "]"))
        continue;
      ports.insert(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
    }
  }
  return ports;
}

// A run of two workers, whose chief waits after each step until it is let go on.
class GatedRun {
 public:
  GatedRun() {
    for (const int port : ports_) addresses_.push_back("127.0.0.1:" + std::to_string(port));
  }

  int port() const { return ports_[0]; }
  Words command(const std::string& model = "model") const {
    return {binary("fault_victim"), "--model_dir=" + directory_ / model};
  }
  Variables variables(int index, const std::string& token = kToken) const {
    Variables all = worker_of(addresses_, index);
    all["MUSTER_JOB_TOKEN"] = token;
    all["FAULT_GATES"] = directory_.path();
    return all;
  }
  void open_gate(int64_t step) const { write_file(directory_ / std::to_string(step), ""); }
  std::string checkpoint() const { return checkpoint_bytes(directory_ / "model", kSteps); }

  // Trains to the end; `at_gate` is called after each step. `begin` is called when the chief waits
  // for the worker.
  void train(const std::function<void()>& begin, const std::function<void()>& at_gate) {
    Program chief(command(), variables(0));
    chief.wait_for("is waiting for", 30s);
    begin();
    Program worker(command(), variables(1));
    for (int64_t step = 1; step <= kSteps; ++step) {
      chief.wait_for(fmt::format("gate: {}\n", step), 60s);
      at_gate();
      for (const int port : listening_ports(chief.pid())) chief_ports_.insert(port);
      for (const int port : listening_ports(worker.pid())) worker_ports_.insert(port);
      threads_ = std::max(threads_, status_of(chief.pid(), "Threads"));
      kilobytes_ = std::max(kilobytes_, status_of(chief.pid(), "VmRSS"));
      open_gate(step);
    }
    EXPECT_EQ(chief.wait(60s), 0) << chief.output();
    EXPECT_EQ(worker.wait(30s), 0) << worker.output();
    chief_output_ = chief.output();
    worker_output_ = worker.output();
  }

  // The most the chief had at a gate.
  int64_t threads() const { return threads_; }
  int64_t kilobytes() const { return kilobytes_; }
  // Where they listened at a gate.
  const std::set<int>& chief_ports() const { return chief_ports_; }
  const std::set<int>& worker_ports() const { return worker_ports_; }
  const std::string& chief_output() const { return chief_output_; }
  const std::string& worker_output() const { return worker_output_; }

 private:
  const TempDirectory directory_;
  const std::vector<int> ports_ = free_ports(2);
  std::vector<std::string> addresses_;
  int64_t threads_ = 0, kilobytes_ = 0;
  std::set<int> chief_ports_, worker_ports_;
  std::string chief_output_, worker_output_;
};

// What the log tells of peers, without the time; a line that came twice fails the test.
std::string logged_refusals(const std::string& output) {
  std::set<std::string> seen;
  std::string told;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    const size_t begin = std::min(line.find("refused a c"), line.find("closed "));
    if (begin == std::string::npos || line.find(" from 127.0.0.") == std::string::npos) continue;
    EXPECT_TRUE(seen.insert(line.substr(begin)).second) << "told twice: " << line;
    told += line + "\n";
  }
  return told;
}

TEST(UnauthenticatedPeers, CannotReachATaskThatTrainsAlone) {
  const TempDirectory directory;
  Program task({binary("fault_victim"), "--model_dir=" + directory / "model"},
               {{"FAULT_GATES", directory.path()}});
  for (int64_t step = 1; step <= kSteps; ++step) {
    task.wait_for(fmt::format("gate: {}\n", step), 60s);
    EXPECT_EQ(listening_ports(task.pid()), std::set<int>{});
    write_file(directory / std::to_string(step), "");
  }
  EXPECT_EQ(task.wait(60s), 0) << task.output();
}

TEST(UnauthenticatedPeers, DoNotChangeABitOfARunThatTrains) {
  GatedRun alone;
  alone.train([] {}, [] {});
  ASSERT_FALSE(HasFailure());
  // The coordinator listens, and nothing else does while a run trains.
  EXPECT_EQ(alone.chief_ports(), std::set<int>{alone.port()});
  EXPECT_EQ(alone.worker_ports(), std::set<int>{});

  GatedRun attacked;
  std::optional<UnauthenticatedPeers> peers;
  std::string thief_output;
  attacked.train(
      [&] {
        peers.emplace(attacked.port());
        // It would take the seat of worker 1.
        Program thief(attacked.command("thief"), attacked.variables(1, "another made-up token"));
        EXPECT_EQ(thief.wait(30s), 2) << thief.output();
        thief_output = thief.output();
      },
      [&] {
        // A whole round at least in each step, and the attack goes on in the next.
        const int before = peers->rounds();
        const auto end = std::chrono::steady_clock::now() + 50s;
        while (peers->rounds() < before + 2 && std::chrono::steady_clock::now() < end)
          std::this_thread::sleep_for(1ms);
      });
  EXPECT_EQ(attacked.checkpoint(), alone.checkpoint());

  EXPECT_GE(peers->rounds(), kSteps);
  EXPECT_GT(peers->refusals()["watch"], 1000);
  EXPECT_THAT(peers->admitted(), ::testing::IsEmpty());
  for (const char* call :
       {"join", "join as an observer", "beat", "declare_model", "barrier", "set", "add", "erase",
        "check", "wait", "fail", "fail to join", "done", "leave"})
    EXPECT_GT(peers->refusals()[call], 0) << call;
  EXPECT_LT(attacked.threads(), alone.threads() + 100);
  EXPECT_LT(attacked.kilobytes(), alone.kilobytes() + (150 << 10));

  const std::string told = logged_refusals(attacked.chief_output());
  EXPECT_THAT(told,
              AllOf(HasSubstr("refused a connection from 127.0.0.1: it shows no job token"),
                    HasSubstr("a connection from 127.0.0.1: it shows the token of another job"),
                    HasSubstr("refused a connection from 127.0.0.1: it speaks HTTP/1"),
                    HasSubstr("refused a connection from 127.0.0.2: it speaks HTTP/1"),
                    HasSubstr("closed connections from 127.0.0.")));
  EXPECT_THAT(
      attacked.chief_output() + attacked.worker_output() + thief_output + attacked.checkpoint(),
      Not(HasSubstr(kToken)));
}

}  // namespace
}  // namespace muster::testing

// A child process: started with the environment and outputs it shall have, waited for, ended.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/launch/exit_status.h"

namespace muster::inline v0_1::launch {

// How a child is started. Its standard input is empty; SIGPIPE, SIGINT and SIGTERM do what they do
// by default.
struct ChildSpec {
  std::string name;               // for messages: "worker 0"; empty: the program says enough
  std::vector<std::string> argv;  // argv[0] is a path, or a name in PATH
  std::vector<std::pair<std::string, std::string>> environment;  // on top of ours
  std::vector<std::string> without;  // variables of ours it does not get
  int out = 1;                       // the descriptors of ours that become its outputs
  int err = 2;
  // Where signals of the terminal, and those sent to a group, find it.
  enum class Group { kOurs, kOwn, kOwnSession };
  Group group = Group::kOurs;
  // It is killed when the thread that started it ends, and with it this process.
  bool dies_with_parent = false;
  std::vector<int> cores;        // pinned to these; empty: not pinned
  std::optional<sigset_t> mask;  // its signal mask; ours when unset
};

// Starts it and returns its id; the caller waits for it. Throws Error when the program cannot be
// executed. Any thread may call this.
pid_t spawn(const ChildSpec& spec);

// A child that does not outlive this object. Thread safety: one thread at a time.
class ChildProcess {
 public:
  // Throws Error when the program cannot be executed.
  explicit ChildProcess(const ChildSpec& spec) : pid_(spawn(spec)) {}
  // Kills it when it has not ended.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // How it ended, once it has.
  std::optional<ExitStatus> status();
  // Waits for its end, at most so long: nothing when it still runs.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds time);
  // Sends the signal, unless it has ended.
  void signal(int number);

 private:
  pid_t pid_ = -1;  // -1: moved from
  std::optional<ExitStatus> status_;
};

}  // namespace muster::inline v0_1::launch

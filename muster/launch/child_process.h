// Starts a child process with the environment and the outputs it shall have, waits for it, and ends
// it.
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

// How a child is started. Its standard input is empty; SIGPIPE, SIGINT and SIGTERM have their
// default actions.
struct ChildSpec {
  std::string name{};               // for messages: "worker 0"; empty: the program says enough
  std::vector<std::string> argv{};  // argv[0] is a path, or a name in PATH
  std::vector<std::pair<std::string, std::string>> environment{};  // on top of ours
  std::vector<std::string> without{};  // variables of ours it does not get
  int out = 1;                         // the descriptors of ours that become its outputs
  int err = 2;
  // The process group and session it is in: signals of the terminal, and those sent to a group,
  // reach all that are in it.
  enum class Group { kOurs, kOwn, kOwnSession };
  Group group = Group::kOurs;
  // Whether it is killed when the thread that started it ends, as that thread does when this
  // process dies.
  bool dies_with_parent = false;
  std::vector<int> cores{};        // pinned to these; empty: not pinned
  std::optional<sigset_t> mask{};  // its signal mask; ours when unset
};

// Starts a child and returns its id; the caller must wait for it. Throws Error when the program
// cannot be executed. Any thread may call this.
pid_t spawn(const ChildSpec& spec);

// A child that does not outlive this object. Thread safety: one thread at a time.
class ChildProcess {
 public:
  // Starts the child. Throws Error when the program cannot be executed.
  explicit ChildProcess(const ChildSpec& spec) : pid_(spawn(spec)) {}
  // Kills the child when it has not ended.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), status_(other.status_) {}
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Returns how the child ended, or nothing while it runs.
  std::optional<ExitStatus> status();
  // Waits at most this long for the child to end; returns nothing when it still runs.
  std::optional<ExitStatus> wait_for(std::chrono::milliseconds time);
  // Sends the signal, unless the child has ended.
  void signal(int number);

 private:
  pid_t pid_ = -1;  // -1: moved from
  std::optional<ExitStatus> status_;
};

}  // namespace muster::inline v0_1::launch

// Ends processes that tasks have started and left behind, however the process that started the
// tasks ends (by SIGKILL too). A process of its own waits for that: when our process ends, it kills
// all processes that are still in the sessions of our tasks or have their mark in the environment.
// A program that makes a session of its own keeps the mark. Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace muster::inline v0_1::launch::internal {

class Keeper {
 public:
  // Forks. Throws Unavailable if the system has no process or no descriptor left.
  Keeper();
  // Ends all processes that are left behind, and returns when they have ended.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The variable that each task must have.
  std::pair<std::string, std::string> mark() const;
  // A task was started, which leads a session.
  void add(pid_t leader);
  // Its process number will be another's from now on: all processes of its session have been ended.
  void remove(pid_t leader);

 private:
  void tell(pid_t word);

  std::string mark_;
  pid_t pid_ = -1;
  int pipe_ = -1;
};

// Kills all processes of the session of a task that has ended and was not waited for yet, also
// those in groups of their own.
void kill_session(pid_t leader);

// Whether other processes of the leader's group run: those that a signal to the group reaches.
bool group_lives(pid_t leader);

}  // namespace muster::inline v0_1::launch::internal

// Ends what tasks have started and left behind, whatever ends the process that started the tasks,
// SIGKILL too. A process of its own waits for that: at the end of ours it kills what is still in
// the sessions of our tasks, and what has their mark in its environment, which a program keeps that
// makes a session of its own. Thread safety: one thread.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>

namespace muster::inline v0_1::launch::internal {

class Keeper {
 public:
  // Forks. Throws Unavailable when the system has no process or no descriptor to spare.
  Keeper();
  // Has all that is left behind ended, and returns when it is.
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // The variable that each task must have.
  std::pair<std::string, std::string> mark() const;
  // A task was started, which leads a session.
  void add(pid_t leader);
  // Its process number will be another's from now on: what is left in its session has been ended.
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

}  // namespace muster::inline v0_1::launch::internal

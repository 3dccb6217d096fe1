// The processor time of all processes of this machine at one moment. Thread safety: a value.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

namespace muster::inline v0_1::launch::internal {

class ProcessorTimes {
 public:
  // Reads /proc once; unreadable entries are left out.
  static ProcessorTimes now();

  // The seconds that the process, all processes of the session it leads, their descendants and the
  // children they have waited for have used; nothing when the process is gone.
  std::optional<double> of_task(pid_t leader) const;

 private:
  struct Process {
    pid_t pid = 0, parent = 0, session = 0;
    double seconds = 0;  // its own, and those of children that ended
  };
  static std::optional<Process> read(pid_t pid);

  std::vector<Process> processes_;  // by their numbers
};

}  // namespace muster::inline v0_1::launch::internal

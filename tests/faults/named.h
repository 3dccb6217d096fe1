// Which task the output of a run names as failed, as a reader finds it. Thread safety: pure
// functions.
#pragma once

#include <set>
#include <string>

namespace muster::testing {

struct Named {
  std::set<std::string> by_tasks;  // "worker 1": according to the others' errors
  std::string by_launcher;         // the task that `muster run` calls the cause; "" for none
  // "worker 1"; "worker 1; muster run: worker 0" if they do not agree; "-" for none.
  std::string text() const;
};

// Reads the output of a `muster run`. A task's lines about itself do not count, nor the struck
// task's lines about others: when it runs again they are gone.
Named named_in(const std::string& output, const std::string& struck);

}  // namespace muster::testing

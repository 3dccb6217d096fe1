// The task that a run's output names as failed. Thread safety: pure
// functions.
#pragma once

#include <set>
#include <string>

namespace muster::testing {

struct Named {
  std::set<std::string> by_tasks;  // "worker 1": what the others' errors say of it
  std::string by_launcher;         // whom `muster run` calls the cause; "" for nobody
  // "worker 1"; "worker 1; muster run: worker 0" where they do not agree; "-" for nobody.
  std::string text() const;
};

// Reads the output of a `muster run`. What a task says of itself does not count, nor what the one
// that was struck says of others: when it runs again they are gone.
Named named_in(const std::string& output, const std::string& struck);

}  // namespace muster::testing

// The exchanges of the processes of a cluster outside of collectives; one object for all replicas
// of this process. Thread safety: all calls from any thread; calls that wait for others from one
// thread at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::distribute {

class ProcessGroup {
 public:
  virtual ~ProcessGroup() = default;

  // --- all processes make these calls in the same order ---
  // The text of every process by rank.
  virtual std::vector<std::string> gather_text(const std::string& name,
                                               const std::string& text) = 0;
  // Throws InvalidArgument on every process when one built another model.
  virtual void declare_model(const std::vector<std::string>& signature) = 0;
  virtual void barrier(const std::string& name) = 0;
  // The clean end: all processes are through.
  virtual void finish() = 0;

  // --- failures --- Reports the phase of this process, for processes that wait for it.
  virtual void report(plan::Phase phase, int64_t step) = 0;
  // This process cannot continue; the others receive the reason. Never throws.
  virtual void fail(const Error& error) noexcept = 0;
  // Sets the callback for failures of other processes, called from any thread. If one has failed
  // already, `callback` is called soon.
  virtual void on_failure(std::function<void(const Error& error)> callback) = 0;
  // Throws the error that ended another process, if it is known.
  virtual void check_failure() const = 0;
  // Waits until the failure of another process is known, until `enough` returns true, or until a
  // lost process would have been noticed.
  virtual void await_failure(const std::function<bool()>& enough) const = 0;
  // `error`, or its cause if that occurred in another process; waits as await_failure(). A Timeout
  // is completed with the missing processes, and where they are.
  virtual Error explain(const Error& error, const std::function<bool()>& enough) const = 0;
};

}  // namespace muster::inline v0_1::distribute

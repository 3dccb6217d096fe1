// Where the processes of a cluster meet outside of collectives; one object for all replicas of this
// process.
// Thread safety: all calls from any thread; those that meet others by one thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/distribute/group.h"
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

  // --- each process by itself ---
  virtual std::shared_ptr<Mailbox> mailbox() = 0;

  // --- failures ---
  // Reports what this process is doing, for tasks that wait for it.
  virtual void report(plan::Phase phase, int64_t step) = 0;
  // This process cannot go on; the others learn why. Never throws.
  virtual void fail(const Error& error) noexcept = 0;
  // Sets what to call, from any thread, when another process fails. When one has failed already,
  // `callback` is called soon.
  virtual void on_failure(std::function<void(const Error& error)> callback) = 0;
  // Throws what ended another process, when that is known.
  virtual void check_failure() const = 0;
  // Waits until the failure of another process is known, until `enough` returns true, or until a
  // lost process would have been noticed.
  virtual void await_failure(const std::function<bool()>& enough) const = 0;
  // `error`, or what caused it when that happened to another process; waits as await_failure(). A
  // Timeout learns which processes are missing, and where they are.
  virtual Error explain(const Error& error, const std::function<bool()>& enough) const = 0;
};

}  // namespace muster::inline v0_1::distribute

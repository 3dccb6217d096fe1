// Where the replicas of a run meet outside of collectives: texts, barriers, and who failed first.
// Thread safety: belongs to the replica's thread.
//
// Every replica makes the calls that meet others in the same order. Each of them may throw
// PeerLost, Timeout or Unavailable naming the task that failed, the step and the phase.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "muster/base/error.h"
#include "muster/plan/phase.h"

namespace muster::inline v0_1::distribute {

using plan::Phase;

// Texts that the processes of a group leave for each other while all replicas make steps. It may
// outlive the group. Thread safety: any thread.
class Mailbox {
 public:
  virtual ~Mailbox() = default;
  // Leaves `text` under `key`, a new one. Throws PeerLost, saying why, if the group has ended, and
  // InvalidArgument or Unavailable if the text is too long to be kept.
  virtual void put(const std::string& key, const std::string& text) = 0;
  // Waits for the text, removes and returns it. Throws PeerLost as soon as the group ends, and
  // Timeout after CommunicationOptions.save_timeout.
  virtual std::string take(const std::string& key) = 0;
};

class Group {
 public:
  virtual ~Group() = default;

  // --- all replicas make these calls together ---
  // The text of every replica by its id, given to all.
  virtual std::vector<std::string> gather_text(const std::string& name,
                                               const std::string& text) = 0;
  // Throws InvalidArgument on every replica when one built another model. A line says what one
  // variable, optimizer or option is.
  virtual void declare_model(const std::vector<std::string>& lines) = 0;
  // Returns when every replica has come here; waits as long as the missing ones are alive.
  virtual void barrier(const std::string& name) = 0;
  // The clean end: all replicas are through. Nothing may be called after it.
  virtual void finish() = 0;

  // --- each replica by itself ---
  // Reports what this replica is doing, for tasks that wait for it.
  virtual void report(Phase phase, int64_t step) = 0;
  // This replica cannot go on; the others learn why. Never throws.
  virtual void fail(const Error& error) noexcept = 0;
  // Throws what ended another replica as soon as that is known here, for long work between
  // collectives; costs a lock.
  virtual void check_failure() = 0;
  // Waits, for a bounded time, until it is known which replica failed first, and throws that; when
  // none did, it returns.
  virtual void await_failure() = 0;
  // `error`, or what caused it when that happened to another task: a broken connection becomes
  // "worker 1 was lost, last heard of at step 120 (training): ...". Waits a bounded time for the
  // cause to be known.
  virtual Error explain(const Error& error) = 0;
  // nullptr where there are no other processes in step with this one.
  virtual std::shared_ptr<Mailbox> mailbox() { return nullptr; }

  // Calls `fn` and returns its result. When `fn` throws because another replica failed, throws an
  // error that names that failure.
  template <typename Fn>
  std::invoke_result_t<Fn> explained(Fn fn) {
    try {
      return fn();
    } catch (const Error& error) {
      throw explain(error);
    }
  }
};

// Makes the group of a single replica: it never waits.
std::unique_ptr<Group> make_lone_group();

}  // namespace muster::inline v0_1::distribute

// The right to write a model_dir in a store: one program at a time. Thread safety: a value of one
// thread.
//
// A store locks nothing, so the right is a lease (muster/checkpoint/lease.h), the object
// "writer.lease" in model_dir: the holder rewrites it, and a lease that no longer changes has a
// dead holder. Two programs that begin in the same second may both take it; the first that looks
// again, at its next beat or save, finds the other and ends.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "muster/base/file_system.h"
#include "muster/checkpoint/lease.h"

namespace muster::inline v0_1 {

// How long a StoreClaim waits for others.
struct StoreClaimOptions {
  // For a holder that is at work, which may just be ending. A holder that shows no life counts as
  // dead after a minute, or at once if it was a process of this machine.
  std::chrono::milliseconds join_timeout = std::chrono::seconds(10);
  std::chrono::milliseconds look_every = std::chrono::seconds(1);
  LeaseOptions lease = {};  // its `fs` is not used
};

class StoreClaim {
 public:
  // Takes the right. `fs` outlives it. Throws InvalidArgument naming the process and machine that
  // hold it, Cancelled when `cancelled` becomes true, and the store's error if it cannot be
  // written.
  StoreClaim(const std::string& directory, FileSystem& fs,
             const std::function<bool()>& cancelled = {}, StoreClaimOptions options = {});

  // Throws Unavailable when another program has taken it since.
  void check() const;

 private:
  const std::string directory_;
  std::unique_ptr<Lease> lease_;
};

}  // namespace muster::inline v0_1

// Strategy's verbs for loops call this: the loop whose scope this thread has entered. muster/loop
// has the loops. Thread safety: belongs to the thread that entered the loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "muster/distribute/per_replica.h"
#include "muster/distribute/strategy.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::distribute {

class ReplicaContext;

// The functions implement Strategy's of the same name.
class EnteredLoop {
 public:
  virtual ~EnteredLoop() = default;
  virtual const Strategy& strategy() const = 0;
  virtual int num_replicas_in_sync() const = 0;
  virtual size_t num_local_replicas() const = 0;
  // Throws InvalidArgument unless `size`, the number of values passed to `what`, is the number of
  // replicas here.
  virtual void check_values(size_t size, const char* what) const = 0;
  // Calls `body` on every replica; `rows(r)` are the examples local replica r has, and `batch(r)`
  // its batch, if there is one.
  virtual void run(const RunOptions& options, const std::function<void(size_t)>& body,
                   const std::function<int64_t(size_t)>& rows,
                   const std::function<const Batch*(size_t)>& batch) = 0;
  virtual Tensor reduce(ReduceOp op, const PerReplica<Tensor>& value,
                        std::optional<int64_t> axis) = 0;
  virtual Metric reduce(const PerReplica<Metric>& value) = 0;
  virtual Tensor gather(const PerReplica<Tensor>& value, int64_t axis) = 0;
};

// The loops that a thread has entered.
struct Entered {
  std::vector<EnteredLoop*> loops{};  // their scopes, the innermost last
  ReplicaContext* replica = nullptr;  // inside of a replica function: its context

  EnteredLoop* loop() const { return loops.empty() ? nullptr : loops.back(); }
};
// The loops that this thread has entered.
Entered& entered();

// The loop of `strategy` that this thread has entered. Throws InvalidArgument if there is none and
// inside of a replica function; `verb` is the call that the error names: "reduce()".
EnteredLoop& entered_loop(const Strategy& strategy, const char* verb);

}  // namespace muster::inline v0_1::distribute

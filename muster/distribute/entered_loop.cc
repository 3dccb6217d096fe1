#include "muster/distribute/entered_loop.h"

#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/metrics/metric.h"
#include "muster/tensor/device_library.h"

namespace muster::inline v0_1::distribute {

Entered& entered() {
  static thread_local Entered here;
  return here;
}

EnteredLoop& entered_loop(const Strategy& strategy, const char* verb) {
  if (entered().replica != nullptr) {
    throw invalid_argument(
        fmt::format("{} was called inside of a replica function", verb),
        "call it between the calls of run(); inside, ReplicaContext::current() has all_reduce() "
        "and all_gather()");
  }
  EnteredLoop* const loop = entered().loop();
  if (loop == nullptr) {
    throw invalid_argument(
        fmt::format("{} was called outside of the scope of {}", verb, strategy.name()),
        "enter it first: const auto scope = strategy->scope();");
  }
  if (&loop->strategy() != &strategy) {
    throw invalid_argument(fmt::format("{} of {} was called in the scope of another strategy ({})",
                                       verb, strategy.name(), loop->strategy().name()),
                           "use the strategy whose scope was entered");
  }
  return *loop;
}

int Strategy::num_replicas_in_sync() const {
  return entered_loop(*this, "num_replicas_in_sync()").num_replicas_in_sync() *
         joined_devices(device());
}

size_t Strategy::num_local_replicas() const {
  return entered_loop(*this, "run()").num_local_replicas();
}

void Strategy::check_replicas(std::optional<size_t> given) const {
  if (given) entered_loop(*this, "run()").check_values(*given, "run()");
}

void Strategy::run_on_replicas(const RunOptions& options, const std::function<void(size_t)>& body,
                               const std::function<int64_t(size_t)>& rows,
                               const std::function<const Batch*(size_t)>& batch) const {
  entered_loop(*this, "run()").run(options, body, rows, batch);
}

Tensor Strategy::reduce(ReduceOp op, const PerReplica<Tensor>& value,
                        std::optional<int64_t> axis) const {
  return entered_loop(*this, "reduce()").reduce(op, value, axis);
}

Metric Strategy::reduce(const PerReplica<Metric>& value) const {
  return entered_loop(*this, "reduce()").reduce(value);
}

Tensor Strategy::gather(const PerReplica<Tensor>& value, int64_t axis) const {
  return entered_loop(*this, "gather()").gather(value, axis);
}

}  // namespace muster::inline v0_1::distribute

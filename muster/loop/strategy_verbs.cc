// What Strategy's verbs for loops do: users say them to the strategy, and the loop that was entered
// does them.
#include <fmt/format.h>

#include "muster/base/error.h"
#include "muster/distribute/strategy.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/scope.h"

namespace muster::inline v0_1::distribute {
namespace {

Loop& loop_of(const Strategy& strategy, const char* verb) {
  if (ReplicaContext::inside()) {
    throw invalid_argument(
        fmt::format("{} was called inside of a replica function", verb),
        "call it between the calls of run(); inside, ReplicaContext::current() has all_reduce() "
        "and all_gather()");
  }
  Loop* loop = Loop::entered();
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

}  // namespace

Scope Strategy::scope() const { return scope(ScopeOptions()); }

Scope Strategy::scope(const ScopeOptions& options) const {
  if (ReplicaContext::inside()) {
    throw invalid_argument("scope() was called inside of a replica function",
                           "enter the scope once, around the loop");
  }
  Loop* entered = Loop::entered();
  if (entered == nullptr) return Scope(std::make_shared<Loop>(shared_from_this(), options));
  if (&entered->strategy() == this) return Scope(entered->shared_from_this());
  throw invalid_argument(fmt::format("the scope of {} was entered inside of that of {}", name(),
                                     entered->strategy().name()),
                         "leave the other one first: strategies do not mix");
}

int Strategy::num_replicas_in_sync() const {
  return loop_of(*this, "num_replicas_in_sync()").first().num_replicas_in_sync();
}

size_t Strategy::num_local_replicas() const { return loop_of(*this, "run()").num_local_replicas(); }

void Strategy::check_replicas(std::optional<size_t> given) const {
  if (given) loop_of(*this, "run()").check_values(*given, "run()");
}

void Strategy::run_on_replicas(const RunOptions& options, const std::function<void(size_t)>& body,
                               const std::function<int64_t(size_t)>& rows,
                               const std::function<const Batch*(size_t)>& batch) const {
  loop_of(*this, "run()").run(options, body, rows, batch);
}

Tensor Strategy::reduce(ReduceOp op, const PerReplica<Tensor>& value,
                        std::optional<int64_t> axis) const {
  return loop_of(*this, "reduce()").reduce(op, value, axis);
}

Metric Strategy::reduce(const PerReplica<Metric>& value) const {
  return loop_of(*this, "reduce()").reduce(value);
}

Tensor Strategy::gather(const PerReplica<Tensor>& value, int64_t axis) const {
  return loop_of(*this, "gather()").gather(value, axis);
}

DistributedDataset Strategy::distribute(const Dataset& dataset) const {
  return loop_of(*this, "distribute()").distribute(dataset, /*for_this_process=*/false);
}

DistributedDataset Strategy::distribute_from_function(
    const std::function<Dataset(const InputContext&)>& fn) const {
  Loop& loop = loop_of(*this, "distribute_from_function()");
  return loop.distribute(fn(loop.first().input_context()), /*for_this_process=*/true);
}

}  // namespace muster::inline v0_1::distribute

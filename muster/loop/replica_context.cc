#include "muster/loop/replica_context.h"

#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/entered_loop.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/replica.h"
#include "muster/loop/internal/loop.h"
#include "muster/loop/internal/merge_point.h"
#include "muster/tensor/device_library.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {

ReplicaContext& ReplicaContext::current() {
  if (entered().replica != nullptr) return *entered().replica;
  throw invalid_argument("there is no replica here",
                         "a ReplicaContext exists inside of functions that Strategy::run() calls");
}

bool ReplicaContext::inside() { return entered().replica != nullptr; }

ReplicaContext::Enter::Enter(ReplicaContext& context)
    : outer_(std::exchange(entered().replica, &context)) {}
ReplicaContext::Enter::~Enter() { entered().replica = outer_; }

ReplicaContext::ReplicaContext(Replica& replica) : ReplicaContext(replica, replica.variables()) {}
ReplicaContext::ReplicaContext(Replica& replica, VariableStore& variables)
    : replica_(replica), variables_(variables), summaries_(variables) {}

int ReplicaContext::replica_id() const { return replica_.replica_id(); }
int ReplicaContext::num_replicas_in_sync() const {
  return replica_.num_replicas_in_sync() * joined_devices(replica_.device());
}
Device ReplicaContext::device() const { return replica_.device(); }

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& value) const {
  return distribute::all_reduce(replica_.exchange(), op, value);
}

Tensor ReplicaContext::all_gather(const Tensor& value, int64_t axis) const {
  check_meets(replica_, "all_gather()");
  if (value.dim() == 0 || axis < -value.dim() || axis >= value.dim()) {
    throw invalid_argument(
        fmt::format("all_gather of {} along axis {}", describe(value), axis),
        "the value needs that axis; a scalar has none: unsqueeze(0) gives it one");
  }
  return distribute::all_gather(replica_.exchange(), replica_id(), value,
                                axis < 0 ? axis + value.dim() : axis);
}

void ReplicaContext::meet(const std::string& kind, std::shared_ptr<void> mine,
                          const std::function<void(const Visits&)>& body) {
  merge_point_->meet(static_cast<size_t>(replica_.place().local), kind, std::move(mine),
                     [&](const Visits& all) {
                       // Outside of replicas, as the program between two calls of run().
                       ReplicaContext* const here = std::exchange(entered().replica, nullptr);
                       struct Back {
                         ReplicaContext* context;
                         ~Back() { entered().replica = context; }
                       } back{here};
                       body(all);
                     });
}

Tensor ReplicaContext::regularization_loss() const {
  const Tensor loss = muster::regularization_loss(variables_);
  return loss.defined() ? loss : torch::zeros({}, at::device(device()).dtype(kFloat64));
}

const Tensor& ReplicaContext::variable(const VariableSpec& spec) {
  return variables_.get_or_create(spec).value();
}

uint64_t ReplicaContext::seed() const { return replica_.seed(); }

RandomKey ReplicaContext::next_random_key(const std::string& name) {
  // Beyond the keys of batches.
  return random_key(name).derive((uint64_t{1} << 32) + draws_[name]++);
}

RandomKey ReplicaContext::random_key(const std::string& name) const {
  const RandomKey key =
      derive_key(replica_.seed(), {id_of("replica function"), static_cast<uint64_t>(step_),
                                   static_cast<uint64_t>(replica_id()), id_of(name)});
  return batch_ == 0 ? key : key.derive(static_cast<uint64_t>(batch_));
}

}  // namespace muster::inline v0_1::distribute

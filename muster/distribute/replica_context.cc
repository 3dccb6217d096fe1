#include "muster/distribute/replica_context.h"


#include <utility>

#include "muster/base/error.h"
#include "muster/distribute/internal/merge_point.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::distribute {
namespace {

thread_local ReplicaContext* current_context = nullptr;

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The session goes through autograd as a number: backward() belongs into the same call of run().
Session& session_of(const c10::IValue& value) { return *reinterpret_cast<Session*>(value.toInt()); }

struct AllReduce : torch::autograd::Function<AllReduce> {
  static Tensor forward(AutogradContext* context, const Tensor& value, int64_t op,
                        int64_t session) {
    context->saved_data["op"] = op;
    context->saved_data["session"] = session;
    return session_of(session).reduce(static_cast<ReduceOp>(op), value);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const auto op = static_cast<ReduceOp>(context->saved_data["op"].toInt());
    Session& session = session_of(context->saved_data["session"]);
    return {session.reduce(op, gradients[0].contiguous()), Tensor(), Tensor()};
  }
};

struct AllGather : torch::autograd::Function<AllGather> {
  static Tensor forward(AutogradContext* context, const Tensor& value, int64_t axis,
                        int64_t session) {
    Session& replicas = session_of(session);
    const std::vector<Tensor> parts = replicas.gather(value, axis);
    int64_t begin = 0;
    for (int r = 0; r < replicas.replica_id(); ++r)
      begin += parts[static_cast<size_t>(r)].size(axis);
    context->saved_data["axis"] = axis;
    context->saved_data["begin"] = begin;
    context->saved_data["size"] = value.size(axis);
    context->saved_data["session"] = session;
    return torch::cat(parts, axis);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    Session& session = session_of(context->saved_data["session"]);
    const Tensor all = session.reduce(ReduceOp::kSum, gradients[0].contiguous());
    return {all.narrow(context->saved_data["axis"].toInt(), context->saved_data["begin"].toInt(),
                       context->saved_data["size"].toInt()),
            Tensor(), Tensor()};
  }
};

}  // namespace

Tensor all_reduce(Session& session, ReduceOp op, const Tensor& value) {
  return AllReduce::apply(value, static_cast<int64_t>(op), reinterpret_cast<int64_t>(&session));
}

ReplicaContext& ReplicaContext::current() {
  if (current_context != nullptr) return *current_context;
  throw invalid_argument("there is no replica here",
                         "a ReplicaContext exists inside of functions that Strategy::run() calls");
}

bool ReplicaContext::inside() { return current_context != nullptr; }

ReplicaContext::Enter::Enter(ReplicaContext& context)
    : outer_(std::exchange(current_context, &context)) {}
ReplicaContext::Enter::~Enter() { current_context = outer_; }

Tensor ReplicaContext::all_reduce(ReduceOp op, const Tensor& value) const {
  return distribute::all_reduce(session_, op, value);
}

Tensor ReplicaContext::all_gather(const Tensor& value, int64_t axis) const {
  if (value.dim() == 0 || axis < -value.dim() || axis >= value.dim()) {
    throw invalid_argument(
        fmt::format("all_gather of {} along axis {}", describe(value), axis),
        "the value needs that axis; a scalar has none: unsqueeze(0) gives it one");
  }
  return AllGather::apply(value, axis < 0 ? axis + value.dim() : axis,
                          reinterpret_cast<int64_t>(&session_));
}

void ReplicaContext::meet(const std::string& kind, std::shared_ptr<void> mine,
                          const std::function<void(const Visits&)>& body) {
  merge_point_->meet(static_cast<size_t>(session_.local_replica()), kind, std::move(mine),
                     [&](const Visits& all) {
                       // Outside of replicas, as the program between two calls of run().
                       ReplicaContext* const here = std::exchange(current_context, nullptr);
                       struct Back {
                         ReplicaContext* context;
                         ~Back() { current_context = context; }
                       } back{here};
                       body(all);
                     });
}

const Tensor& ReplicaContext::variable(const VariableSpec& spec) {
  return session_.variables().get_or_create(spec).value();
}

RandomKey ReplicaContext::random_key(const std::string& name) const {
  const RandomKey key =
      derive_key(session_.seed(), {id_of("replica function"), static_cast<uint64_t>(step_),
                                   static_cast<uint64_t>(replica_id()), id_of(name)});
  return batch_ == 0 ? key : key.derive(static_cast<uint64_t>(batch_));
}

}  // namespace muster::inline v0_1::distribute

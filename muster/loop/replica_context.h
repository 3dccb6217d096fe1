// What a replica function knows of itself while Strategy::run() calls it.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/distribute/per_replica.h"
#include "muster/distribute/replica_call.h"
#include "muster/tensor/device.h"
#include "muster/tensor/reduce_op.h"
#include "muster/tensor/variable.h"
#include "muster/train/summaries.h"

namespace muster::inline v0_1::distribute {

class MergePoint;
class Replica;

class MUSTER_EXPORT ReplicaContext {
 public:
  // `replica` outlives it.
  explicit ReplicaContext(Replica& replica);
  // The same with variables that are not the replica's; they outlive it.
  ReplicaContext(Replica& replica, VariableStore& variables);
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  // That of the replica function running on this thread. Throws InvalidArgument outside of one.
  static ReplicaContext& current();
  // Whether there is one.
  static bool inside();
  // Makes `context` the current one of this thread.
  class Enter {
   public:
    explicit Enter(ReplicaContext& context);
    ~Enter();
    Enter(const Enter&) = delete;
    Enter& operator=(const Enter&) = delete;

   private:
    ReplicaContext* outer_;
  };

  int replica_id() const;
  int num_replicas_in_sync() const;
  // Where its variables are and its batches arrive: for tensors a replica function makes itself.
  Device device() const;
  // Steps that trained so far: 0 in the first.
  int64_t step() const { return step_; }

  // What TensorBoard shows of this step, where ScopeOptions::summary_dir is set:
  // `ReplicaContext::current().summary().scalar("rate", rate)`. Calls of a function that trains
  // count, in the first step and then every save_summary_steps.
  Summaries& summary() { return summaries_; }

  // --- collectives: all replicas call them together, in the same order ---
  // The sum or mean of `value` over all replicas, given to each. Gradients flow back through it:
  // that of a sum is the sum of all gradients, and
  // backward() belongs into the same call of the replica function. Throws InvalidArgument when
  // shapes or dtypes differ.
  Tensor all_reduce(ReduceOp op, const Tensor& value) const;
  // The values of all replicas one after the other along `axis`, in which their sizes may differ.
  // Gradients flow back, each part's to where it came from.
  Tensor all_gather(const Tensor& value, int64_t axis = 0) const;

  // Calls `fn` once in this process, outside of every replica, with a PerReplica<T> for each
  // argument T: what the replicas here brought, Tensors without their graphs. All replicas call it
  // together. Each gets the result: of a PerReplica its own value, of anything else a copy. What
  // other processes hold takes part through all_reduce() and all_gather(). Tensors stay on the
  // devices of the replicas they come from. Throws what `fn` throws, on every replica; Timeout
  // naming a replica that does not come within ScopeOptions::merge_timeout, or the one that runs
  // `fn`, when that does not return in as long; InvalidArgument naming one whose function ended
  // without coming.
  template <typename Fn, typename... Args>
  auto merge(Fn&& fn, const Args&... args);

  // The penalties of this replica's variables (VariableSpec::regularizer), a float64 scalar without
  // a graph; 0 where there are none. A step that trains adds them by itself; this is for the loss
  // of a loop that evaluates.
  Tensor regularization_loss() const;

  // --- variables and random numbers ---
  // A variable of one's own: created at the first call with this name, equal on all replicas.
  // Throws InvalidArgument when it is new after the first step.
  const Tensor& variable(const VariableSpec& spec);
  // Another key for each name, step, batch of the step, and replica.
  RandomKey random_key(const std::string& name) const;

  // Before every call of the replica function; `batch` is the place among those of one update.
  void begin_step(int64_t step, int64_t batch) {
    step_ = step;
    batch_ = batch;
  }
  // Where merge() meets the other replicas of this process; it outlives the calls.
  void set_merge_point(MergePoint* point) { merge_point_ = point; }

 private:
  using Visits = std::vector<std::shared_ptr<void>>;
  void meet(const std::string& kind, std::shared_ptr<void> mine,
            const std::function<void(const Visits&)>& body);

  Replica& replica_;
  VariableStore& variables_;
  Summaries summaries_;
  int64_t step_ = 0;
  int64_t batch_ = 0;
  MergePoint* merge_point_ = nullptr;
};

namespace replica_call {

// What a replica gets of the result of merge().
template <typename T>
struct Part {
  using Type = T;  // of what it gets
  // All of it.
  static const T& of(const T& result, size_t /*replica*/) { return result; }
};
// Its own value.
template <typename T>
struct Part<PerReplica<T>> {
  using Type = T;  // of one value
  // That of this replica.
  static const T& of(const PerReplica<T>& result, size_t replica) { return result[replica]; }
};

}  // namespace replica_call

template <typename Fn, typename... Args>
auto ReplicaContext::merge(Fn&& fn, const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<Fn&, const PerReplica<Args>&...>>;
  using Given = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;
  using Part = replica_call::Part<Given>;
  // Values of its own: a replica that gave up waiting takes its arguments with it.
  struct Visit {
    std::tuple<Args...> brought{};
    std::optional<typename Part::Type> result{};
  };
  const auto mine = std::make_shared<Visit>(
      Visit{std::tuple<Args...>(replica_call::without_graph(Args(args))...), std::nullopt});
  meet(typeid(Visit).name(), mine, [&fn](const Visits& visits) {
    const auto visit = [&](size_t replica) { return static_cast<Visit*>(visits[replica].get()); };
    const auto values = [&]<size_t I>(std::integral_constant<size_t, I>) {
      using T = std::tuple_element_t<I, std::tuple<Args...>>;
      std::deque<T> all;
      for (size_t r = 0; r < visits.size(); ++r)
        all.push_back(std::move(std::get<I>(visit(r)->brought)));
      return PerReplica<T>(std::move(all));
    };
    const auto call = [&]<size_t... I>(std::index_sequence<I...>) {
      return fn(values(std::integral_constant<size_t, I>())...);
    };
    const auto share = [&](const Given& result) {
      for (size_t r = 0; r < visits.size(); ++r) {
        visit(r)->result = replica_call::without_graph(typename Part::Type(Part::of(result, r)));
      }
    };
    if constexpr (std::is_void_v<Result>) {
      call(std::index_sequence_for<Args...>());
      share({});
    } else {
      share(call(std::index_sequence_for<Args...>()));
    }
  });
  if constexpr (!std::is_void_v<Result>) return std::move(*mine->result);
}

}  // namespace muster::inline v0_1::distribute

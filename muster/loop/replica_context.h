// The context of a replica function while Strategy::run() calls it.
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
#include <unordered_map>
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
#include "muster/train/module_owner.h"
#include "muster/train/summaries.h"

namespace muster::inline v0_1::distribute {

class MergePoint;
class Replica;

class MUSTER_EXPORT ReplicaContext : private ModuleOwner {
 public:
  // `replica` must outlive it.
  explicit ReplicaContext(Replica& replica);
  // The same with variables that are not the replica's; they must outlive it.
  ReplicaContext(Replica& replica, VariableStore& variables);
  ReplicaContext(const ReplicaContext&) = delete;
  ReplicaContext& operator=(const ReplicaContext&) = delete;

  // The context of the replica function running on this thread. Throws InvalidArgument outside of
  // one.
  static ReplicaContext& current();
  // Whether a replica function runs on this thread.
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
  // The device of its variables and batches: for tensors that a replica function makes itself.
  Device device() const override;
  // The number of training steps so far: 0 in the first.
  int64_t step() const { return step_; }

  // Writes this step's summaries for TensorBoard, if ScopeOptions::summary_dir is set:
  // `ReplicaContext::current().summary().scalar("rate", rate)`. Calls of a training function are
  // written in the first step and then every save_summary_steps.
  Summaries& summary() { return summaries_; }

  // --- collectives: all replicas call them together, in the same order ---
  // Returns the sum or mean of `value` over all replicas, on each replica. Gradients flow back: the
  // gradient of a sum is the sum of all gradients. Call backward() in the same call of the replica
  // function. Throws InvalidArgument when shapes or dtypes differ.
  Tensor all_reduce(ReduceOp op, const Tensor& value) const;
  // Joins the values of all replicas along `axis`, in which their sizes may differ. Gradients flow
  // back: each replica gets those of its part.
  Tensor all_gather(const Tensor& value, int64_t axis = 0) const;

  // Calls `fn` once in this process, outside of every replica, with a PerReplica<T> for each
  // argument T: the arguments of the replicas here, Tensors detached from their graphs. All
  // replicas call it together. Each gets the result: of a PerReplica its own value, of anything
  // else a copy. To include values of other processes, use all_reduce() and all_gather(). Tensors
  // stay on the devices of their replicas. Throws the error of `fn`, on every replica; Timeout with
  // the replica that does not arrive within ScopeOptions::merge_timeout, or the replica whose `fn`
  // does not return within it; InvalidArgument with the replica whose function ended without
  // calling merge().
  template <typename Fn, typename... Args>
  auto merge(Fn&& fn, const Args&... args);

  // Returns the penalties of this replica's variables (VariableSpec::regularizer), a float64 scalar
  // without a graph; 0 without penalties. A training step adds them itself; use this for the loss
  // in a loop that evaluates.
  Tensor regularization_loss() const;

  // --- variables and random numbers ---
  // Returns a variable of your own: created at the first call with this name, equal on all
  // replicas. Throws InvalidArgument for a new name after the first step.
  const Tensor& variable(const VariableSpec& spec);
  // Returns a key that differs for each name, step, batch of the step, and replica.
  RandomKey random_key(const std::string& name) const;

  // Returns the owner of the modules that <muster/torch.h> makes in this context.
  friend ModuleOwner& module_owner(ReplicaContext& context) { return context; }

  // Called before every call of the replica function; `batch` is its number among those of one
  // update.
  void begin_step(int64_t step, int64_t batch, bool training = true) {
    step_ = step;
    batch_ = batch;
    training_ = training;
    draws_.clear();
  }
  // The point where merge() meets the other replicas of this process; must outlive the calls.
  void set_merge_point(MergePoint* point) { merge_point_ = point; }

 private:
  using Visits = std::vector<std::shared_ptr<void>>;
  void meet(const std::string& kind, std::shared_ptr<void> mine,
            const std::function<void(const Visits&)>& body);

  // As the owner of modules.
  VariableStore& variables() override { return variables_; }
  uint64_t seed() const override;
  bool training() const override { return training_; }
  RandomKey next_random_key(const std::string& name) override;
  std::shared_ptr<void>& kept(const std::string& name) override { return kept_[name]; }

  Replica& replica_;
  VariableStore& variables_;
  Summaries summaries_;
  int64_t step_ = 0;
  int64_t batch_ = 0;
  bool training_ = true;
  std::unordered_map<std::string, std::shared_ptr<void>> kept_;
  std::unordered_map<std::string, uint64_t> draws_;  // counts next_random_key(), in this call
  MergePoint* merge_point_ = nullptr;
};

namespace replica_call {

// The part of merge()'s result that a replica gets.
template <typename T>
struct Part {
  using Type = T;  // the type of that part
  // The whole result.
  static const T& of(const T& result, size_t /*replica*/) { return result; }
};
// The replica's own value.
template <typename T>
struct Part<PerReplica<T>> {
  using Type = T;  // the type of one value
  // The value of this replica.
  static const T& of(const PerReplica<T>& result, size_t replica) { return result[replica]; }
};

}  // namespace replica_call

template <typename Fn, typename... Args>
auto ReplicaContext::merge(Fn&& fn, const Args&... args) {
  using Result = std::decay_t<std::invoke_result_t<Fn&, const PerReplica<Args>&...>>;
  using Given = std::conditional_t<std::is_void_v<Result>, std::monostate, Result>;
  using Part = replica_call::Part<Given>;
  // Owns its values: a replica that stops waiting may destroy its arguments.
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

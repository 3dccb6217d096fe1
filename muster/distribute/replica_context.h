// What a replica function knows of itself while Strategy::run() calls it.
// Thread safety: belongs to the replica's thread.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/random.h"
#include "muster/distribute/session.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1::distribute {

class ReplicaContext {
 public:
  // `session` outlives it.
  explicit ReplicaContext(Session& session) : session_(session) {}
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

  int replica_id() const { return session_.replica_id(); }
  int num_replicas_in_sync() const { return session_.num_replicas_in_sync(); }
  // Steps that trained so far: 0 in the first.
  int64_t step() const { return step_; }

  // --- collectives: all replicas call them together, in the same order ---
  // The sum or mean of `value` over all replicas, given to each. Gradients flow back through it:
  // that of a sum is the sum of all gradients, and
  // backward() belongs into the same call of the replica function. Throws InvalidArgument when
  // shapes or dtypes differ.
  Tensor all_reduce(ReduceOp op, const Tensor& value) const;
  // The values of all replicas one after the other along `axis`, in which their sizes may differ.
  // Gradients flow back, each part's to where it came from.
  Tensor all_gather(const Tensor& value, int64_t axis = 0) const;

  // --- variables and random numbers ---
  // A variable of one's own: created at the first call with this name, equal on all replicas.
  // Throws InvalidArgument when it is new after the first step.
  const Tensor& variable(const VariableSpec& spec);
  // Another key for each name, step and replica.
  RandomKey random_key(const std::string& name) const;

  // Before every call of the replica function.
  void begin_step(int64_t step) { step_ = step; }

 private:
  Session& session_;
  int64_t step_ = 0;
};

}  // namespace muster::inline v0_1::distribute

// The CallContext of one replica, as the engine and the loops hold it: it defines a step, and which
// layers and replicas take part. Thread safety: as CallContext.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "muster/base/export.h"
#include "muster/layers/call_context.h"

namespace muster::inline v0_1 {

class MUSTER_PART_EXPORT StepContext : public CallContext {
 public:
  // `variables` outlives the context. `seed` decides the layers' draws, not initial values (the
  // store's seed does).
  StepContext(VariableStore& variables, uint64_t seed) : CallContext(variables, seed) {}
  // The same context: each CallContext is a StepContext, since nothing else can construct one.
  static StepContext& of(CallContext& context) { return static_cast<StepContext&>(context); }

  // While a Current lives, layers called on this thread without a context use its context.
  class MUSTER_PART_EXPORT Current {
   public:
    explicit Current(CallContext& context) : outer_(exchange_current(&context)) {}
    ~Current() { exchange_current(outer_); }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    CallContext* outer_;
  };

  // Is called before every step. The random numbers of layers are then a function of (seed, step,
  // replica, layer name), and of `batch` (0 is the first) if a step has several batches.
  void begin_step(bool training, int64_t step, int64_t replica, int64_t batch = 0);
  // Layers of which `frozen(name)` is true, by their full names, do not train: batch normalization
  // uses its moving statistics there and leaves them as they are, as in Keras. Empty: all train.
  void set_frozen(std::function<bool(const std::string& name)> frozen);
  // Connects layers with the replicas that train in step: `sum(value)` returns on each replica the
  // sum of all replicas' values, and lets gradients through. A context is alone until this is
  // called.
  void set_replicas(int64_t count, std::function<Tensor(const Tensor&)> sum);
  // Says that layers are called only for the shapes of their outputs, maybe on another machine than
  // the one that computes.
  void set_for_shapes_alone() { for_shapes_alone_ = true; }
};

}  // namespace muster::inline v0_1

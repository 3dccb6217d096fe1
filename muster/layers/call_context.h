// A CallContext gives a layer what it needs during a call: the variables of its model, whether this
// is training, and random keys. Each replica has one for each mode, owned by the code that makes
// its steps. Layers keep no state, so the same layers may run in several contexts at once. Thread
// safety: it belongs to one thread.
//
// Names follow Keras: the first layer of a class is "conv2d", the next "conv2d_1", counted within a
// scope in the order of their first call; a variable is "<scope>/<layer>/<slot>":
// "cnn/conv2d/kernel".
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/random.h"
#include "muster/tensor/tensor.h"
#include "muster/tensor/variable.h"

namespace muster::inline v0_1 {

namespace internal {
struct CallTape;
class CallTapeReader;
class FoldedKernel;
class MixedPrecisionScope;
class RecordingScope;
class ReplayScope;
}  // namespace internal

// Identifies a layer to a context. Every layer object has an id that is never used again, so a
// context cannot confuse a new layer with an old one.
struct MUSTER_EXPORT LayerIdentity {
  LayerIdentity(std::string class_name, std::string given_name);

  uint64_t id;
  std::string class_name;  // "conv2d", the base of automatic names
  std::string given_name;  // empty: named automatically
};

class MUSTER_EXPORT CallContext {
 public:
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // Layers first called while a Scope exists are named "<name>/..."; scopes do not nest. `name`
  // must outlive the scope.
  class Scope {
   public:
    Scope(CallContext& context, const std::string& name);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    CallContext& context_;
    const std::string* outer_;
  };

  // Returns the context of layers that are called without one on this thread: inside
  // Strategy::run() that of the replica. Elsewhere nullptr.
  static CallContext* current();

  // Whether this is training.
  bool training() const { return training_; }
  // Whether the layer trains: this is training, and the layer is not frozen. A frozen layer uses
  // its moving statistics and does not change them.
  bool trains(const LayerIdentity& layer);
  // The device of its variables.
  Device device() const { return variables_.device(); }
  // Sets to 0 the state that stateful layers keep between batches (variables of
  // VariableAggregation::kConcat), as Keras's Model.reset_states() does. Every replica resets its
  // own state: all replicas must call it in the same step, also those without examples.
  void reset_states();
  // Whether layers multiply bfloat16 numbers, as inside a mixed_precision().
  bool mixed_precision() const { return mixed_precision_; }
  // Whether layers are called only for the shapes of their outputs, possibly on another machine
  // than the one that computes.
  bool for_shapes_alone() const { return for_shapes_alone_; }

  // Returns the full name of the layer, which is chosen at its first call. Throws InvalidArgument
  // when another layer of the scope has that name.
  const std::string& name_of(const LayerIdentity& layer);
  // Returns variable number `slot` (0, 1, ...) of the layer. `describe` is called only at the first
  // call; it names the variable within the layer ("kernel"). Later calls use the number.
  const Tensor& variable(const LayerIdentity& layer, int slot,
                         const std::function<VariableSpec()>& describe);
  // Returns the rows `ids` of that variable, as Variable::rows() does.
  Tensor rows(const LayerIdentity& layer, int slot, const std::function<VariableSpec()>& describe,
              const Tensor& ids);
  // The same for Variable::placed_rows().
  Variable::PlacedRows placed_rows(const LayerIdentity& layer, int slot,
                                   const std::function<VariableSpec()>& describe,
                                   const Tensor& ids);
  // Returns the number of replicas that train in step, and the index of this one.
  int64_t num_replicas() const { return num_replicas_; }
  int64_t replica() const { return replica_; }
  // Returns to each of these replicas the sum of their values; gradients flow back. All replicas
  // call it together.
  Tensor sum_over_replicas(const Tensor& value) const;
  // Returns a new key: each call in a step returns another one.
  RandomKey random_key(const LayerIdentity& layer);
  // The same, but all replicas get the same key, of (seed, step, layer name). A layer that draws
  // for row i from key.derive(first_row(rows) + i) draws the same on any number of replicas.
  RandomKey common_random_key(const LayerIdentity& layer);
  // Returns the total number of rows of the replicas before this one; this one has `rows`. All
  // replicas call it together.
  int64_t first_row(int64_t rows) const;
  // Adds `loss` to the loss of the step, in training and in evaluation: a scalar, the mean over the
  // examples of the batch. With ReduceOp::kSum it is multiplied by the number of examples, so that
  // several replicas compute the same as one. Throws InvalidArgument unless it is a floating-point
  // scalar.
  void add_loss(const Tensor& loss);
  // Adds the penalty of a layer's output, [batch, ...], divided by the size of the batch, as Keras
  // does. Without a regularizer it does nothing.
  void add_activity_loss(const Regularizer& regularizer, const Tensor& output);
  // Returns the losses added in this step, and removes them. The caller adds them to a loss; the
  // step adds those that no caller took.
  std::vector<Tensor> take_losses();

 private:
  friend class StepContext;
  friend class internal::FoldedKernel;
  friend class internal::MixedPrecisionScope;
  friend class internal::RecordingScope;
  friend class internal::ReplayScope;

  // Made as part of a StepContext.
  CallContext(VariableStore& variables, uint64_t seed);
  // Sets current(), and returns its old value.
  static CallContext* exchange_current(CallContext* context);

  struct State {
    std::string name{};
    std::vector<Variable*> variables{};
    RandomKey key{};         // of (seed, name)
    uint64_t last_step = 0;  // the number of begin_step calls at its last draw
    uint64_t draws = 0;      // in that step
    std::shared_ptr<internal::FoldedKernel> folded{};
  };
  State& state_of(const LayerIdentity& layer);
  // Draws a key, or returns the tape's; `drawer` is the replica, or a value for all replicas.
  RandomKey noted_key(const LayerIdentity& layer, uint64_t drawer);
  RandomKey draw_key(const LayerIdentity& layer, uint64_t drawer);
  Variable& find_or_create(const LayerIdentity& layer, int slot,
                           const std::function<VariableSpec()>& describe);
  // Records for the tape that `variable` was read by rows; it had this many uses before.
  void note_rows(const Variable& variable, size_t uses_before);
  std::string choose_name(const LayerIdentity& layer);

  VariableStore& variables_;
  const uint64_t seed_;
  bool training_ = false;
  bool mixed_precision_ = false;
  bool for_shapes_alone_ = false;
  int64_t step_ = 0;
  int64_t replica_ = 0;
  int64_t batch_ = 0;
  int64_t num_replicas_ = 1;
  std::function<Tensor(const Tensor&)> sum_over_replicas_;
  std::function<bool(const std::string&)> frozen_;
  std::vector<Tensor> losses_;  // that layers added in this step
  uint64_t steps_begun_ = 0;
  const std::string* scope_ = nullptr;
  std::unordered_map<uint64_t, State> states_;
  uint64_t recent_id_ = 0;  // a layer asks several times in a row
  State* recent_ = nullptr;
  bool has_folded_ = false;                          // kernels
  std::unordered_map<std::string, int64_t> counts_;  // of automatic names, by "<scope>/<class>"
  std::unordered_set<std::string> taken_;
  internal::CallTape* recorded_ = nullptr;
  internal::CallTapeReader* replayed_ = nullptr;
};

}  // namespace muster::inline v0_1

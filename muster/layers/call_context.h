// A CallContext gives a layer what it needs while it is called: the variables of its model, whether
// this is training, and random keys. Each replica has one for each mode, owned by the code that
// makes its steps. Layers keep no state, so the same layers may run in several contexts at once.
// Thread safety: it belongs to one thread.
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

// Tells a context which layer asks. Every layer object has an id that is never used again, so a
// context cannot take a new layer for an old one.
struct MUSTER_EXPORT LayerIdentity {
  LayerIdentity(std::string class_name, std::string given_name);

  uint64_t id;
  std::string class_name;  // "conv2d", the stem of automatic names
  std::string given_name;  // empty: named automatically
};

class MUSTER_EXPORT CallContext {
 public:
  CallContext(const CallContext&) = delete;
  CallContext& operator=(const CallContext&) = delete;

  // Layers first called while a Scope lives are named "<name>/..."; scopes do not nest. `name`
  // outlives the scope.
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

  // Gives the context with which layers are called on this thread where they are given none: inside
  // of Strategy::run() that of the replica. Elsewhere nullptr.
  static CallContext* current();

  // Whether this is training.
  bool training() const { return training_; }
  // Whether the layer trains: this is training, and the layer is not frozen. One that is uses its
  // moving statistics, and leaves them as they are.
  bool trains(const LayerIdentity& layer);
  // Where its variables are.
  Device device() const { return variables_.device(); }
  // Sets to 0 what stateful layers keep from one batch to the next (variables of
  // VariableAggregation::kConcat), as Keras's Model.reset_states() does. Every replica resets its
  // own: all of them call it in the same step, those without examples too.
  void reset_states();
  // Whether layers multiply numbers of bfloat16: those in a mixed_precision() do.
  bool mixed_precision() const { return mixed_precision_; }
  // Whether layers are called for the shapes of what they give alone, maybe on another machine than
  // the one that computes.
  bool for_shapes_alone() const { return for_shapes_alone_; }

  // Gives the full name of the layer, which is chosen at its first call. Throws InvalidArgument
  // when another layer of the scope has that name.
  const std::string& name_of(const LayerIdentity& layer);
  // Gives the variable in place `slot` (0, 1, ...) of the layer. `describe` is called at the first
  // call alone, and names the variable within the layer ("kernel"). Later calls look it up by
  // number.
  const Tensor& variable(const LayerIdentity& layer, int slot,
                         const std::function<VariableSpec()>& describe);
  // Gives the rows `ids` of that variable, as Variable::rows() does.
  Tensor rows(const LayerIdentity& layer, int slot, const std::function<VariableSpec()>& describe,
              const Tensor& ids);
  // Likewise, as Variable::placed_rows() does.
  Variable::PlacedRows placed_rows(const LayerIdentity& layer, int slot,
                                   const std::function<VariableSpec()>& describe,
                                   const Tensor& ids);
  // Gives the number of replicas that train in step, and which of them this is.
  int64_t num_replicas() const { return num_replicas_; }
  int64_t replica() const { return replica_; }
  // Gives each of these replicas the sum of their values; gradients flow back. All replicas call it
  // together.
  Tensor sum_over_replicas(const Tensor& value) const;
  // Gives a fresh key: the second call in a step gives another one than the first.
  RandomKey random_key(const LayerIdentity& layer);
  // The same, but all replicas are given one key, of (seed, step, layer name). A layer that draws
  // for row i from key.derive(first_row(rows) + i) draws the same on any number of replicas.
  RandomKey common_random_key(const LayerIdentity& layer);
  // Gives the number of rows that the replicas before this one have together; this one has `rows`.
  // All replicas call it together.
  int64_t first_row(int64_t rows) const;
  // Adds `loss` to that of the step, in training and in evaluation: a scalar, the mean over the
  // examples of the batch. Where a step adds losses (ReduceOp::kSum), it counts times the
  // examples, so that replicas together compute what one computes. Throws InvalidArgument for what
  // is no floating scalar.
  void add_loss(const Tensor& loss);
  // Adds the penalty of what a layer gives, [batch, ...], divided by the size of the batch, as
  // Keras does. Without a regularizer it does nothing.
  void add_activity_loss(const Regularizer& regularizer, const Tensor& output);
  // Gives what was added in this step, and forgets it. The caller adds it to a loss; the step
  // does so with what no caller took.
  std::vector<Tensor> take_losses();

 private:
  friend class StepContext;
  friend class internal::FoldedKernel;
  friend class internal::MixedPrecisionScope;
  friend class internal::RecordingScope;
  friend class internal::ReplayScope;

  // A StepContext is made, which is one.
  CallContext(VariableStore& variables, uint64_t seed);
  // Sets current(), and gives what it was.
  static CallContext* exchange_current(CallContext* context);

  struct State {
    std::string name{};
    std::vector<Variable*> variables{};
    RandomKey key{};         // of (seed, name)
    uint64_t last_step = 0;  // the count of begin_step calls when it last drew
    uint64_t draws = 0;      // in that step
    std::shared_ptr<internal::FoldedKernel> folded{};
  };
  State& state_of(const LayerIdentity& layer);
  // Draws a key, or gives the one of the tape; `drawer` is the replica, or what stands for all of
  // them.
  RandomKey noted_key(const LayerIdentity& layer, uint64_t drawer);
  RandomKey draw_key(const LayerIdentity& layer, uint64_t drawer);
  Variable& find_or_create(const LayerIdentity& layer, int slot,
                           const std::function<VariableSpec()>& describe);
  // Notes that `variable` was read by rows, for who records; it had so many uses before.
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

// Makes the updates of a run: gradients of this replica in, new weights on all replicas out.
// Thread safety: belongs to the replica's thread; backward runs on it.
//
// The order of calls: build() once, then for each update add() for every batch of it and update()
// at the end. Every replica makes the same calls in the same order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/collectives/communicator.h"
#include "muster/distribute/exchange.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/group.h"
#include "muster/distribute/replica_place.h"
#include "muster/distribute/span_recorder.h"
#include "muster/distribute/step.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"

namespace muster::inline v0_1::distribute {

// The place of a batch among the batches of its update.
struct Turn {
  bool first = true;
  bool last = true;
  bool alone() const { return first && last; }
};

// An update and where its time went.
struct Updated {
  StepResult result{};
  double reduction = 0;  // seconds
  double update = 0;     // seconds
};

class SharedRun;

class Updater {
 public:
  virtual ~Updater() = default;

  // The run that this worker shares with others that train at their own pace; nullptr in step with
  // them.
  virtual SharedRun* shared() { return nullptr; }

  // Options that must be equal on all replicas, a line each.
  virtual std::vector<std::string> agreements() const { return {}; }
  // Moves the variables of `table` that `train_op` trains to where updates are made.
  virtual void build(VariableTable& table, const optim::TrainOp& train_op) = 0;
  // Backward of one batch: its gradients are added to those of the update, weighted by `seed`.
  virtual void add(const optim::TrainOp& train_op, double seed, Turn turn) = 0;
  // The update with all added gradients, over all replicas, and then the updates of
  // TrainOp::updates. Throws NonFinite before anything is updated if the loss over all replicas is
  // not finite.
  virtual Updated update(const optim::TrainOp& train_op, const Accumulated& accumulated) = 0;
  // Notes the reduction of each bucket in `recorder`, which outlives its use; nullptr: nowhere, as
  // from the start. Between updates, after build().
  virtual void record_into(SpanRecorder* /*recorder*/) {}
  // The learning rates of the last update by name, as FlatParameters gives them.
  virtual std::map<std::string, double> learning_rates() const = 0;
  // Optimizer slots and counters by checkpoint name; views, which may be written.
  virtual std::map<std::string, Tensor> slots() const = 0;
  // Weights, slots and counters in few contiguous pieces, which all replicas get from the chief.
  virtual std::vector<Tensor> pieces() const = 0;
};

// How gradients travel; see CommunicationOptions.
struct WireOptions {
  std::optional<int64_t> bytes_per_pack{};
  DType wire_dtype = kFloat32;
};

// Makes an update with the gradients that autograd left in the parameters, times `scale`.
using ApplyGradients =
    std::function<void(FlatParameters& parameters, const optim::TrainOp& train_op, double scale)>;

// Makes the updater of a replica that is alone: optimizers read gradients where autograd left them.
// With `apply`, that is done in place of FlatParameters::update_in_place(), and `built` is called
// when the parameters lie where they stay.
MUSTER_PART_EXPORT std::unique_ptr<Updater> make_in_place_updater(
    ApplyGradients apply = {}, std::function<void(FlatParameters& parameters)> built = {});
// Makes the updater of the replica at `place`: gradients are summed over `communicator` while
// backward runs. The arguments must outlive the updater.
std::unique_ptr<Updater> make_reducing_updater(const ReplicaPlace& place,
                                               Communicator& communicator, Group& group,
                                               Exchange& exchange, const WireOptions& wire);

}  // namespace muster::inline v0_1::distribute

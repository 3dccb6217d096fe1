// The contents of one parameter server: parts of variables, their optimizers' slots, and the
// updates. Thread safety: any thread. A reader sees a shard before an update or after it, never in
// between; updates of several workers run at the same time if they are at different shards.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/shared_memory.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/variable_table.h"
#include "muster/optim/train_op.h"
#include "muster/plan/placement.h"

namespace muster::inline v0_1::ps {

// A shard, and the variable it is a part of.
struct ShardOf {
  VariableSpec variable{};  // the whole one
  plan::Shard shard{};
  Tensor initial = {};  // of the whole variable; if undefined, the initializer makes it
};

// The gradients of one worker's step, on their way into the weights. Its memory is kept from one
// step to the next.
class StagedGradients;
class SharedWeights;

class ShardStore {
 public:
  // `train_op` names the optimizer of each variable; its losses do not matter. The worker
  // transforms gradients and adds regularizers: these need all of the model. Shards are kept in at
  // most `groups` groups, each with a lock of its own. With `shared`, the weights lie in memory
  // that other processes can read, if the system has such memory. One of the servers `leads`: it
  // sees all losses in an order, and reduces learning rates for all.
  ShardStore(const std::vector<ShardOf>& shards, const optim::TrainOp& train_op, uint64_t seed,
             int groups, bool shared = false, bool leads = true);
  ~ShardStore();

  // --- by the shard's place in the list it was made from ---
  size_t size() const { return places_.size(); }
  bool row_sparse(size_t shard) const;
  // A copy of the weights of all shards that are not row-sparse, in order; each is contiguous.
  // `*memory` keeps the buffers from one call to the next.
  std::vector<Tensor> read_dense(std::vector<Tensor>* memory);
  // The rows `ids`, int64 [n], of a row-sparse shard; numbers are of the shard's own rows.
  Tensor read_rows(size_t shard, const Tensor& ids);

  // Where the gradients of a step are written to: flat, of the shard's elements.
  std::unique_ptr<StagedGradients> stage();
  Tensor destination(StagedGradients& staged, size_t shard);
  // The same in memory that a worker writes to: `area` has dense_bytes() for them.
  std::unique_ptr<StagedGradients> stage(std::shared_ptr<const SharedMemory> area);
  int64_t dense_bytes() const;
  // Where in an area the gradient of a shard that is not row-sparse lies.
  int64_t dense_place(size_t shard) const;
  // Drops the gradients that were written there.
  static void forget(StagedGradients& staged);
  // Gradients of rows: ids are sorted, each once.
  void set_rows(StagedGradients& staged, size_t shard, distribute::RowGradient gradient);
  // Throws InvalidArgument unless `ids` are rows of this shard, which is row-sparse.
  void check_rows(size_t shard, const Tensor& ids) const;
  // Memory for that many rows of a row-sparse shard.
  Tensor rows_like(size_t shard, int64_t rows) const;
  TensorSpec rows_spec(size_t shard, int64_t rows) const;
  // Combines the gradients of several workers to those of one update, in the first of them.
  void merge(const std::vector<std::unique_ptr<StagedGradients>>& staged);
  // Makes the update; shards without a gradient stay unchanged. `turn` chooses where to begin, so
  // that workers do not wait for each other. Learning rates are reduced by `factors`, which the
  // leading server determines itself. Returns them.
  std::vector<double> apply(StagedGradients& staged, size_t turn, std::vector<double> factors = {});
  // The factors of the next update; empty if no rate is reduced.
  std::vector<double> factors();

  // --- memory that other processes read --- nullptr if weights are not shared.
  const SharedWeights* shared() const { return shared_.get(); }
  SharedWeights* shared() { return shared_.get(); }
  size_t groups() const { return groups_.size(); }
  // Where the weights of a shard are in it.
  size_t group_of(size_t shard) const { return places_[shard].group; }
  int64_t shared_place(size_t shard) const;

  // --- all of it --- Weights, slots and counters by checkpoint name; names of parts end in
  // "/part_<k>".
  std::map<std::string, TensorSpec> specs();
  std::map<std::string, Tensor> copy();
  // Describes the first weight that is not finite in `copy`, which copy() has made; nothing when
  // all are.
  std::optional<std::string> find_non_finite(const std::map<std::string, Tensor>& copy) const;
  // Throws InvalidArgument for a name or form that is not here.
  void write(const std::map<std::string, Tensor>& tensors);
  // The same for rows of one of them, from `begin` on.
  void write_rows(const std::string& name, int64_t begin, const Tensor& rows);
  // Slots that begin as the weights get the weights' present values, before the first update.
  void begin_slots();
  std::map<std::string, double> learning_rates();
  int64_t bytes() const { return bytes_; }

 private:
  struct Group;
  struct Place {
    size_t group = 0;
    int parameter = -1;  // of a dense shard, in its group
    int table = -1;      // of a row-sparse one
  };
  std::map<std::string, Tensor> tensors(Group& group) const;
  // Takes the loss of an update, and gives the factors of that update.
  std::vector<double> follow(const StagedGradients& staged);
  // Throws InvalidArgument unless the shard is row-sparse.
  const Variable& table(size_t shard) const;
  // Makes shared_, with memory for the shards; leaves it as it is if the system has no such memory.
  void share(const std::vector<ShardOf>& shards, size_t groups);
  Tensor allocate(int64_t bytes);

  optim::TrainOp train_op_;
  std::unique_ptr<SharedWeights> shared_;
  std::vector<std::unique_ptr<Group>> groups_;
  std::vector<Place> places_;
  int64_t bytes_ = 0;
  const bool leads_;
  distribute::Plateaus plateaus_;  // of all groups; under the first one's lock
  bool reduces_ = false;
};

}  // namespace muster::inline v0_1::ps

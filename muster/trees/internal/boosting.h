// Adds tree after tree, each for the remaining error of those before it (Friedman, 2001; by second
// derivatives, Chen & Guestrin, 2016). Thread safety: belongs to the replica's thread; all replicas
// make the same calls together.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "muster/distribute/exchange.h"
#include "muster/trees/ensemble.h"
#include "muster/trees/internal/grow_tree.h"
#include "muster/trees/internal/objective.h"
#include "muster/trees/internal/rows.h"

namespace muster::inline v0_1::trees {

// How trees are made.
struct BoostingOptions {
  Loss loss = Loss::kLogistic;
  bool center_bias = false;  // of one output: the logit of the mean label, before the first tree
  std::vector<bool> category{};  // [features]
  bool speaks = true;            // whether this replica's warnings are logged
  GrowOptions grow{};
};

// The values on which replicas have to agree in each round.
struct Requests {
  bool stop = false;
  bool save = false;
};

class Boosting {
 public:
  // Continues from `ensemble`; one without trees gets its bias here. `rows` are this replica's, of
  // `replicas`. All replicas get the same trees, however the rows are divided. Throws
  // InvalidArgument if no replica has a row, and the errors of make_bins().
  Boosting(Rows rows, const BoostingOptions& options, Ensemble ensemble,
           distribute::Exchange& exchange, int64_t replicas);
  ~Boosting();

  const Ensemble& ensemble() const { return ensemble_; }
  // Adds a tree for each logit. `requests` are this replica's; afterwards they are the union over
  // all replicas. Returns the number of layers that were looked at, the most of these trees.
  int64_t round(Requests* requests);
  // The mean loss over the rows of all replicas.
  double loss();

 private:
  void center(const Rows& rows);
  std::vector<double> largest_of_all(const std::vector<double>& values);

  const BoostingOptions options_;
  Ensemble ensemble_;
  distribute::Exchange& exchange_;
  const int64_t replicas_;
  Rows rows_;  // without columns, once they are binned
  Scores scores_;
  Bins bins_;
  BinnedRows binned_;
  std::unique_ptr<Grower> grower_;
};

}  // namespace muster::inline v0_1::trees

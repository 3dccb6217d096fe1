// The part of feature columns that runs in the input pipeline, before the step: texts, hashes,
// vocabularies, crosses and buckets become ids. Thread safety: an immutable value; calls may come
// from several threads at once.
//
//   auto input = data::csv({"adult.csv"}, {.label = "income"}).shuffle(30000).batch(128)
//                    .map(feature_column::resolve(columns)).prefetch();
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/base/export.h"
#include "muster/features/feature_column.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::feature_column {

// The result of resolve(): a function for Dataset::map() after batch().
class MUSTER_EXPORT FeatureTransform {
 public:
  // Takes a dict of features with a row per example, or a tuple that begins with one, and adds:
  //   numeric_column       "<name>/values"   float32 [batch, shape...]
  //   categorical columns  "<name>/ids"      int64 [batch, values], -1 where there is none
  //   columns with weights "<name>/weights"  float32 [batch, values], in addition
  //   sequence columns     "<name>/lengths"  int64 [batch], in addition; their values have a step
  //                                          axis after the batch axis
  // <name> is that of the column inside an indicator or embedding. Existing entries are kept. Texts
  // that were read are removed, all else is kept. (Rows of ids have equal length, so slicing,
  // sharding and batches without rows work as for all other values. The longest row of the batch
  // sets that length, so join or split batches before resolve().)
  //
  // Throws InvalidArgument with the column for a missing feature (and lists the existing ones), for
  // another dtype or shape than the column takes, and for weights that do not match.
  Element operator()(const Element& batch) const;

 private:
  friend FeatureTransform resolve(const std::vector<FeatureColumn>& columns);
  struct Plan;
  explicit FeatureTransform(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

// Makes the function for these columns; a column may occur several times, also inside others.
// Throws InvalidArgument for two columns of one name that read their features differently.
MUSTER_EXPORT FeatureTransform resolve(const std::vector<FeatureColumn>& columns);

// The output of resolve() for one column, or for the column inside an indicator or embedding.
struct ResolvedColumn {
  // An added entry: "city/ids" of kInt64, "age/values" of kFloat32.
  struct Entry {
    std::string key{};
    DType dtype{};
  };
  std::vector<Entry> entries{};
  bool is_dense = false;         // numbers or their buckets, which a layer can compute itself too
  bool gives_sequences = false;  // of rows of unequal lengths
  bool crosses = false;          // an example has one value for each combination of the values it
                                 // reads
};
// Returns what `column` reads and adds.
MUSTER_EXPORT ResolvedColumn resolved_column(const FeatureColumn& column);

}  // namespace muster::inline v0_1::feature_column

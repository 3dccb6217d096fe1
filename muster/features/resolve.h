// The part of feature columns that runs in the input pipeline, ahead of the step: texts, hashes,
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

// What resolve() gives: a function for Dataset::map() behind batch().
class MUSTER_EXPORT FeatureTransform {
 public:
  // Takes a dict of features with a row per example, or a tuple that begins with one, and adds for
  //   numeric_column       "<name>/values"   float32 [batch, shape...]
  //   categorical columns  "<name>/ids"      int64 [batch, values], -1 where there is none
  //   those with weights   "<name>/weights"  float32 [batch, values], as well
  //   sequence columns     "<name>/lengths"  int64 [batch], as well; their values have an axis of
  //                                          steps behind the batch's
  // where the name is that of the column inside of an indicator or embedding. Entries that are
  // there already stay. Texts that were read are left out, all else is kept. (Ids are rows of equal
  // length, so slicing, sharding and batches without rows work on them as on all other values; the
  // longest row of the batch decides, so batches are joined or cut before they are resolved.)
  //
  // Throws InvalidArgument, naming the column, for a feature that is missing (with those there
  // are), of another dtype or shape than the column takes, and for weights that do not match.
  Element operator()(const Element& batch) const;

 private:
  friend FeatureTransform resolve(const std::vector<FeatureColumn>& columns);
  struct Plan;
  explicit FeatureTransform(std::shared_ptr<const Plan> plan) : plan_(std::move(plan)) {}
  std::shared_ptr<const Plan> plan_;
};

// Makes it for these columns; one may be there several times, inside of others too. Throws
// InvalidArgument for two columns of one name that read their features differently.
MUSTER_EXPORT FeatureTransform resolve(const std::vector<FeatureColumn>& columns);

// What resolve() makes of one column, or of the one inside of an indicator or embedding.
struct ResolvedColumn {
  // An entry that it adds: "city/ids" of kInt64, "age/values" of kFloat32.
  struct Entry {
    std::string key{};
    DType dtype{};
  };
  std::vector<Entry> entries{};
  bool is_dense = false;         // numbers or their buckets, which a layer makes by itself as well
  bool gives_sequences = false;  // of rows of unequal lengths
  bool crosses = false;          // an example has as many values as combinations of those it reads
};
// What `column` reads and gives.
MUSTER_EXPORT ResolvedColumn resolved_column(const FeatureColumn& column);

}  // namespace muster::inline v0_1::feature_column

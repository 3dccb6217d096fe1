// Requests of an exported model over feature columns. Thread safety: a pure function.
//
//   estimator.export_model("export", feature_column::serving_input_receiver(columns));
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// A client sends the features that the columns read, by their keys: numbers of the column's dtype
// and shape, texts and integers of categories, and weights. Or it sends serialized tf.Examples, as
// in make_parse_example_spec(). By default an example has one value of each category, "" or -1 for
// none. For several values, also of a cross, set the maximum before the export:
// receiver.features["words/ids"].shape = {5}.
//
// The model is traced with the output of resolve() for these, which is also the input of
// Servable::run():
//   numeric_column       "<key>"           its dtype and shape; the model normalizes it
//   bucketized_column    "<key>"           the same: the model finds the bucket
//   categorical columns  "<name>/ids"      int64 [1], -1: none
//   columns with weights "<name>/weights"  float32 [1], in addition
// <name> is that of the column inside an indicator or embedding. Throws InvalidArgument without
// columns, for columns of sequences, whose lengths differ, if two columns read one key differently,
// and for a cross over numbers that a normalizer_fn changes, because that is code.
MUSTER_EXPORT ServingInputReceiver
serving_input_receiver(const std::vector<FeatureColumn>& columns);

}  // namespace muster::inline v0_1::feature_column

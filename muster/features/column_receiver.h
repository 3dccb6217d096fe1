// What an exported model over feature columns is asked with. Thread safety: a pure function.
//
//   estimator.export_model("export", feature_column::serving_input_receiver(columns));
#pragma once

#include <vector>

#include "muster/base/export.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// A client gives the features that the columns read, by their keys: numbers of the column's dtype
// and shape, texts and integers of categories, and weights. Or it gives serialized tf.Examples, as
// make_parse_example_spec() has them. An example has one value of each category, "" or -1 where
// there is none; where it has several, say how many at most, also of a cross, before the export:
// receiver.features["words/ids"].shape = {5}.
//
// The model is traced with what resolve() makes of these, and that is what Servable::run() takes:
//   numeric_column       "<key>"           its dtype and shape; the model normalizes it
//   bucketized_column    "<key>"           the same: the model finds the bucket
//   categorical columns  "<name>/ids"      int64 [1], -1: none
//   those with weights   "<name>/weights"  float32 [1], as well
// where the name is that of the column inside of an indicator or embedding. Throws InvalidArgument
// for no columns, for columns of sequences, whose lengths differ, where two columns read one key
// differently, and for a cross over numbers that a normalizer_fn changes, which is code.
MUSTER_EXPORT ServingInputReceiver
serving_input_receiver(const std::vector<FeatureColumn>& columns);

}  // namespace muster::inline v0_1::feature_column

// What an exported model over feature columns is asked with. Thread safety: a pure function.
//
//   estimator.export_model("export", feature_column::serving_input_receiver(columns));
#pragma once

#include <vector>

#include "muster/export/serving_input_receiver.h"
#include "muster/features/feature_column.h"

namespace muster::inline v0_1::feature_column {

// Gives the features of a request. Of one example they are
//   numeric_column       "<key>"           its dtype and shape; the model normalizes it
//   bucketized_column    "<key>"           the same: the model finds the bucket
//   categorical columns  "<name>/ids"      int64 [1], the id that resolve() gives; -1: none
//   those with weights   "<name>/weights"  float32 [1], as well
// where the name is that of the column inside of an indicator or embedding. They are ids, since an
// export has no texts. An example has one value of each category; where it has several, set another
// shape: receiver.features["words/ids"].shape = {5}. Throws InvalidArgument for no columns, for
// columns of sequences, whose lengths differ, and where two columns read one key differently.
ServingInputReceiver serving_input_receiver(const std::vector<FeatureColumn>& columns);

}  // namespace muster::inline v0_1::feature_column

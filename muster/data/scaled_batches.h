// Larger batches for a replica that computes on several devices as one. Thread safety: a pure
// function.
#pragma once

#include <cstdint>

#include "muster/data/dataset.h"

namespace muster::inline v0_1::data {

// Returns the pipeline with its last batch(n) made batch(n * factor), on every branch. The sizes of
// global_batch() and rebatch() stay as they are: they do not depend on the number of devices.
Dataset scaled_batches(const Dataset& dataset, int64_t factor);

}  // namespace muster::inline v0_1::data

// Input functions over arrays in memory, as tf.estimator.inputs.numpy_input_fn makes them.
// Thread safety: pure functions; what they return may be called from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/data/dataset.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// Options of numpy_input_fn().
struct NumpyInputOptions {
  int64_t batch_size = 128;
  std::optional<int64_t> num_epochs = 1;  // nullopt: without end, in full batches alone
  std::optional<bool> shuffle;            // must be said: true for training, false otherwise
  std::optional<uint64_t> seed;           // of the shuffle; the iterator's when unset
  // Rows a shuffle draws from; all of them when unset. Only row numbers wait in it.
  std::optional<int64_t> queue_capacity;
};

// An input function for Estimators: the rows of `x`, a tensor or a dict of them, and of the labels
// `y`, in batches. Its elements are (x, y), x alone without y. Batches run over the border of
// epochs, so that only the last one may be short. Throws InvalidArgument when shuffle is unset, for
// empty dicts, for a key that is in x and in y, for values with unequal first dimensions (naming
// both keys), and for counts below 1.
std::function<Dataset()> numpy_input_fn(const Element& x, const std::optional<Element>& y,
                                        const NumpyInputOptions& options);

// The same of the arrays in a .npz file: y is the one called `label`, x all others. Throws as
// load_npz() does too, NotFound when there is no `label`.
std::function<Dataset()> numpy_input_fn(const std::string& npz_path,
                                        const std::optional<std::string>& label,
                                        const NumpyInputOptions& options);

}  // namespace muster::inline v0_1::data

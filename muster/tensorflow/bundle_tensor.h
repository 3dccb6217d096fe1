// Tensors of checkpoints of TensorFlow as tensors of LibTorch. Thread safety: free functions.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::tensorflow {

// A dtype in the files, and its dtype in Muster.
struct BundleDtypeRow {
  BundleDtype theirs;
  DType ours;
  bool as_it_is;  // the bytes are the same
};

// nullptr for texts, and for dtypes that LibTorch lacks.
MUSTER_PART_EXPORT const BundleDtypeRow* row_of_dtype(BundleDtype dtype);

// Reads a tensor whose dtype has a row, and all its pieces; `name` is for errors. Throws the errors
// of BundleReader::read(), and InvalidArgument for a number of uint64 that int64 lacks.
MUSTER_PART_EXPORT Tensor read_bundle_tensor(const BundleReader& bundle, const std::string& name,
                                             const BundleEntry& entry);

}  // namespace muster::inline v0_1::tensorflow

// Reads files in the format of LIBSVM and SVMlight: a line is a label and index:value pairs. Thread
// safety: a pure function.
#pragma once

#include <cstdint>
#include <memory>

#include "muster/base/export.h"
#include "muster/data/element_reader.h"
#include "muster/formats/compression.h"
#include "muster/tensor/tensor.h"

namespace muster::inline v0_1::data {

// Options of libsvm_format().
struct LibsvmOptions {
  int64_t num_features = 0;  // required: the largest index
  bool zero_based = false;   // indices count from 0, else from 1
  // True: a row holds all features. False: it holds only the pairs of its line, and rows come one
  // at a time.
  bool dense = true;
  DType label_dtype = kFloat32;  // or kInt64
  formats::Compression compression = formats::Compression::kAuto;
};

// Reads files of such lines. Dense rows are ({features: float32[n, num_features]}, label[n]), with
// zeros for missing pairs. Others are ({indices: int64[1, pairs], values: float32[1, pairs]},
// label[1]), with indices from 0: padded_batch() makes batches of them. Empty lines and text after
// a # are skipped. Positions are byte offsets. Throws InvalidArgument for options out of range.
// Reading throws Corrupt with file, line and value for an invalid label or pair, and for indices
// that do not ascend or are out of range; the next read continues after that line.
MUSTER_EXPORT std::shared_ptr<const FileFormat> libsvm_format(const LibsvmOptions& options);

}  // namespace muster::inline v0_1::data

// Reads and writes NumPy's arrays: .npy files, and .npz archives of several. Thread safety: pure
// functions; a file is read whole when they are called.
#pragma once

#include <string>

#include "muster/base/export.h"
#include "muster/tensor/element.h"

namespace muster::inline v0_1::data {

// Reads the array of a .npy file. It keeps its shape, in row-major order whatever the file's order.
// LibTorch's only unsigned integer is uint8: uint16 becomes int32, uint32 and uint64 become int64.
// Throws NotFound for a missing file; Corrupt for a damaged file; InvalidArgument for an array of
// strings (load_npy_value() reads it), of objects, records, dates or long doubles, and for a uint64
// above 2^63 - 1.
MUSTER_EXPORT Tensor load_npy(const std::string& path);
// Does the same, and reads arrays of dtype S and U as Strings (U becomes UTF-8).
MUSTER_EXPORT Value load_npy_value(const std::string& path);

// Reads all arrays of a .npz file into a dict by their names:
// Dataset::from_tensor_slices(load_npz(path)). Throws as load_npy_value() does, naming the entry,
// and Corrupt for a damaged archive.
MUSTER_EXPORT Element load_npz(const std::string& path);

// Writes a .npy file that appears complete or not at all. Throws InvalidArgument for a dtype that
// NumPy does not have (bfloat16, quantised ones) and for an undefined tensor.
MUSTER_EXPORT void save_npy(const std::string& path, const Tensor& tensor);

}  // namespace muster::inline v0_1::data

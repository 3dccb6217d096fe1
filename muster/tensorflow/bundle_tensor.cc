#include "muster/tensorflow/bundle_tensor.h"

#include <algorithm>
#include <array>
#include <span>

#include "muster/checkpoint/widened_tensor.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::tensorflow {
namespace {

constexpr std::array<BundleDtypeRow, 15> kDtypes = {{
    {BundleDtype::kFloat, at::kFloat, true},
    {BundleDtype::kDouble, at::kDouble, true},
    {BundleDtype::kInt32, at::kInt, true},
    {BundleDtype::kUint8, at::kByte, true},
    {BundleDtype::kInt16, at::kShort, true},
    {BundleDtype::kInt8, at::kChar, true},
    {BundleDtype::kComplex64, at::kComplexFloat, true},
    {BundleDtype::kInt64, at::kLong, true},
    {BundleDtype::kBool, at::kBool, true},
    {BundleDtype::kBfloat16, at::kBFloat16, true},
    {BundleDtype::kComplex128, at::kComplexDouble, true},
    {BundleDtype::kHalf, at::kHalf, true},
    {BundleDtype::kUint16, at::kInt, false},
    {BundleDtype::kUint32, at::kLong, false},
    {BundleDtype::kUint64, at::kLong, false},
}};

Tensor read_piece(const BundleReader& bundle, const std::string& name, const BundleEntry& entry,
                  const BundlePiece& piece) {
  const BundleDtypeRow& row = *row_of_dtype(entry.dtype);
  if (row.as_it_is) {
    Tensor tensor = torch::empty(piece.shape, row.ours);
    bundle.read(name, piece, {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
    return tensor;
  }
  std::string bytes(piece.bytes, '\0');
  bundle.read(name, piece, std::as_writable_bytes(std::span(bytes)));
  return widened_tensor(bytes_of(bytes), element_bytes(entry.dtype), piece.shape, name);
}

}  // namespace

const BundleDtypeRow* row_of_dtype(BundleDtype dtype) {
  const auto* row = std::ranges::find(kDtypes, dtype, &BundleDtypeRow::theirs);
  return row == kDtypes.end() ? nullptr : row;
}

Tensor read_bundle_tensor(const BundleReader& bundle, const std::string& name,
                          const BundleEntry& entry) {
  if (entry.pieces.size() == 1) return read_piece(bundle, name, entry, entry.pieces.front());
  // Parts that overlap leave a gap, which shows no old memory.
  Tensor all = torch::zeros(entry.shape, row_of_dtype(entry.dtype)->ours);
  for (const BundlePiece& piece : entry.pieces) {
    Tensor part = all;
    for (size_t axis = 0; axis < piece.shape.size(); ++axis)
      part = part.narrow(static_cast<int64_t>(axis), piece.begin[axis], piece.shape[axis]);
    part.copy_(read_piece(bundle, name, entry, piece));
  }
  return all;
}

}  // namespace muster::inline v0_1::tensorflow

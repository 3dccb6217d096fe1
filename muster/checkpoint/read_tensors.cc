#include "muster/checkpoint/read_tensors.h"

#include <fmt/format.h>

#include <utility>

#include "muster/base/error.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/checkpoint/internal/safetensors_checkpoint.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {

std::map<std::string, Tensor> read_tensors(FileSystem& files, const std::string& path) {
  const auto opened = formats::SafetensorsReader::open(files, path);
  if (!opened.ok()) throw opened.error();
  const formats::SafetensorsReader& reader = opened.value();
  if (reader.metadata().contains("muster")) return read_checkpoint(files, path).tensors;
  std::map<std::string, Tensor> tensors;
  for (const formats::TensorEntry& entry : reader.tensors()) {
    const auto dtype = internal::dtype_of_safetensors(entry.dtype);
    if (!dtype) {
      throw invalid_argument(
          fmt::format("{}: the tensor {} has the dtype {}", path, entry.name, entry.dtype),
          "not supported: convert it to one of LibTorch's");
    }
    Tensor tensor = at::empty(entry.shape, *dtype);
    const MutableBytes bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
    if (const Status read = reader.read(entry, bytes); !read.ok()) throw read.error();
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace muster::inline v0_1

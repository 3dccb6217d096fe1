#include "muster/kerasfiles/keras_checkpoint.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/checkpoint/widened_tensor.h"
#include "muster/formats/keras_file.h"
#include "muster/hdf/keras_file.h"
#include "muster/tensor/libtorch.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_kerasfiles_linked;
const int muster_kerasfiles_linked = 1;
}

namespace muster::inline v0_1::kerasfiles {
namespace {

using hdf::HdfArray;
using hdf::HdfDtype;

[[maybe_unused]] const bool registered = [] {
  for (const std::string_view ending : formats::kKerasEndings) {
    register_checkpoint_format(
        {.suffix = std::string(ending), .is_file = true, .open = open_keras_checkpoint});
  }
  return true;
}();

// The dtype of tensors, and whether the bytes in the file are theirs.
struct OurDtype {
  DType dtype;
  bool as_it_is;
};

std::optional<OurDtype> ours(HdfDtype dtype) {
  switch (dtype) {
    case HdfDtype::kFloat16:
      return OurDtype{at::kHalf, true};
    case HdfDtype::kBfloat16:
      return OurDtype{at::kBFloat16, true};
    case HdfDtype::kFloat32:
      return OurDtype{at::kFloat, true};
    case HdfDtype::kFloat64:
      return OurDtype{at::kDouble, true};
    case HdfDtype::kInt8:
      return OurDtype{at::kChar, true};
    case HdfDtype::kInt16:
      return OurDtype{at::kShort, true};
    case HdfDtype::kInt32:
      return OurDtype{at::kInt, true};
    case HdfDtype::kInt64:
      return OurDtype{at::kLong, true};
    case HdfDtype::kUint8:
      return OurDtype{at::kByte, true};
    case HdfDtype::kUint16:
      return OurDtype{at::kInt, false};
    case HdfDtype::kUint32:
    case HdfDtype::kUint64:
      return OurDtype{at::kLong, false};
    case HdfDtype::kBool:
      return OurDtype{at::kBool, true};
    case HdfDtype::kOther:
      break;
  }
  return std::nullopt;
}

class KerasCheckpoint final : public CheckpointReader {
 public:
  KerasCheckpoint(FileSystem& fs, const std::string& path) : path_(path), file_(fs, path) {
    std::vector<std::string> left_out;
    for (const auto& [name, place] : file_.names().places) {
      const HdfArray& array = file_.file().listing().arrays[place];
      if (ours(array.dtype)) {
        arrays_[name] = &array;
      } else {
        left_out.push_back(name);
      }
    }
    if (!left_out.empty()) {
      log::warning(
          fmt::format("'{}': what holds no numbers is left out: {}", path, join_quoted(left_out)));
    }
    if (file_.names().of_optimizer > 0) {
      log::info(fmt::format("'{}': {} arrays of Keras's optimizer are not read", path,
                            file_.names().of_optimizer));
    }
    if (file_.names().by_class) header_.notes[kLayersByClass] = "yes";
  }

  const Checkpoint& header() const override { return header_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, array] : arrays_) all.push_back(name);
    if (!arrays_.contains(kGlobalStep)) all.push_back(kGlobalStep);
    return all;
  }

  std::map<std::string, TensorSpec> specs() const override {
    std::map<std::string, TensorSpec> specs{{kGlobalStep, {{}, at::kLong}}};
    for (const auto& [name, array] : arrays_)
      specs[name] = {array->shape, ours(array->dtype)->dtype};
    return specs;
  }

  Tensor read(const std::string& name) const override {
    if (name == kGlobalStep && !arrays_.contains(name)) return torch::zeros({}, at::kLong);
    const HdfArray& array = at(name);
    return read_part(name, array, 0, array.shape, array.bytes);
  }

  Tensor read_rows(const std::string& name, int64_t begin, int64_t end) const override {
    const HdfArray& array = at(name);
    Shape shape = array.shape;
    if (shape.empty() || begin < 0 || begin > end || end > shape[0]) {
      throw invalid_argument(fmt::format("rows {} to {} were asked of '{}' {} in '{}'", begin, end,
                                         name, muster::describe(shape), path_));
    }
    const uint64_t row_bytes = shape[0] == 0 ? 0 : array.bytes / static_cast<uint64_t>(shape[0]);
    shape[0] = end - begin;
    return read_part(name, array, static_cast<uint64_t>(begin) * row_bytes, shape,
                     static_cast<uint64_t>(end - begin) * row_bytes);
  }

  // The format has no checksums but those of packed chunks; all can be read, or it throws.
  void verify(size_t share, size_t shares) const override {
    size_t turn = 0;
    for (const auto& [name, array] : arrays_) {
      if (turn++ % shares == share) (void)read(name);
    }
  }

 private:
  const HdfArray& at(const std::string& name) const {
    if (const auto found = arrays_.find(name); found != arrays_.end()) return *found->second;
    const std::vector<std::string> all = names();
    throw not_found(fmt::format("'{}' has no tensor '{}'", path_, name),
                    nearest_hint(name, all, "it has " + join_quoted(all)));
  }

  Tensor read_part(const std::string& name, const HdfArray& array, uint64_t begin,
                   const Shape& shape, uint64_t bytes) const {
    const OurDtype dtype = *ours(array.dtype);
    if (dtype.as_it_is) {
      Tensor tensor = torch::empty(shape, dtype.dtype);
      file_.file().read_range(array, begin,
                              {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()});
      return tensor;
    }
    std::string numbers(bytes, '\0');
    file_.file().read_range(array, begin, std::as_writable_bytes(std::span(numbers)));
    return widened_tensor(bytes_of(numbers), hdf::element_bytes(array.dtype), shape, name);
  }

  const std::string path_;
  const hdf::KerasFile file_;
  Checkpoint header_;
  std::map<std::string, const HdfArray*> arrays_;
};

}  // namespace

std::unique_ptr<CheckpointReader> open_keras_checkpoint(FileSystem& fs, const std::string& path) {
  return std::make_unique<KerasCheckpoint>(fs, path);
}

}  // namespace muster::inline v0_1::kerasfiles

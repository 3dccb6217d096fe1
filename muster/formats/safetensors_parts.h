// Tensors of a safetensors file whose bytes are in other files, its parts: several processes can
// then write one checkpoint, each its own part. The file's metadata lists the place of each tensor
// as JSON text, under "muster_parts":
//   {"files": [{"name": "model.ckpt-7.part-0-of-2.1f.safetensors", "bytes": 4096}, ...],
//    "tensors": {"kernel": {"dtype": "F32", "shape": [4, 2],
//                           "pieces": [[file, offset, bytes, crc32c], ...]}, ...}}
// Thread safety: values.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/export.h"
#include "muster/base/result.h"

namespace muster::inline v0_1::formats {

// The metadata key of the table of parts.
inline constexpr std::string_view kSafetensorsParts = "muster_parts";

// Bytes of a tensor, in one of the parts.
struct TensorPiece {
  size_t file = 0;      // index of the part
  uint64_t offset = 0;  // from the start of that file
  uint64_t bytes = 0;
  uint32_t crc32c = 0;  // of these bytes
  bool operator==(const TensorPiece&) const = default;
};

// The table of parts.
struct MUSTER_EXPORT SafetensorsParts {
  // One of the parts.
  struct File {
    std::string name{};  // in the directory of the main file
    uint64_t bytes = 0;
    bool operator==(const File&) const = default;
  };
  // Its bytes are those of its pieces, one after another.
  struct Tensor {
    std::string dtype{};
    std::vector<int64_t> shape{};
    std::vector<TensorPiece> pieces{};
    bool operator==(const Tensor&) const = default;
  };
  std::vector<File> files{};
  std::map<std::string, Tensor> tensors{};
  bool operator==(const SafetensorsParts&) const = default;

  bool empty() const { return files.empty(); }
  std::string to_text() const;
  // Returns Corrupt for text that is not of this form, for a name that is not that of a file in the
  // same directory, for pieces outside of their file, and for pieces that do not fill the shape.
  // `what` is the name of the text in errors.
  static Result<SafetensorsParts> parse(std::string_view text, const std::string& what);
};

}  // namespace muster::inline v0_1::formats

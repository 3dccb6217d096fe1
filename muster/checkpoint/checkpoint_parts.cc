#include "muster/checkpoint/checkpoint_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/internal/convert_errors.h"
#include "muster/checkpoint/internal/file_names.h"
#include "muster/checkpoint/internal/safetensors_checkpoint.h"
#include "muster/files/regular_expression.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// A reader of some rows of a tensor verifies the pieces in which they lie.
constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

}  // namespace

std::string checkpoint_part_name(int64_t step, size_t part, size_t parts, uint32_t save) {
  return fmt::format("{}{}.part-{}-of-{}.{:08x}{}", internal::kCheckpointBaseName, step, part,
                     parts, save, internal::kCheckpointSuffix);
}

int64_t checkpoint_part_step(const std::string& name) {
  static const RegularExpression kName(
      R"(model\.ckpt-(\d{1,19})\.part-\d+-of-\d+\.[0-9a-f]{8}\.safetensors)");
  RegularExpression::Groups match;
  if (!kName.full_match(name, &match)) return -1;
  return parse_int(match[1]).value_or(-1);
}

formats::SafetensorsParts write_checkpoint_part(FileSystem& fs, const std::string& path,
                                                const std::map<std::string, Tensor>& tensors) {
  return internal::convert_errors(path, [&] {
    formats::SafetensorsParts part;
    std::vector<Tensor> alive;  // the memory of the views
    std::vector<formats::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      auto [stored, dtype] = internal::storable(name, tensor);
      const Bytes bytes(static_cast<const std::byte*>(stored.data_ptr()), stored.nbytes());
      views.push_back({name, std::string(dtype), stored.sizes().vec(), bytes});
      std::vector<formats::TensorPiece>& pieces = part.tensors[name].pieces;
      for (uint64_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
        const uint64_t size = std::min<uint64_t>(kPieceBytes, bytes.size() - begin);
        pieces.push_back(
            {.offset = begin, .bytes = size, .crc32c = crc32c(bytes.subspan(begin, size))});
      }
      alive.push_back(std::move(stored));
    }
    auto writer = fs.open_staged(path);
    if (!writer.ok()) throw writer.error();
    // An error leaves through the writer's destructor, which discards.
    formats::write_safetensors(*writer.value(), views, {{"format", "pt"}}).value();
    writer.value()->commit().value();
    // Where it all lies, the file says itself.
    const auto reader = formats::SafetensorsReader::open(fs, path).value();
    part.files.push_back({std::string(base_name(path)), fs.file_size(path).value()});
    for (const formats::TensorEntry& entry : reader.tensors()) {
      formats::SafetensorsParts::Tensor& tensor = part.tensors.at(entry.name);
      tensor.dtype = entry.dtype;
      tensor.shape = entry.shape;
      for (formats::TensorPiece& piece : tensor.pieces) piece.offset += entry.offset;
    }
    return part;
  });
}

}  // namespace muster::inline v0_1

#include "muster/checkpoint/checkpoint_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_memory.h"
#include "muster/checkpoint/internal/convert_errors.h"
#include "muster/checkpoint/internal/file_names.h"
#include "muster/checkpoint/internal/safetensors_checkpoint.h"
#include "muster/files/regular_expression.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1 {
namespace {

// Reading some rows of a tensor verifies the pieces that contain them.
constexpr uint64_t kPieceBytes = uint64_t{16} << 20;

// Those that the copy of the tensor has noted, or else computed now.
std::vector<Checksum> checksums_of(const Tensor& tensor, Bytes bytes) {
  if (auto noted = noted_checksums(tensor)) return std::move(*noted);
  std::vector<Checksum> pieces;
  for (uint64_t begin = 0; begin < bytes.size(); begin += kPieceBytes) {
    const uint64_t size = std::min<uint64_t>(kPieceBytes, bytes.size() - begin);
    pieces.push_back({size, crc32c(bytes.subspan(begin, size))});
  }
  return pieces;
}

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
    std::vector<Tensor> alive;  // what the views look at
    std::vector<formats::TensorView> views;
    for (const auto& [name, tensor] : tensors) {
      auto [stored, dtype] = internal::storable(name, tensor);
      const Bytes bytes(static_cast<const std::byte*>(stored.data_ptr()), stored.nbytes());
      views.push_back({name, std::string(dtype), stored.sizes().vec(), bytes});
      std::vector<formats::TensorPiece>& pieces = part.tensors[name].pieces;
      uint64_t begin = 0;
      for (const Checksum& piece : checksums_of(stored, bytes)) {
        pieces.push_back({.offset = begin, .bytes = piece.bytes, .crc32c = piece.crc32c});
        begin += piece.bytes;
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

formats::SafetensorsParts join_parts(std::vector<formats::SafetensorsParts> parts,
                                     const std::vector<std::vector<PartTensor>>& held,
                                     const std::map<std::string, TensorSpec>& shapes) {
  using formats::SafetensorsParts;
  SafetensorsParts table;
  std::map<std::string, std::map<int64_t, const SafetensorsParts::Tensor*>> places;
  for (size_t part = 0; part < parts.size(); ++part) {
    table.files.push_back(parts[part].files.at(0));
    for (const PartTensor& each : held[part]) {
      SafetensorsParts::Tensor& tensor = parts[part].tensors.at(each.name);
      for (formats::TensorPiece& piece : tensor.pieces) piece.file = part;
      places[each.tensor].emplace(each.place, &tensor);
    }
  }
  for (const auto& [name, rows] : places) {
    SafetensorsParts::Tensor& whole = table.tensors[name];
    whole.shape = shapes.at(name).shape;
    for (const auto& [place, tensor] : rows) {
      whole.dtype = tensor->dtype;
      whole.pieces.insert(whole.pieces.end(), tensor->pieces.begin(), tensor->pieces.end());
    }
  }
  return table;
}

bool sees_directory(FileSystem& fs, const std::string& directory, const std::string& text) {
  if (directory.empty()) return false;
  const Result<std::string> found = fs.read_file(join_path(directory, kSightFile));
  return found.ok() && found.value() == text;
}

}  // namespace muster::inline v0_1

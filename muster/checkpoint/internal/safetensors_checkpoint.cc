#include "muster/checkpoint/internal/safetensors_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/checkpoint_memory.h"
#include "muster/checkpoint/internal/convert_errors.h"
#include "muster/formats/checkpoint_header.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kFormatVersion = 1;
// Version of a checkpoint with parts: a reader of the first version would take it for whole.
constexpr int64_t kFormatVersionOfParts = 2;
// How much of a tensor is read at a time if it is not needed as a whole, in bytes.
constexpr uint64_t kWindow = uint64_t{4} << 20;

constexpr std::array<std::pair<DType, std::string_view>, 10> kDtypes = {{
    {at::ScalarType::Double, "F64"},
    {at::ScalarType::Float, "F32"},
    {at::ScalarType::Half, "F16"},
    {at::ScalarType::BFloat16, "BF16"},
    {at::ScalarType::Long, "I64"},
    {at::ScalarType::Int, "I32"},
    {at::ScalarType::Short, "I16"},
    {at::ScalarType::Char, "I8"},
    {at::ScalarType::Byte, "U8"},
    {at::ScalarType::Bool, "BOOL"},
}};

std::string digest_text(uint32_t crc) { return fmt::format("crc32c:{:08x}", crc); }
std::string digest_of(Bytes bytes) { return digest_text(crc32c(bytes)); }

Bytes bytes_of_tensor(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// An open file whose header has been verified.
class SafetensorsCheckpoint final : public CheckpointReader {
 public:
  SafetensorsCheckpoint(std::string path, formats::SafetensorsReader file)
      : path_(std::move(path)), file_(std::move(file)) {
    formats::check_header(file_, path_).value();
    const std::string& text = file_.metadata().at(formats::kAboutKey);
    const nlohmann::json json =
        parse_json(text, "the Muster metadata of '" + path_ + "'", ErrorKind::kCorrupt).value();
    const int64_t known = file_.parts().empty() ? kFormatVersion : kFormatVersionOfParts;
    if (const int64_t version = json.at("format_version").get<int64_t>(); version > known) {
      throw invalid_argument(fmt::format("'{}' has format_version {}, this program reads up to {}",
                                         path_, version, known),
                             "read it with the newer Muster that wrote it");
    }
    formats::check_parts_table(file_, json.value("parts", ""), path_).value();
    header_ = {.global_step = json.at("global_step").get<int64_t>(),
               .epoch = json.at("epoch").get<int64_t>(),
               .inputs = json.at("inputs").dump(),
               .notes = json.at("notes").get<std::map<std::string, std::string>>(),
               .parts = file_.parts()};
    digests_ = json.at("digests");
  }

  const Checkpoint& header() const override { return header_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& entry : file_.tensors()) names.push_back(entry.name);
    return names;
  }

  std::map<std::string, TensorSpec> specs() const override {
    std::map<std::string, TensorSpec> specs;
    for (const auto& entry : file_.tensors()) specs[entry.name] = {entry.shape, dtype_of(entry)};
    return specs;
  }

  Tensor read(const std::string& name) const override {
    return convert_errors(path_, [&] {
      const formats::TensorEntry& entry = find(name);
      Tensor tensor = torch::empty(entry.shape, dtype_of(entry));
      const MutableBytes bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
      file_.read(entry, bytes).value();
      if (!in_parts(entry)) check_digest(entry, crc32c(bytes));
      return tensor;
    });
  }

  Tensor read_rows(const std::string& name, int64_t begin, int64_t end) const override {
    return convert_errors(path_, [&] {
      const formats::TensorEntry& entry = find(name);
      if (entry.shape.empty() || begin < 0 || begin > end || end > entry.shape[0]) {
        throw invalid_argument(fmt::format("rows {} to {} were asked of '{}' {} in '{}'", begin,
                                           end, name, describe(entry.shape), path_));
      }
      Shape shape = entry.shape;
      shape[0] = end - begin;
      Tensor rows = torch::empty(shape, dtype_of(entry));
      if (rows.nbytes() == 0) return rows;
      const uint64_t offset =
          static_cast<uint64_t>(begin) * (entry.bytes / static_cast<uint64_t>(entry.shape[0]));
      const MutableBytes out(static_cast<std::byte*>(rows.data_ptr()), rows.nbytes());
      if (in_parts(entry)) {
        file_.read_range(entry, offset, out).value();
      } else {
        pass_through(entry, offset, out);
      }
      return rows;
    });
  }

  void verify(size_t share, size_t shares) const override {
    convert_errors(path_, [&] {
      size_t turn = 0;
      const auto is_mine = [&] { return turn++ % shares == share; };
      std::string piece;
      for (const formats::TensorEntry& entry : file_.tensors()) {
        (void)dtype_of(entry);
        if (!in_parts(entry)) {
          if (is_mine()) pass_through(entry, 0, {});
          continue;
        }
        uint64_t at = 0;
        for (const formats::TensorPiece& each : entry.pieces) {
          if (is_mine()) {
            piece.resize(each.bytes);
            file_.read_range(entry, at, std::as_writable_bytes(std::span(piece))).value();
          }
          at += each.bytes;
        }
      }
    });
  }

 private:
  const formats::TensorEntry& find(const std::string& name) const {
    if (const formats::TensorEntry* found = file_.find(name)) return *found;
    std::vector<std::string> names;
    for (const formats::TensorEntry& each : file_.tensors()) names.push_back(each.name);
    throw not_found(fmt::format("'{}' has no tensor '{}'", path_, name),
                    nearest_hint(name, names, "it has " + join_quoted(names)));
  }

  // Tensors in parts are verified as they are read.
  bool in_parts(const formats::TensorEntry& entry) const {
    return file_.parts().tensors.contains(entry.name);
  }

  DType dtype_of(const formats::TensorEntry& entry) const {
    if (const auto known = dtype_of_safetensors(entry.dtype)) return *known;
    throw corrupt(fmt::format("'{}': the tensor '{}' has the dtype {}, which Muster does not store",
                              path_, entry.name, entry.dtype));
  }

  void check_digest(const formats::TensorEntry& entry, uint32_t crc) const {
    const auto expected = digests_.at(entry.name).get<std::string>();
    if (const std::string actual = digest_text(crc); actual != expected) {
      throw corrupt(fmt::format("'{}': the tensor '{}' is damaged: its digest is {}, expected {}",
                                path_, entry.name, actual, expected));
    }
  }

  // Fills `out` with bytes of a tensor from `offset` on. The first time all of it is read, a little
  // at a time, and verified.
  void pass_through(const formats::TensorEntry& entry, uint64_t offset, MutableBytes out) const {
    {
      const std::lock_guard lock(mutex_);
      if (verified_.contains(entry.name)) return file_.read_range(entry, offset, out).value();
    }
    std::string window(std::min(entry.bytes, kWindow), '\0');
    uint32_t crc = crc32c({});
    for (uint64_t at = 0; at < entry.bytes; at += window.size()) {
      window.resize(std::min(entry.bytes - at, kWindow));
      file_.read_range(entry, at, std::as_writable_bytes(std::span(window))).value();
      crc = extend_crc32c(crc, bytes_of(window));
      const uint64_t from = std::max(at, offset);
      const uint64_t to = std::min(at + window.size(), offset + out.size());
      if (from < to)
        std::memcpy(out.data() + (from - offset), window.data() + (from - at), to - from);
    }
    check_digest(entry, crc);
    const std::lock_guard lock(mutex_);
    verified_.insert(entry.name);
  }

  const std::string path_;
  const formats::SafetensorsReader file_;
  Checkpoint header_;
  nlohmann::json digests_;  // by tensor
  mutable std::mutex mutex_;
  mutable std::set<std::string> verified_;  // tensors of this file
};

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [dtype, text] : kDtypes) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

std::pair<Tensor, std::string_view> storable(const std::string& name, const Tensor& tensor) {
  const auto refuse = [&](std::string_view why) {
    return invalid_argument(
        fmt::format("the tensor '{}' cannot be stored in a checkpoint: {}", name, why));
  };
  if (name == kGlobalStep) throw refuse("the name is reserved for the field global_step");
  if (name == "__metadata__") throw refuse("the name is reserved by the file format");
  if (!tensor.defined()) throw refuse("it is undefined");
  if (tensor.layout() != at::kStrided) throw refuse("it is not dense");
  for (const auto& [dtype, text] : kDtypes) {
    if (dtype == tensor.scalar_type()) {
      return {tensor.detach().resolve_neg().to(at::kCPU).contiguous(), text};
    }
  }
  throw refuse(fmt::format("its dtype is {}", dtype_name(tensor.scalar_type())));
}

void write_safetensors_checkpoint(FileSystem& fs, const std::string& path,
                                  const Checkpoint& checkpoint) {
  convert_errors(path, [&] {
    Result<nlohmann::json> inputs = parse_json(checkpoint.inputs, "the checkpoint's inputs");
    if (!inputs.ok()) throw inputs.error();

    std::vector<Tensor> alive;  // the memory of the views
    std::vector<formats::TensorView> views;
    std::map<std::string, std::string> layout;
    nlohmann::json digests = nlohmann::json::object();
    const auto add = [&](const std::string& name, Tensor tensor, std::string_view dtype) {
      const Bytes bytes = bytes_of_tensor(tensor);
      const Shape shape = tensor.sizes().vec();
      const std::optional<uint32_t> noted = noted_crc32c(tensor);
      digests[name] = digest_text(noted ? *noted : crc32c(bytes));
      layout[name] = formats::layout_line(name, dtype, shape);
      views.push_back({name, std::string(dtype), shape, bytes});
      alive.push_back(std::move(tensor));
    };
    for (const auto& [name, tensor] : checkpoint.tensors) {
      auto [stored, dtype] = storable(name, tensor);
      add(name, std::move(stored), dtype);
    }
    // Readers that know nothing of our metadata find the step where tf.estimator keeps it.
    add(kGlobalStep, torch::tensor(checkpoint.global_step, at::kLong), "I64");
    for (const auto& [name, tensor] : checkpoint.parts.tensors) {
      if (layout.contains(name))
        throw invalid_argument(fmt::format("the tensor '{}' is in the checkpoint twice", name));
    }

    std::string text, parts;
    try {
      nlohmann::json about{
          {"format_version", checkpoint.parts.empty() ? kFormatVersion : kFormatVersionOfParts},
          {"global_step", checkpoint.global_step},
          {"epoch", checkpoint.epoch},
          {"digests", std::move(digests)},
          {"inputs", std::move(inputs.value())},
          {"notes", checkpoint.notes}};
      if (!checkpoint.parts.empty()) {
        parts = checkpoint.parts.to_text();
        about["parts"] = digest_of(bytes_of(parts));
      }
      text = about.dump();
    } catch (const nlohmann::json::exception& error) {
      throw invalid_argument(
          fmt::format("the checkpoint's metadata cannot be written: {}", error.what()),
          "names, inputs and notes must be UTF-8");
    }
    formats::SafetensorsMetadata metadata = {
        {"format", "pt"},
        {formats::kHeaderDigestKey, formats::header_digest(text, layout)},
        {formats::kAboutKey, std::move(text)}};
    if (!parts.empty()) metadata[std::string(formats::kSafetensorsParts)] = std::move(parts);

    auto writer = fs.open_staged(path);
    if (!writer.ok()) throw writer.error();
    // An error leaves through the writer's destructor, which discards.
    formats::write_safetensors(*writer.value(), views, metadata).value();
    writer.value()->commit().value();
  });
}

std::unique_ptr<CheckpointReader> open_safetensors_checkpoint(FileSystem& fs,
                                                              const std::string& path) {
  return convert_errors(path, [&] {
    return std::make_unique<SafetensorsCheckpoint>(
        path, formats::SafetensorsReader::open(fs, path).value());
  });
}

}  // namespace muster::inline v0_1::internal

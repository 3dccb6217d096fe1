#include "muster/checkpoint/internal/safetensors_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/strings.h"
#include "muster/formats/safetensors.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr int64_t kFormatVersion = 1;
const std::string kMetadata = "muster";
const std::string kMetadataDigest = "muster_digest";

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

std::string layout_line(std::string_view name, std::string_view dtype, const Shape& shape) {
  return fmt::format("{} {} {}\n", name, dtype, describe(shape));
}

std::string header_digest(const std::string& metadata,
                          const std::map<std::string, std::string>& layout) {
  uint32_t crc = crc32c(bytes_of(metadata + "\n"));
  for (const auto& [name, line] : layout) crc = extend_crc32c(crc, bytes_of(line));
  return digest_text(crc);
}

Bytes bytes_of_tensor(const Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// The tensor as its bytes go to the file, and their format's name for its dtype. No copy when it is
// that already.
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

// Errors of LibTorch (out of memory, mostly) leave as ours.
template <typename Call>
auto at_the_border(const std::string& path, Call&& call) {
  try {
    return call();
  } catch (const c10::Error& error) {
    throw internal_error(fmt::format("'{}': {}", path, error.what_without_backtrace()));
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(fmt::format("the Muster metadata of '{}' are not as they should be: {}", path,
                              error.what()));
  }
}

// An open file whose header has been verified.
class SafetensorsCheckpoint final : public CheckpointReader {
 public:
  SafetensorsCheckpoint(std::string path, formats::SafetensorsReader file)
      : path_(std::move(path)), file_(std::move(file)) {
    const std::string& text = verified_metadata();
    const nlohmann::json json =
        parse_json(text, "the Muster metadata of '" + path_ + "'", ErrorKind::kCorrupt).value();
    if (const int64_t version = json.at("format_version").get<int64_t>();
        version > kFormatVersion) {
      throw invalid_argument(fmt::format("'{}' has format_version {}, this program reads up to {}",
                                         path_, version, kFormatVersion),
                             "read it with the newer Muster that wrote it");
    }
    header_ = {.global_step = json.at("global_step").get<int64_t>(),
               .epoch = json.at("epoch").get<int64_t>(),
               .inputs = json.at("inputs").dump(),
               .notes = json.at("notes").get<std::map<std::string, std::string>>()};
    digests_ = json.at("digests");
  }

  const Checkpoint& header() const override { return header_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const auto& entry : file_.tensors()) names.push_back(entry.name);
    return names;
  }

  Tensor read(const std::string& name) const override {
    return at_the_border(path_, [&] {
      const formats::TensorEntry* found = file_.find(name);
      if (found == nullptr) {
        throw not_found(fmt::format("'{}' has no tensor '{}'", path_, name));
      }
      const formats::TensorEntry& entry = *found;
      const auto known = dtype_of_safetensors(entry.dtype);
      if (!known) {
        throw corrupt(
            fmt::format("'{}': the tensor '{}' has the dtype {}, which Muster does not store",
                        path_, name, entry.dtype));
      }
      Tensor tensor = torch::empty(entry.shape, *known);
      const MutableBytes bytes(static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes());
      file_.read(entry, bytes).value();
      const auto expected = digests_.at(name).get<std::string>();
      if (const std::string actual = digest_of(bytes); actual != expected) {
        throw corrupt(fmt::format("'{}': the tensor '{}' is damaged: its digest is {}, expected {}",
                                  path_, name, actual, expected));
      }
      return tensor;
    });
  }

 private:
  const std::string& verified_metadata() const {
    const auto& metadata = file_.metadata();
    if (metadata.count(kMetadata) == 0 || metadata.count(kMetadataDigest) == 0) {
      throw corrupt(fmt::format(
          "'{}' has no Muster metadata: its header is damaged, or another program wrote it",
          path_));
    }
    std::map<std::string, std::string> layout;
    for (const auto& entry : file_.tensors()) {
      layout[entry.name] = layout_line(entry.name, entry.dtype, entry.shape);
    }
    const std::string& expected = metadata.at(kMetadataDigest);
    const std::string actual = header_digest(metadata.at(kMetadata), layout);
    if (expected != actual) {
      throw corrupt(fmt::format("the header of '{}' is damaged: its digest is {}, expected {}",
                                path_, actual, expected));
    }
    return metadata.at(kMetadata);
  }

  const std::string path_;
  const formats::SafetensorsReader file_;
  Checkpoint header_;
  nlohmann::json digests_;  // by tensor
};

}  // namespace

std::optional<DType> dtype_of_safetensors(std::string_view name) {
  for (const auto& [dtype, text] : kDtypes) {
    if (text == name) return dtype;
  }
  return std::nullopt;
}

void write_safetensors_checkpoint(FileSystem& fs, const std::string& path,
                                  const Checkpoint& checkpoint) {
  at_the_border(path, [&] {
    Result<nlohmann::json> inputs = parse_json(checkpoint.inputs, "the checkpoint's inputs");
    if (!inputs.ok()) throw inputs.error();

    std::vector<Tensor> alive;  // what the views look at
    std::vector<formats::TensorView> views;
    std::map<std::string, std::string> layout;
    nlohmann::json digests = nlohmann::json::object();
    const auto add = [&](const std::string& name, Tensor tensor, std::string_view dtype) {
      const Bytes bytes = bytes_of_tensor(tensor);
      const Shape shape = tensor.sizes().vec();
      digests[name] = digest_of(bytes);
      layout[name] = layout_line(name, dtype, shape);
      views.push_back({name, std::string(dtype), shape, bytes});
      alive.push_back(std::move(tensor));
    };
    for (const auto& [name, tensor] : checkpoint.tensors) {
      auto [stored, dtype] = storable(name, tensor);
      add(name, std::move(stored), dtype);
    }
    // Readers that know nothing of our metadata find the step where tf.estimator keeps it.
    add(kGlobalStep, torch::tensor(checkpoint.global_step, at::kLong), "I64");

    std::string text;
    try {
      text =
          nlohmann::json{
              {"format_version", kFormatVersion},    {"global_step", checkpoint.global_step},
              {"epoch", checkpoint.epoch},           {"digests", std::move(digests)},
              {"inputs", std::move(inputs.value())}, {"notes", checkpoint.notes}}
              .dump();
    } catch (const nlohmann::json::exception& error) {
      throw invalid_argument(
          fmt::format("the checkpoint's metadata cannot be written: {}", error.what()),
          "names, inputs and notes must be UTF-8");
    }
    const formats::SafetensorsMetadata metadata = {{"format", "pt"},
                                                   {kMetadataDigest, header_digest(text, layout)},
                                                   {kMetadata, std::move(text)}};

    auto writer = fs.open_staged(path);
    if (!writer.ok()) throw writer.error();
    // An error leaves through the writer's destructor, which discards.
    formats::write_safetensors(*writer.value(), views, metadata).value();
    writer.value()->commit().value();
  });
}

std::unique_ptr<CheckpointReader> open_safetensors_checkpoint(FileSystem& fs,
                                                              const std::string& path) {
  return at_the_border(path, [&] {
    return std::make_unique<SafetensorsCheckpoint>(
        path, formats::SafetensorsReader::open(fs, path).value());
  });
}

}  // namespace muster::inline v0_1::internal

#include "muster/formats/torch_export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/base/crc32c.h"
#include "muster/base/strings.h"
#include "muster/formats/safetensors.h"
#include "muster/formats/torch_state_dict.h"

namespace muster::inline v0_1::formats {
namespace {

// The text before the last '/', and the text after it.
std::string parent_of(const std::string& name) {
  const size_t slash = name.rfind('/');
  return slash == std::string::npos ? "" : name.substr(0, slash);
}

bool holds(const SafetensorsReader& reader, const std::string& name) {
  return reader.find(name) != nullptr;
}

// "Adam/iterations" is a scalar that counts updates; all that begins with "Adam/" is Adam's.
bool is_optimizers(const SafetensorsReader& reader, const std::string& name) {
  for (size_t slash = name.find('/'); slash != std::string::npos;
       slash = name.find('/', slash + 1)) {
    const TensorEntry* counter = reader.find(name.substr(0, slash) + "/iterations");
    if (counter != nullptr && counter->dtype == "I64" && counter->shape.empty()) return true;
  }
  return false;
}

bool is_variable(const SafetensorsReader& reader, const std::string& name) {
  if (name == "global_step" || is_optimizers(reader, name)) return false;
  return !name.ends_with("/replicas") || !holds(reader, parent_of(name));
}

// The part with its '/' that all names begin with; "" when there is none.
std::string common_part(const std::vector<std::string>& names) {
  const size_t slash = names.front().find('/');
  if (slash == std::string::npos) return "";
  const std::string part = names.front().substr(0, slash + 1);
  const bool all =
      std::ranges::all_of(names, [&](const std::string& name) { return name.starts_with(part); });
  return all ? part : "";
}

// Whether the layer of this kernel has a counterpart in PyTorch with the axes in another order.
bool turns(const SafetensorsReader& reader, const TensorEntry& entry) {
  static const std::set<std::string, std::less<>> kAttention = {"query", "key", "value",
                                                                "attention_output"};
  const std::string layer = parent_of(entry.name);
  return base_name(entry.name) == "kernel" && entry.shape.size() >= 2 &&
         !holds(reader, layer + "/recurrent_kernel") && !kAttention.contains(base_name(layer));
}

std::string torch_name_of(std::string name, const std::string& common, bool turned) {
  static const std::map<std::string, std::string, std::less<>> kLeaves = {
      {"embeddings", "weight"},
      {"gamma", "weight"},
      {"beta", "bias"},
      {"moving_mean", "running_mean"},
      {"moving_variance", "running_var"}};
  const std::string leaf(base_name(name));
  const auto known = kLeaves.find(leaf);
  if (turned || known != kLeaves.end()) {
    name.resize(name.size() - leaf.size());
    name += turned ? "weight" : known->second;
  }
  name.erase(0, common.size());
  std::ranges::replace(name, '/', '.');
  return name;
}

// [..., in, out] becomes [out, in, ...], for elements of `width` bytes.
std::string turned_bytes(const std::string& bytes, const std::vector<int64_t>& shape,
                         size_t width) {
  const auto out = static_cast<size_t>(shape.back());
  const auto in = static_cast<size_t>(shape[shape.size() - 2]);
  std::string turned(bytes.size(), '\0');
  const size_t field = out * in == 0 ? 0 : bytes.size() / width / (out * in);
  for (size_t f = 0; f < field; ++f) {
    for (size_t i = 0; i < in; ++i) {
      for (size_t o = 0; o < out; ++o) {
        std::memcpy(&turned[((o * in + i) * field + f) * width],
                    &bytes[((f * in + i) * out + o) * width], width);
      }
    }
  }
  return turned;
}

std::vector<int64_t> turned_shape(const std::vector<int64_t>& shape) {
  std::vector<int64_t> turned{shape.back(), shape[shape.size() - 2]};
  turned.insert(turned.end(), shape.begin(), shape.end() - 2);
  return turned;
}

// The digests that Muster writes, by name; none for a file of another program.
nlohmann::json digests_of(const SafetensorsReader& reader) {
  const auto about = reader.metadata().find("muster");
  if (about == reader.metadata().end()) return nlohmann::json::object();
  const nlohmann::json document = nlohmann::json::parse(about->second, nullptr, false);
  return document.is_object() ? document.value("digests", nlohmann::json::object())
                              : nlohmann::json::object();
}

Result<std::string> read_checked(const SafetensorsReader& reader, const std::string& file,
                                 const std::string& name, const nlohmann::json& digests) {
  Result<std::string> bytes = reader.read(name);
  if (!bytes.ok() || !digests.contains(name)) return bytes;
  const std::string digest = fmt::format("crc32c:{:08x}", crc32c(bytes_of(bytes.value())));
  if (digests[name] == digest) return bytes;
  return corrupt(fmt::format("'{}': the tensor '{}' is damaged: its digest is {}, expected {}",
                             file, name, digest, digests[name].dump()));
}

// The exported data: the records, and the bytes of each.
struct Exported {
  std::vector<TorchExported> tensors{};
  std::vector<std::string> dtypes{};
  std::vector<std::string> bytes{};
};

Result<Exported> read_all(const SafetensorsReader& reader, const std::string& file) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : reader.tensors()) {
    if (is_variable(reader, entry.name)) names.push_back(entry.name);
  }
  if (names.empty()) return invalid_argument(fmt::format("'{}' holds no variable", file));
  std::ranges::sort(names);
  const std::string common = common_part(names);
  const nlohmann::json digests = digests_of(reader);
  Exported exported;
  std::map<std::string, std::string> taken;  // by the name in the state dict
  for (const std::string& name : names) {
    const TensorEntry& entry = *reader.find(name);
    const bool turned = turns(reader, entry);
    const std::string torch_name = torch_name_of(name, common, turned);
    const auto [other, added] = taken.emplace(torch_name, name);
    if (!added) {
      return invalid_argument(fmt::format("'{}' and '{}' of '{}' would both be '{}' in PyTorch",
                                          other->second, name, file, torch_name),
                              "give the variables of one layer names that differ");
    }
    Result<std::string> bytes = read_checked(reader, file, name, digests);
    if (!bytes.ok()) return bytes.error();
    const int bits = *safetensors_bits(entry.dtype);
    exported.tensors.push_back(
        {name, torch_name, turned ? turned_shape(entry.shape) : entry.shape, turned});
    exported.dtypes.push_back(entry.dtype);
    exported.bytes.push_back(turned && bits >= 8 ? turned_bytes(bytes.value(), entry.shape,
                                                                static_cast<size_t>(bits) / 8)
                                                 : std::move(bytes).value());
  }
  return exported;
}

}  // namespace

Result<std::vector<TorchExported>> export_torch(FileSystem& files, const std::string& file,
                                                const std::string& path) {
  const Result<SafetensorsReader> reader = SafetensorsReader::open(files, file);
  if (!reader.ok()) return reader.error();
  Result<Exported> exported = read_all(reader.value(), file);
  if (!exported.ok()) return exported.error();
  std::vector<TensorView> views;
  for (size_t i = 0; i < exported.value().tensors.size(); ++i) {
    const TorchExported& tensor = exported.value().tensors[i];
    views.push_back({tensor.torch_name, exported.value().dtypes[i], tensor.shape,
                     bytes_of(exported.value().bytes[i])});
  }
  const Result<std::unique_ptr<StagedWriter>> staged = files.open_staged(path);
  if (!staged.ok()) return staged.error();
  if (Status written = write_torch_state_dict(*staged.value(), views); !written.ok())
    return written.error();
  if (Status committed = staged.value()->commit(); !committed.ok()) return committed.error();
  return std::move(exported.value().tensors);
}

}  // namespace muster::inline v0_1::formats

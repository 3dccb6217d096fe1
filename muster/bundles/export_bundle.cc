#include "muster/bundles/export_bundle.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/bundles/object_graph.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/bundles/variable_names.h"
#include "muster/formats/safetensors.h"

namespace muster::inline v0_1::tensorflow {
namespace {

using formats::SafetensorsReader;
using formats::TensorEntry;

constexpr const char* kStep = "global_step";

constexpr std::array<std::pair<std::string_view, BundleDtype>, 10> kDtypeNames = {{
    {"F64", BundleDtype::kDouble},
    {"F32", BundleDtype::kFloat},
    {"F16", BundleDtype::kHalf},
    {"BF16", BundleDtype::kBfloat16},
    {"I64", BundleDtype::kInt64},
    {"I32", BundleDtype::kInt32},
    {"I16", BundleDtype::kInt16},
    {"I8", BundleDtype::kInt8},
    {"U8", BundleDtype::kUint8},
    {"BOOL", BundleDtype::kBool},
}};

std::optional<BundleDtype> dtype_of(const TensorEntry& entry) {
  for (const auto& [name, dtype] : kDtypeNames) {
    if (name == entry.dtype) return dtype;
  }
  return std::nullopt;
}

// REQUIRES: eight bytes.
int64_t number_in(const std::string& bytes) { return load_little_endian<int64_t>(bytes.data()); }

class Export {
 public:
  Export(FileSystem& files, const std::string& file, const std::string& prefix)
      : file_(file),
        reader_(SafetensorsReader::open(files, file).value()),
        writer_(files, prefix) {}

  void write_as_version_1() {
    std::set<std::string> names;
    for (const TensorEntry& entry : reader_.tensors()) names.insert(entry.name);
    std::map<std::string, std::string> ours;  // by TensorFlow's names
    for (const auto& [name, theirs] : tensorflow_names(names)) ours[theirs] = name;
    for (const auto& [theirs, name] : ours) write(*reader_.find(name), theirs, theirs);
  }

  void write_like(const BundleReader& like) {
    const std::map<std::string, std::string> keys = keys_by_name(like);
    std::set<std::string> theirs;
    for (const auto& [name, key] : keys) theirs.insert(name);
    const std::map<std::string, std::string> ours = muster_names(theirs);
    check(like, keys, ours);
    for (const auto& [name, key] : keys) {
      const auto here = ours.find(name);
      const TensorEntry* entry = here == ours.end() ? nullptr : reader_.find(here->second);
      if (entry != nullptr) {
        write(*entry, name, key);
      } else {
        copy(like, name, key);
      }
    }
    // The object graph has no name of a variable.
    std::set<std::string> named;
    for (const auto& [name, key] : keys) named.insert(key);
    for (const auto& [key, entry] : like.entries()) {
      if (!named.contains(key)) writer_.add_texts(key, entry.shape, like.read_texts(key, entry));
    }
  }

  std::vector<BundleExported> end() {
    writer_.end();
    return std::move(exported_);
  }

 private:
  // Throws one error for all variables that are not here as they are in `like`.
  void check(const BundleReader& like, const std::map<std::string, std::string>& keys,
             const std::map<std::string, std::string>& ours) const {
    std::vector<std::string> wrong;
    for (const auto& [name, here] : ours) {
      const BundleEntry& wanted = like.entries().at(keys.at(name));
      if (wanted.dtype == BundleDtype::kString) continue;
      const TensorEntry* found = reader_.find(here);
      const std::string form =
          fmt::format("{}[{}]", describe(wanted.dtype), fmt::join(wanted.shape, ", "));
      if (found == nullptr) {
        wrong.push_back(fmt::format("missing: '{}', {}", here, form));
      } else if (found->shape != wanted.shape || dtype_of(*found) != wanted.dtype) {
        wrong.push_back(fmt::format("'{}' is {}[{}], and {} there", here, found->dtype,
                                    fmt::join(found->shape, ", "), form));
      }
    }
    if (wrong.empty()) return;
    throw invalid_argument(fmt::format("'{}' is not of the model of '{}':\n  {}", file_,
                                       like.prefix(), join(wrong, "\n  ")),
                           "name a checkpoint that TensorFlow wrote of the same model, with the "
                           "same optimizer");
  }

  void write(const TensorEntry& entry, const std::string& name, const std::string& key) {
    const std::optional<BundleDtype> dtype = dtype_of(entry);
    if (!dtype) {
      throw invalid_argument(fmt::format("the tensor '{}' of '{}' is {}, which TensorFlow has not",
                                         entry.name, file_, entry.dtype));
    }
    writer_.add(key, *dtype, entry.shape, bytes_of(reader_.read(entry.name).value()));
    exported_.push_back({entry.name, name, entry.shape});
  }

  void copy(const BundleReader& like, const std::string& name, const std::string& key) {
    const BundleEntry& entry = like.entries().at(key);
    if (entry.dtype == BundleDtype::kString) {
      writer_.add_texts(key, entry.shape, like.read_texts(name, entry));
    } else if (entry.pieces.size() != 1) {
      throw invalid_argument(
          fmt::format("not supported: '{}' of '{}' is partitioned, and Muster "
                      "keeps nothing of that name",
                      name, like.prefix()));
    } else {
      std::string bytes(entry.pieces.front().bytes, '\0');
      like.read(name, entry.pieces.front(), std::as_writable_bytes(std::span(bytes)));
      if (entry.dtype == BundleDtype::kFloat && is_power(name)) raise(like, bytes);
      writer_.add(key, entry.dtype, entry.shape, bytes_of(bytes));
    }
    exported_.push_back({"", name, entry.shape});
  }

  static bool is_power(std::string_view name) {
    return name.ends_with("beta1_power") || name.ends_with("beta2_power");
  }

  // After t steps Adam of TensorFlow 1 holds beta^(t + 1).
  void raise(const BundleReader& like, std::string& bytes) const {
    const auto step = like.entries().find(kStep);
    const TensorEntry* here = reader_.find(kStep);
    if (step == like.entries().end() || here == nullptr || here->bytes != sizeof(int64_t) ||
        bytes.size() != sizeof(float))
      return;
    std::string number(step->second.pieces.front().bytes, '\0');
    if (number.size() != sizeof(int64_t)) return;
    like.read(kStep, step->second.pieces.front(), std::as_writable_bytes(std::span(number)));
    const auto power = static_cast<double>(load_little_endian<float>(bytes.data()));
    const double beta = std::pow(power, 1.0 / static_cast<double>(number_in(number) + 1));
    const int64_t now = number_in(reader_.read(kStep).value());
    bytes.clear();
    append_little_endian(bytes, static_cast<float>(std::pow(beta, static_cast<double>(now + 1))));
  }

  const std::string& file_;
  const SafetensorsReader reader_;
  BundleWriter writer_;
  std::vector<BundleExported> exported_;
};

}  // namespace

std::vector<BundleExported> export_bundle(FileSystem& files, const std::string& file,
                                          const std::string& prefix,
                                          const ExportBundleOptions& options) {
  // The file `checkpoint` there belongs to Muster's run.
  if (directory_of(prefix) == directory_of(file)) {
    throw invalid_argument(
        fmt::format("'{}' lies in the folder of '{}', whose file 'checkpoint' would be replaced",
                    prefix, file),
        "name another folder for TensorFlow's checkpoints");
  }
  files.make_directories(directory_of(prefix)).value();
  Export exported(files, file, prefix);
  if (options.like.empty()) {
    exported.write_as_version_1();
  } else {
    exported.write_like(BundleReader(files, options.like));
  }
  std::vector<BundleExported> written = exported.end();
  const std::string name(base_name(prefix));
  files
      .write_atomically(join_path(directory_of(prefix), "checkpoint"),
                        fmt::format("model_checkpoint_path: \"{}\"\nall_model_checkpoint_paths: "
                                    "\"{}\"\n",
                                    name, name))
      .value();
  return written;
}

}  // namespace muster::inline v0_1::tensorflow

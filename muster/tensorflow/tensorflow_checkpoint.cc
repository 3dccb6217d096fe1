#include "muster/tensorflow/tensorflow_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "muster/base/crc32c.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/nearest_hint.h"
#include "muster/base/strings.h"
#include "muster/bundles/object_graph.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/bundles/variable_names.h"
#include "muster/checkpoint/checkpoint_format.h"
#include "muster/tensor/libtorch.h"
#include "muster/tensorflow/bundle_tensor.h"

// A program that links the part refers to this name, so that the linker takes this file out of the
// archive.
extern "C" {
extern const int muster_tensorflow_linked;
const int muster_tensorflow_linked = 1;
}

namespace muster::inline v0_1::tensorflow {
namespace {

[[maybe_unused]] const bool registered = [] {
  register_checkpoint_format({.suffix = ".index", .open = open_tensorflow_checkpoint});
  return true;
}();

// How much of a tensor is read at a time if it is not needed as a whole, in bytes.
constexpr uint64_t kWindow = uint64_t{4} << 20;

MutableBytes bytes_of_tensor(Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

class TensorflowCheckpoint final : public CheckpointReader {
 public:
  TensorflowCheckpoint(FileSystem& fs, const std::string& prefix) : bundle_(fs, prefix) {
    const std::map<std::string, std::string> keys = keys_by_name(bundle_);
    std::set<std::string> theirs;
    std::vector<std::string> left_out;
    for (const auto& [name, key] : keys) {
      const BundleDtype dtype = bundle_.entries().at(key).dtype;
      if (row_of_dtype(dtype) != nullptr) {
        theirs.insert(name);
      } else {
        left_out.push_back(fmt::format("'{}' ({})", name, describe(dtype)));
      }
    }
    for (const auto& [name, ours] : muster_names(theirs)) keys_[ours] = keys.at(name);
    if (const auto step = keys_.find(kGlobalStep); step != keys_.end()) {
      const Tensor number = read_key(kGlobalStep, step->second);
      if (number.numel() != 1 || !at::isIntegralType(number.scalar_type(), /*includeBool=*/false)) {
        throw corrupt(fmt::format("'{}': 'global_step' is {}, and no whole number", prefix,
                                  muster::describe(number)));
      }
      header_.global_step = number.item<int64_t>();
    }
    for (const std::string& optimizer : optimizers_without_count(theirs))
      counts_.insert(optimizer + "/iterations");
    if (!left_out.empty()) {
      log::warning(fmt::format("'{}': skipped tensors whose dtype is not supported: {}", prefix,
                               join(left_out, ", ")));
    }
  }

  const Checkpoint& header() const override { return header_; }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const auto& [name, key] : keys_) all.push_back(name);
    all.insert(all.end(), counts_.begin(), counts_.end());
    if (!keys_.contains(kGlobalStep)) all.push_back(kGlobalStep);
    return all;
  }

  std::map<std::string, TensorSpec> specs() const override {
    std::map<std::string, TensorSpec> specs;
    for (const auto& [name, key] : keys_) {
      const BundleEntry& entry = bundle_.entries().at(key);
      specs[name] = {entry.shape, row_of_dtype(entry.dtype)->ours};
    }
    for (const std::string& name : counts_) specs[name] = {{}, at::kLong};
    specs[kGlobalStep] = {{}, at::kLong};
    return specs;
  }

  Tensor read(const std::string& name) const override {
    if (name == kGlobalStep || counts_.contains(name))
      return torch::tensor(header_.global_step, at::kLong);
    return read_key(name, key_of(name));
  }

  Tensor read_rows(const std::string& name, int64_t begin, int64_t end) const override {
    const std::string key = name == kGlobalStep || counts_.contains(name) ? "" : key_of(name);
    const Shape shape = key.empty() ? Shape{} : bundle_.entries().at(key).shape;
    if (shape.empty() || begin < 0 || begin > end || end > shape[0]) {
      throw invalid_argument(fmt::format("rows {} to {} were asked of '{}' {} in '{}'", begin, end,
                                         name, muster::describe(shape), bundle_.prefix()));
    }
    const BundleEntry& entry = bundle_.entries().at(key);
    if (!row_of_dtype(entry.dtype)->as_it_is || !has_whole_rows(entry))
      return read_key(name, key).slice(0, begin, end).clone();
    Shape sizes = shape;
    sizes[0] = end - begin;
    Tensor rows = torch::empty(sizes, row_of_dtype(entry.dtype)->ours);
    if (rows.nbytes() == 0) return rows;
    const uint64_t row_bytes = rows.nbytes() / static_cast<uint64_t>(sizes[0]);
    for (const BundlePiece& piece : entry.pieces) {
      const int64_t first = std::max(begin, piece.begin[0]);
      const int64_t last = std::min(end, piece.begin[0] + piece.shape[0]);
      if (first >= last) continue;
      verify_once(name, piece);
      bundle_.read_range(
          piece, static_cast<uint64_t>(first - piece.begin[0]) * row_bytes,
          bytes_of_tensor(rows).subspan(static_cast<uint64_t>(first - begin) * row_bytes,
                                        static_cast<uint64_t>(last - first) * row_bytes));
    }
    return rows;
  }

  void verify(size_t share, size_t shares) const override {
    size_t turn = 0;
    for (const auto& [name, key] : keys_) {
      for (const BundlePiece& piece : bundle_.entries().at(key).pieces) {
        if (turn++ % shares == share) verify_once(name, piece);
      }
    }
  }

 private:
  const std::string& key_of(const std::string& name) const {
    if (const auto found = keys_.find(name); found != keys_.end()) return found->second;
    const std::vector<std::string> all = names();
    throw not_found(fmt::format("'{}' has no tensor '{}'", bundle_.prefix(), name),
                    nearest_hint(name, all, "it has " + join_quoted(all)));
  }

  static bool has_whole_rows(const BundleEntry& entry) {
    return std::ranges::all_of(entry.pieces, [&](const BundlePiece& piece) {
      return std::equal(entry.shape.begin() + 1, entry.shape.end(), piece.shape.begin() + 1);
    });
  }

  Tensor read_key(const std::string& name, const std::string& key) const {
    return read_bundle_tensor(bundle_, name, bundle_.entries().at(key));
  }

  // Reads a piece a little at a time; the first time only.
  void verify_once(const std::string& name, const BundlePiece& piece) const {
    const std::pair<int, uint64_t> place(piece.shard, piece.offset);
    {
      const std::lock_guard lock(mutex_);
      if (verified_.contains(place)) return;
    }
    bundle_.verify(name, piece, kWindow);
    const std::lock_guard lock(mutex_);
    verified_.insert(place);
  }

  const BundleReader bundle_;
  Checkpoint header_;
  std::map<std::string, std::string> keys_;  // in the bundle, by Muster's names
  std::set<std::string> counts_;             // of steps that no variable contains
  mutable std::mutex mutex_;
  mutable std::set<std::pair<int, uint64_t>> verified_;
};

}  // namespace

std::unique_ptr<CheckpointReader> open_tensorflow_checkpoint(FileSystem& fs,
                                                             const std::string& prefix) {
  if (!fs.exists(prefix + ".index").value()) {
    if (const auto file = fs.info(prefix); file.ok() && !file.value().is_directory) {
      throw invalid_argument(
          fmt::format("not supported: '{}' has no '.index', as checkpoints of version 1", prefix),
          "load it in TensorFlow and save it by tf.compat.v1.train.Saver(write_version="
          "tf.compat.v1.train.SaverDef.V2)");
    }
    throw not_found(fmt::format("there is no checkpoint of TensorFlow '{}'", prefix));
  }
  return std::make_unique<TensorflowCheckpoint>(fs, prefix);
}

}  // namespace muster::inline v0_1::tensorflow

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/features/categorical_column.h"
#include "muster/features/internal/column.h"
#include "muster/features/internal/feature_specs.h"

namespace muster::inline v0_1::feature_column {
namespace {

using internal::CategoricalColumn;
using internal::CategoryValues;
using internal::Cells;
using internal::FeatureReader;

constexpr const char* kFunction = "crossed_column";
constexpr uint64_t kDefaultHashKey = 0xDECAFCAFFE;
// Features of many values each have combinations without end.
constexpr size_t kMostOfARow = 1 << 20;

// FarmHash's FingerprintCat64: not the fingerprint of two texts one after another, only one that
// depends on both and their order.
uint64_t fingerprint_cat64(uint64_t first, uint64_t second) {
  constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995;
  const auto shift_mix = [](uint64_t value) { return value ^ (value >> 47); };
  uint64_t result = first ^ kMultiplier;
  result ^= shift_mix(second * kMultiplier) * kMultiplier;
  result *= kMultiplier;
  return shift_mix(shift_mix(result) * kMultiplier);
}

// A key of the cross: a feature, or a column.
struct Leaf {
  std::string key{};  // of the feature; empty: a column
  std::shared_ptr<const CategoricalColumn> column{};

  const std::string& name() const { return column ? column->name() : key; }
  bool is_dense_key(const FeatureReader& features) const {
    return column == nullptr && features.find(key + data::kRowLengths) == nullptr;
  }

  // The cells of values(), as a user calls them.
  std::vector<std::string> names(const std::string& crossed, const FeatureReader& features,
                                 const Cells& cells) const {
    std::vector<std::string> all(cells.values.size());
    const bool read = column == nullptr;
    const CategoryValues values = read ? features.categories(crossed, key) : CategoryValues();
    for (size_t i = 0; i < all.size(); ++i) {
      if (cells.present[i] == 0) continue;
      if (read) {
        all[i] = internal::text_of(values, static_cast<int64_t>(i));
      } else {
        all[i] = cells.values[i] < 0 ? "unknown" : column->value_name(cells.values[i]);
      }
    }
    return all;
  }

  // The inputs of the hash: ids and integers as they are, texts as their fingerprints.
  Cells values(const std::string& crossed, const FeatureReader& features) const {
    if (column) return column->ids(features);
    const CategoryValues values = features.categories(crossed, key);
    Cells cells(values.rows(), values.width());
    for (int64_t i = 0; i < values.size(); ++i) {
      if (values.has_lengths() && !values.present(i)) continue;
      cells.set(i, values.is_strings() ? static_cast<int64_t>(internal::fingerprint_of(values, i))
                                       : values.number(i));
    }
    return cells;
  }
};

std::string name_of(const std::vector<Leaf>& leaves) {
  std::vector<std::string> names;
  for (const Leaf& leaf : leaves) names.push_back(leaf.name());
  std::sort(names.begin(), names.end());
  return join(names, "_X_");
}

class CrossedColumn final : public CategoricalColumn {
 public:
  CrossedColumn(std::vector<Leaf> leaves, int64_t buckets, uint64_t hash_key)
      : CategoricalColumn(name_of(leaves)),
        leaves_(std::move(leaves)),
        buckets_(buckets),
        hash_key_(hash_key) {}

  int64_t num_buckets() const override { return buckets_; }
  bool has_hash_buckets() const override { return true; }
  bool crosses() const override { return true; }
  std::string value_name(int64_t place) const override { return fmt::format("bucket {}", place); }
  const std::vector<Leaf>& leaves() const { return leaves_; }

  std::string definition() const override {
    std::string text = fmt::format("{} hash buckets, key {}, of", buckets_, hash_key_);
    for (const Leaf& leaf : leaves_) {
      text += fmt::format(" '{}'", leaf.name());
      if (leaf.column) text += " (" + leaf.column->definition() + ")";
    }
    return text;
  }

  nlohmann::json recipe() const override {
    nlohmann::json keys = nlohmann::json::array();
    for (const Leaf& leaf : leaves_)
      keys.push_back(leaf.column ? leaf.column->recipe() : nlohmann::json(leaf.key));
    return {{"kind", "cross"}, {"keys", keys}, {"buckets", buckets_}, {"hash_key", hash_key_}};
  }

  void add_features(data::FeatureSpec& spec) const override {
    for (const Leaf& leaf : leaves_) {
      if (leaf.column) {
        leaf.column->add_features(spec);
      } else {
        internal::add_feature(spec, fmt::format("the column '{}'", name()), leaf.key,
                              data::VarLenFeature{data::kString});
      }
    }
  }

  Cells ids(const FeatureReader& features) const override {
    const std::vector<Cells> given = given_by(features, ordered(features));
    const int64_t rows = given.front().rows;
    std::vector<uint64_t> hashes;
    std::vector<size_t> ends;
    size_t width = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const size_t begin = hashes.size();
      cross_row(given, row, hashes);
      ends.push_back(hashes.size());
      width = std::max(width, hashes.size() - begin);
    }
    Cells cells(rows, static_cast<int64_t>(width));
    for (size_t row = 0, from = 0; row < ends.size(); ++row) {
      for (size_t at = row * width; from < ends[row]; ++at, ++from) {
        cells.set(static_cast<int64_t>(at),
                  static_cast<int64_t>(hashes[from] % static_cast<uint64_t>(buckets_)));
      }
    }
    return cells;
  }

  void seen(const FeatureReader& features, const internal::TellSeen& tell) const override {
    const std::vector<const Leaf*> leaves = ordered(features);
    const std::vector<Cells> given = given_by(features, leaves);
    std::vector<std::vector<std::string>> names;
    for (size_t i = 0; i < leaves.size(); ++i)
      names.push_back(leaves[i]->names(name(), features, given[i]));
    std::vector<uint64_t> hashes;
    for (int64_t row = 0; row < given.front().rows; ++row) {
      hashes.clear();
      cross_row(given, row, hashes);
      // The combinations in the order of their hashes.
      std::vector<std::string> before{""}, crossed;
      for (size_t leaf = 0; leaf < given.size(); ++leaf) {
        crossed.clear();
        for (const std::string& text : before) {
          for (int64_t i = row * given[leaf].width; i < (row + 1) * given[leaf].width; ++i) {
            const auto at = static_cast<size_t>(i);
            if (given[leaf].present[at] == 0) continue;
            crossed.push_back(leaf == 0 ? names[leaf][at] : text + " x " + names[leaf][at]);
          }
        }
        std::swap(before, crossed);
      }
      for (size_t i = 0; i < hashes.size(); ++i)
        tell(static_cast<int64_t>(hashes[i] % static_cast<uint64_t>(buckets_)), before[i]);
    }
  }

 private:
  // The leaves in the order in which they are hashed. TensorFlow's kernel takes all that are sparse
  // first, and features that are dense after them.
  std::vector<const Leaf*> ordered(const FeatureReader& features) const {
    std::vector<const Leaf*> leaves;
    for (const bool dense : {false, true}) {
      for (const Leaf& leaf : leaves_) {
        if (leaf.is_dense_key(features) == dense) leaves.push_back(&leaf);
      }
    }
    return leaves;
  }

  // The cells of these leaves.
  std::vector<Cells> given_by(const FeatureReader& features,
                              const std::vector<const Leaf*>& leaves) const {
    std::vector<Cells> given;
    for (const Leaf* leaf : leaves) {
      given.push_back(leaf->values(name(), features));
      if (given.back().rows == given.front().rows) continue;
      throw invalid_argument(
          fmt::format("the column '{}': '{}' has {} rows, and '{}' has {}", name(),
                      leaves.front()->name(), given.front().rows, leaf->name(), given.back().rows),
          "features of a batch have a row for each example");
    }
    return given;
  }

  // Adds the hashes of all combinations of a row; the last leaf's values change fastest.
  void cross_row(const std::vector<Cells>& given, int64_t row,
                 std::vector<uint64_t>& hashes) const {
    std::vector<uint64_t> before{hash_key_}, crossed;
    for (const Cells& leaf : given) {
      crossed.clear();
      for (const uint64_t hash : before) {
        for (int64_t i = row * leaf.width; i < (row + 1) * leaf.width; ++i) {
          const auto at = static_cast<size_t>(i);
          if (leaf.present[at] == 0) continue;
          crossed.push_back(fingerprint_cat64(hash, static_cast<uint64_t>(leaf.values[at])));
        }
      }
      std::swap(before, crossed);
      if (before.size() <= kMostOfARow) continue;
      throw invalid_argument(fmt::format("the column '{}': row {} has more than {} combinations",
                                         name(), row, kMostOfARow),
                             "cross features of fewer values");
    }
    hashes.insert(hashes.end(), before.begin(), before.end());
  }

  const std::vector<Leaf> leaves_;
  const int64_t buckets_;
  const uint64_t hash_key_;
};

// Adds the leaves of a column that is crossed: the leaves of a cross, or the column itself.
void add_leaves(const FeatureColumn& column, std::vector<Leaf>& leaves) {
  auto categorical = internal::as_categorical(kFunction, column.shared_impl());
  if (const auto* crossed = dynamic_cast<const CrossedColumn*>(categorical.get())) {
    leaves.insert(leaves.end(), crossed->leaves().begin(), crossed->leaves().end());
    return;
  }
  if (!categorical->can_be_crossed()) {
    const auto refuse = [&](const char* what, const char* hint) {
      throw invalid_argument(
          fmt::format("{}: the column '{}' {}", kFunction, categorical->name(), what), hint);
    };
    if (categorical->is_sequence()) {
      refuse("is one of sequences", "steps are not crossed; cross features of an example");
    }
    if (categorical->is_weighted()) {
      refuse("has weights", "a combination of values has no weight; cross the column without them");
    }
    refuse("has hash buckets",
           "what is hashed twice collides more often; cross its key, as a text");
  }
  leaves.push_back({.key = {}, .column = std::move(categorical)});
}

}  // namespace

FeatureColumn crossed_column(const std::vector<CrossedKey>& keys, int64_t hash_bucket_size,
                             const CrossedOptions& options) {
  if (keys.size() < 2) {
    throw invalid_argument(fmt::format("{}: keys has {} entries", kFunction, keys.size()),
                           "keys are at least two features or categorical columns");
  }
  std::vector<Leaf> leaves;
  for (const CrossedKey& key : keys) {
    if (const auto* column = std::get_if<FeatureColumn>(&key)) {
      add_leaves(*column, leaves);
    } else {
      internal::check_key(kFunction, std::get<std::string>(key));
      leaves.push_back({.key = std::get<std::string>(key)});
    }
  }
  internal::check_at_least(kFunction, name_of(leaves), "hash_bucket_size", hash_bucket_size, 2);
  const uint64_t hash_key = options.hash_key.value_or(0);
  return FeatureColumn(std::make_shared<const CrossedColumn>(
      std::move(leaves), hash_bucket_size, hash_key == 0 ? kDefaultHashKey : hash_key));
}

}  // namespace muster::inline v0_1::feature_column

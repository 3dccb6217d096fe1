#include "muster/canned/internal/sdca_part.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <unordered_map>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/hash.h"
#include "muster/base/strings.h"
#include "muster/canned/internal/error_context.h"
#include "muster/layers/initializers.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::internal {
namespace {

constexpr const char* kSdcaScope = "linear/sdca/";

void check_sdca(const std::string& estimator, const LinearSDCA& sdca) {
  const auto require = [&](bool holds, const char* option, const auto& value, const char* allowed) {
    if (holds) return;
    throw invalid_argument(
        fmt::format("{}: LinearSDCA: {} is {}; it must be {}", estimator, option, value, allowed));
  };
  const double l1 = sdca.symmetric_l1_regularization, l2 = sdca.symmetric_l2_regularization;
  require(!sdca.example_id_column.empty(), "example_id_column", "empty", "the name of a feature");
  require(sdca.num_loss_partitions >= 1, "num_loss_partitions", sdca.num_loss_partitions,
          "at least 1");
  require(l1 >= 0 && std::isfinite(l1), "symmetric_l1_regularization", l1, "0 or more and finite");
  require(l2 > 0 && std::isfinite(l2), "symmetric_l2_regularization", l2, "more than 0 and finite");
  require(sdca.num_examples >= 1, "num_examples", sdca.num_examples, "at least 1");
}

// Numbers that are checked already, [rows] or [rows, 1].
std::vector<double> doubles(const Tensor& tensor) {
  const Tensor flat = tensor.to(at::kCPU, at::kDouble).flatten().contiguous();
  return {flat.data_ptr<double>(), flat.data_ptr<double>() + flat.numel()};
}

// Which weights of one column the examples of a batch ask for, each once.
struct Rows {
  Tensor weights{};   // the variable of the model, [rows, 1] or [1]
  Tensor unshrunk{};  // float64 [rows]
  Tensor ids{};       // int64 [n], sorted
  size_t first = 0;   // of the coordinates
};

// The problem of one step: all columns and the bias as one list of coordinates.
class Problem {
 public:
  explicit Problem(size_t examples) : of_example_(examples) {}

  void add(const LinearModel::Terms& terms, const Tensor& weights, const Tensor& unshrunk) {
    const auto rows = static_cast<int64_t>(of_example_.size());
    Tensor ids = terms.ids, values = terms.values;
    if (!ids.defined())
      ids = at::arange(values.size(1), at::kLong).unsqueeze(0).expand({rows, values.size(1)});
    const int64_t width = ids.size(1);
    const Tensor known = std::get<0>(at::_unique(ids.masked_select(ids.ge(0)), /*sorted=*/true));
    const Tensor places = at::searchsorted(known, ids.contiguous()).contiguous();
    if (values.defined()) values = values.to(at::kDouble).contiguous();
    const Tensor counts = ids.ge(0).contiguous();
    const size_t first = weights_.size();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t i = r * width; i < (r + 1) * width; ++i) {
        const double value = values.defined() ? values.data_ptr<double>()[i] : 1;
        if (!counts.data_ptr<bool>()[i] || value == 0) continue;
        of_example_[static_cast<size_t>(r)].emplace_back(
            first + static_cast<size_t>(places.data_ptr<int64_t>()[i]), value);
      }
    }
    const Tensor found = unshrunk.cpu().index_select(0, known);
    weights_.insert(weights_.end(), found.data_ptr<double>(),
                    found.data_ptr<double>() + found.numel());
    columns_.push_back({.weights = weights, .unshrunk = unshrunk, .ids = known, .first = first});
  }

  const std::vector<double>& weights() const { return weights_; }
  const std::vector<Rows>& columns() const { return columns_; }

  // Ids that an example has twice become one.
  void write_examples(SdcaExamples& examples) {
    for (auto& entries : of_example_) {
      std::sort(entries.begin(), entries.end());
      for (size_t e = 0; e < entries.size(); ++e) {
        if (e > 0 && entries[e].first == entries[e - 1].first) {
          examples.numbers.back() += entries[e].second;
          continue;
        }
        examples.coordinates.push_back(entries[e].first);
        examples.numbers.push_back(entries[e].second);
      }
      examples.offsets.push_back(examples.coordinates.size());
    }
  }

 private:
  std::vector<std::vector<std::pair<size_t, double>>> of_example_;
  std::vector<double> weights_;
  std::vector<Rows> columns_;
};

// The dual variables of all examples, by key: open addressing, a key of 0 is a free place.
class DualTable {
 public:
  DualTable(const Tensor& keys, const Tensor& duals)
      : keys_(keys.data_ptr<int64_t>()),
        duals_(duals.data_ptr<double>()),
        size_(static_cast<uint64_t>(keys.numel())) {}

  double find(uint64_t key) const {
    const uint64_t place = place_of(key);
    return place < size_ && keys_[place] != 0 ? duals_[place] : 0;
  }

  // False if there is no space for another key.
  bool add(uint64_t key, double change) {
    const uint64_t place = place_of(key);
    if (place == size_) return false;
    keys_[place] = static_cast<int64_t>(key);
    duals_[place] += change;
    return true;
  }

 private:
  uint64_t place_of(uint64_t key) const {
    for (uint64_t i = 0; i < size_; ++i) {
      const uint64_t place = (key + i) % size_;
      if (keys_[place] == 0 || keys_[place] == static_cast<int64_t>(key)) return place;
    }
    return size_;
  }

  int64_t* keys_;
  double* duals_;
  uint64_t size_;
};

// Returns the rows of all replicas in their order. Each has some, float64 [n, k].
Tensor rows_of_all(const Tensor& own, const CallContext& calls) {
  if (calls.num_replicas() == 1) return own;
  const int64_t rows = own.size(0);
  const Tensor total = calls.sum_over_replicas(at::full({1}, rows, at::kDouble));
  const int64_t first = calls.first_row(rows);
  const Tensor all =
      at::zeros({static_cast<int64_t>(total.item<double>()), own.size(1)}, at::kDouble);
  if (all.size(0) == 0) return all;
  all.slice(0, first, first + rows).copy_(own);
  return calls.sum_over_replicas(all);
}

// The changes of the duals of all replicas, in the order of their rows: [rows, 3] of float64, the
// halves of the key and the change. Halves are exact.
Tensor gathered_changes(const std::vector<uint64_t>& keys, const std::vector<double>& changes,
                        const CallContext& calls) {
  const auto rows = static_cast<int64_t>(keys.size());
  const Tensor own = at::empty({rows, 3}, at::kDouble);
  auto* out = own.data_ptr<double>();
  for (size_t i = 0; i < keys.size(); ++i) {
    *out++ = static_cast<double>(keys[i] >> 32);
    *out++ = static_cast<double>(keys[i] & 0xffffffffu);
    *out++ = changes[i];
  }
  return rows_of_all(own, calls);
}

// Returns for each column the rows that changed on any replica, and how; a row may occur several
// times. Only these rows are sent: columns may have many more.
std::vector<Tensor> share_changes(std::vector<Rows>& columns, std::vector<Tensor> changes,
                                  const CallContext& calls) {
  if (calls.num_replicas() == 1) return changes;
  std::vector<Tensor> own;
  for (size_t c = 0; c < columns.size(); ++c) {
    own.push_back(torch::stack({at::full_like(changes[c], static_cast<double>(c)),
                                columns[c].ids.to(at::kDouble), changes[c]},
                               1));
  }
  const Tensor all = rows_of_all(torch::cat(own), calls);
  for (size_t c = 0; c < columns.size(); ++c) {
    const Tensor mine =
        all.index_select(0, all.select(1, 0).eq(static_cast<double>(c)).nonzero().squeeze(1));
    columns[c].ids = mine.select(1, 1).to(kInt64);
    changes[c] = mine.select(1, 2);
  }
  return changes;
}

}  // namespace

SdcaPart::SdcaPart(std::string estimator, LinearSDCA sdca, SdcaPartOptions options)
    : estimator_(std::move(estimator)), sdca_(std::move(sdca)), options_(std::move(options)) {
  check_sdca(estimator_, sdca_);
}

std::vector<uint64_t> SdcaPart::keys_of(const Features& features) const {
  const std::string& column = sdca_.example_id_column;
  if (!features.contains(column)) {
    throw invalid_argument(
        fmt::format("{}: the features have no example_id_column '{}'; they have {}", estimator_,
                    column, join_quoted(features.keys())),
        "give each example an id that it has in every epoch: a text, or its number");
  }
  const Value& value = features.value(column);
  const int64_t rows = features.rows();
  std::vector<uint64_t> keys;
  if (value.is_strings() && value.strings().size() == rows) {
    for (int64_t i = 0; i < rows; ++i) keys.push_back(fingerprint64(value.strings()[i]));
  } else if (value.is_tensor() && value.tensor().numel() == rows &&
             at::isIntegralType(value.tensor().scalar_type(), /*includeBool=*/false)) {
    const Tensor ids = value.tensor().to(at::kCPU, at::kLong).contiguous();
    for (int64_t i = 0; i < rows; ++i)
      keys.push_back(fingerprint64(std::to_string(ids.data_ptr<int64_t>()[i])));
  } else {
    throw invalid_argument(
        fmt::format("{}: the example_id_column '{}' is {}; it must be texts or whole numbers, [{}]",
                    estimator_, column, value.describe(), rows));
  }
  for (uint64_t& key : keys) key = std::max<uint64_t>(key, 1);  // 0 is a free place
  return keys;
}

std::vector<double> SdcaPart::labels_of(const Labels& labels) const {
  const Value& value = labels.element().values().front();
  const std::vector<std::string>& names = options_.label_vocabulary;
  std::vector<double> numbers;
  if (value.is_tensor()) {
    numbers = doubles(value.tensor());
  } else {
    for (int64_t i = 0; i < value.strings().size(); ++i)
      numbers.push_back(value.strings()[i] == names.at(1) ? 1 : 0);
  }
  if (options_.loss == SdcaLoss::kSquared) return numbers;
  for (double& label : numbers) {
    if (label != 0 && label != 1) {
      throw invalid_argument(
          fmt::format("{}: a label is {}; LinearSDCA needs 0 or 1", estimator_, label),
          "labels between these are for optimizers of gradients");
    }
    label = 2 * label - 1;
  }
  return numbers;
}

optim::TrainOp SdcaPart::train_op(const Features& features, const Labels& labels,
                                  const LinearModel& model, const std::string& scope,
                                  ModelContext& context) const {
  const at::NoGradGuard no_grad;
  const CallContext& calls = context.calls();
  if (!context.device().is_cpu()) {
    throw invalid_argument(
        fmt::format("{}: not supported: LinearSDCA on {}", estimator_, context.device().str()),
        "train it on the CPU: mirrored({.replicas = n}), without devices");
  }
  const auto own = [&](const std::string& name, const Shape& shape, DType dtype) {
    return context.variable({.name = kSdcaScope + name,
                             .shape = shape,
                             .dtype = dtype,
                             .initializer = initializers::zeros(),
                             .trainable = false});
  };
  // A table that is two thirds full at most is quick.
  const Shape places{sdca_.num_examples + sdca_.num_examples / 2 + 1};
  const Tensor keys = own("example_keys", places, kInt64),
               duals = own("duals", places, at::kDouble);

  const std::vector<uint64_t> ids = keys_of(features);
  const auto rows = static_cast<int64_t>(ids.size());
  Problem problem(ids.size());
  const auto add = [&](const LinearModel::Terms& terms, const std::string& name) {
    const Tensor& weights = context.variables().find(scope + name)->value();
    problem.add(terms, weights, own(name, {weights.numel()}, at::kDouble));
  };
  for (const LinearModel::Terms& terms :
       with_error_context(estimator_, [&] { return model.terms(features); }))
    add(terms, terms.column + "/weights");
  add({.column = "", .values = at::ones({rows, 1})}, "bias_weights");

  SdcaExamples examples{.labels = labels_of(labels)};
  problem.write_examples(examples);
  examples.weights = options_.weight_column.empty()
                         ? std::vector<double>(ids.size(), 1)
                         : doubles(options_.weight_column.of(features).tensor());
  const DualTable table(keys, duals);
  std::unordered_map<uint64_t, size_t> number_of_key;
  std::vector<uint64_t> different;
  std::vector<double> before;
  for (const uint64_t key : ids) {
    const auto [found, fresh] = number_of_key.try_emplace(key, different.size());
    if (fresh) {
      different.push_back(key);
      before.push_back(table.find(key));
    }
    examples.duals.push_back(found->second);
  }
  const SdcaRule rule{
      .loss = options_.loss,
      .l1 = sdca_.symmetric_l1_regularization,
      .l2 = sdca_.symmetric_l2_regularization,
      .partitions = static_cast<double>(std::max(sdca_.num_loss_partitions, calls.num_replicas()))};
  std::vector<double> change(problem.weights().size()), after = before;
  Random random(context.random_key("sdca"));
  sdca_pass(rule, examples, problem.weights(), change, after, sdca_.adaptive ? &random : nullptr);

  std::vector<double> changes(after.size());
  for (size_t i = 0; i < after.size(); ++i) changes[i] = after[i] - before[i];
  const Tensor all = gathered_changes(different, changes, calls);
  std::vector<Rows> columns = problem.columns();
  std::vector<Tensor> of_columns;
  for (const Rows& column : columns) {
    of_columns.push_back(
        torch::from_blob(change.data() + column.first, {column.ids.numel()}, at::kDouble).clone());
  }
  of_columns = share_changes(columns, std::move(of_columns), calls);
  optim::TrainOp train_op;
  train_op.updates.push_back([estimator = estimator_, room = sdca_.num_examples, keys, duals, all,
                              columns, of_columns, rule] {
    const at::NoGradGuard no_grad;
    DualTable table(keys, duals);
    const auto* entry = all.data_ptr<double>();
    for (int64_t i = 0; i < all.size(0); ++i, entry += 3) {
      const uint64_t key =
          (static_cast<uint64_t>(entry[0]) << 32) | static_cast<uint64_t>(entry[1]);
      if (table.add(key, entry[2])) continue;
      throw invalid_argument(
          fmt::format("{}: LinearSDCA: num_examples is {}, and there are more different examples",
                      estimator, room),
          "set num_examples to how many there are; an id must be the same in every epoch");
    }
    for (size_t c = 0; c < columns.size(); ++c) {
      const Rows& column = columns[c];
      Tensor(column.unshrunk).index_add_(0, column.ids, of_columns[c]);
      const Tensor whole = column.unshrunk.index_select(0, column.ids);
      const Tensor small = whole.sign() * (whole.abs() - rule.l1 / rule.l2).clamp_min(0);
      column.weights.view({-1}).index_copy_(0, column.ids, small.to(column.weights.scalar_type()));
    }
  });
  return train_op;
}

}  // namespace muster::inline v0_1::internal

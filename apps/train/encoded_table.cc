#include "apps/train/encoded_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
using Ids = std::unordered_map<std::string, int64_t, TextHash, std::equal_to<>>;

template <typename T>
Tensor tensor_of(const std::vector<T>& values, DType dtype) {
  Tensor made = torch::empty({static_cast<int64_t>(values.size())}, dtype);
  std::ranges::copy(values, made.data_ptr<T>());
  return made;
}

// Reads one row after another into columns.
class Encoder {
 public:
  Encoder(const TableFile& file, const TablePlan& plan, bool labelled)
      : file_(file), plan_(plan), missing_(plan.missing), labelled_(labelled) {
    for (const PlannedColumn& column : plan.columns) {
      Target target{.column = &column, .place = place_of(column.name)};
      for (size_t i = 0; i < column.words.size(); ++i)
        target.ids.emplace(column.words[i], static_cast<int64_t>(i));
      targets_.push_back(std::move(target));
    }
    if (!labelled) return;
    label_ = place_of(plan.label);
    if (!plan.weight.empty()) weight_ = place_of(plan.weight);
    for (size_t i = 0; i < plan.classes.size(); ++i) {
      classes_.emplace(plan.classes[i], static_cast<int64_t>(i));
      if (plan.label_is_number)
        numbers_.emplace(formats::number_of(plan.classes[i], plan.label_format).value_or(0),
                         static_cast<int64_t>(i));
    }
  }

  // Whether the row has the needed fields.
  bool usable() const {
    return !labelled_ ||
           (!is_without_label(plan_, missing_, file_.field(label_)) &&
            (plan_.weight.empty() || missing_.of(file_.field(weight_)) == Missing::kNo));
  }
  void skip() { ++without_label_; }

  void add() {
    if (labelled_) {
      add_label(file_.field(label_));
      if (!plan_.weight.empty()) add_weight(file_.field(weight_));
    }
    for (Target& target : targets_) {
      std::string_view text = file_.field(target.place);
      const Missing missing = missing_.of(text);
      if (target.column->kind == ColumnKind::kCategory) {
        if (missing == Missing::kYes) text = {};
        const auto found = target.ids.find(text);
        target.of_texts.push_back(found == target.ids.end()
                                      ? static_cast<int64_t>(target.column->words.size())
                                      : found->second);
        continue;
      }
      const auto value =
          missing == Missing::kNo ? formats::number_of(text, target.column->format) : std::nullopt;
      if (!value && missing == Missing::kNo) ++strange_;
      const double number = value.value_or(std::numeric_limits<double>::quiet_NaN());
      if (target.column->in_double) {
        target.doubles.push_back(number);
      } else {
        target.numbers.push_back(static_cast<float>(number));
      }
    }
    ++rows_;
  }

  EncodedTable table() const {
    EncodedTable table{.rows = rows_, .without_label = without_label_, .strange = strange_};
    for (const Target& target : targets_) {
      table.features[target.column->name] =
          target.column->kind == ColumnKind::kCategory ? tensor_of(target.of_texts, kInt64)
          : target.column->in_double                   ? tensor_of(target.doubles, kFloat64)
                                                       : tensor_of(target.numbers, kFloat32);
    }
    if (!labelled_) return table;
    table.labels =
        plan_.classifies() ? tensor_of(label_ids_, kInt64) : tensor_of(label_numbers_, kFloat32);
    if (!plan_.weight.empty()) table.weights = tensor_of(weights_, kFloat32);
    return table;
  }

 private:
  struct Target {
    const PlannedColumn* column = nullptr;
    size_t place = 0;
    Ids ids = {};
    std::vector<int64_t> of_texts = {};
    std::vector<float> numbers = {};
    std::vector<double> doubles = {};  // in place of them
  };

  size_t place_of(const std::string& name) const {
    if (const auto place = file_.find(name)) return *place;
    throw unknown_name(file_.path(), "column", name, file_.names(),
                       "the model learned from it: a table has all columns it learned from");
  }
  [[noreturn]] void refuse(std::string_view text, const std::string& what,
                           const std::string& hint) const {
    throw invalid_argument(fmt::format("{}: row {} has {} '{}'", file_.path(), file_.row() + 1,
                                       what, printable_beginning(text)),
                           hint);
  }

  void add_label(std::string_view text) {
    if (!plan_.classifies()) {
      const auto value = formats::number_of(text, plan_.label_format);
      if (!value) {
        refuse(text, fmt::format("the label '{}' =", printable(plan_.label)),
               "the label must be a number; an empty label makes the row be ignored");
      }
      return label_numbers_.push_back(float_of(*value, text, "label", plan_.label));
    }
    if (const auto found = classes_.find(text); found != classes_.end())
      return label_ids_.push_back(found->second);
    if (plan_.label_is_number) {
      const auto value = formats::number_of(text, plan_.label_format);
      const auto found = value ? numbers_.find(*value) : numbers_.end();
      if (found != numbers_.end()) return label_ids_.push_back(found->second);
    }
    // No training row has this label, so nothing can be said about it.
    label_ids_.push_back(-1);
  }

  void add_weight(std::string_view text) {
    const auto value = formats::number_of(text, plan_.weight_format);
    if (!value || *value < 0) {
      refuse(text, fmt::format("the weight '{}' =", printable(plan_.weight)),
             "a weight is 0 or more");
    }
    weights_.push_back(float_of(*value, text, "weight", plan_.weight));
  }
  // The number in 4 bytes, as labels and weights are used for training.
  float float_of(double value, std::string_view text, std::string_view what,
                 const std::string& column) const {
    const auto number = static_cast<float>(value);
    if (std::isfinite(number)) return number;
    refuse(text, fmt::format("the {} '{}' =", what, printable(column)),
           fmt::format("a {} is at most 3.4e38: divide the column by a power of ten", what));
  }

  const TableFile& file_;
  const TablePlan& plan_;
  const MissingWords missing_;
  const bool labelled_;
  std::vector<Target> targets_;
  size_t label_ = 0, weight_ = 0;
  Ids classes_;
  std::map<double, int64_t> numbers_;  // classes that are numbers
  std::vector<int64_t> label_ids_;
  std::vector<float> label_numbers_, weights_;
  int64_t rows_ = 0, without_label_ = 0, strange_ = 0;
};

EncodedTable select(const EncodedTable& table, const Tensor& places) {
  EncodedTable made{
      .rows = places.numel(), .without_label = table.without_label, .strange = table.strange};
  for (const auto& [name, values] : table.features)
    made.features[name] = values.index_select(0, places);
  if (table.labels.defined()) made.labels = table.labels.index_select(0, places);
  if (table.weights.defined()) made.weights = table.weights.index_select(0, places);
  return made;
}

// Leaves out the rows whose class no training row had.
EncodedTable with_known_classes(const EncodedTable& table, const TablePlan& plan) {
  if (!plan.classifies() || !table.labels.defined()) return table;
  const Tensor known = table.labels.ge(0).nonzero().squeeze(1);
  if (known.numel() == table.rows) return table;
  EncodedTable made = select(table, known);
  made.without_label += table.rows - known.numel();
  return made;
}

// Whether the classes of rows that are sorted by a number come one after another.
bool separates(const Tensor& numbers, const Tensor& labels) {
  const Tensor there = numbers.isfinite().nonzero().squeeze(1);
  if (there.numel() < numbers.numel()) return false;
  const Tensor order = numbers.argsort(/*stable=*/true, 0);
  const Tensor sorted = labels.index_select(0, order), by = numbers.index_select(0, order);
  const Tensor changes = sorted.slice(0, 1).ne(sorted.slice(0, 0, -1));
  const int64_t runs = changes.sum().item<int64_t>() + 1;
  const Tensor ties = by.slice(0, 1).eq(by.slice(0, 0, -1));
  const int64_t classes = std::get<0>(at::_unique(labels)).numel();
  return runs == classes && !(changes & ties).any().item<bool>();
}

// In how many of the rows the most frequent class of the category is theirs.
double majority_accuracy(const Tensor& ids, const Tensor& labels, int64_t values, int64_t classes) {
  const Tensor counts =
      at::bincount(ids * classes + labels, {}, values * classes).reshape({values, classes});
  return counts.amax(1).sum().item<double>() / static_cast<double>(labels.numel());
}

double correlation(const Tensor& numbers, const Tensor& labels) {
  const Tensor there = numbers.isfinite().nonzero().squeeze(1);
  if (there.numel() < numbers.numel()) return 0;
  const Tensor x = numbers.to(kFloat64) - numbers.to(kFloat64).mean();
  const Tensor y = labels.to(kFloat64) - labels.to(kFloat64).mean();
  return std::abs((x * y).sum().item<double>()) /
         std::sqrt((x * x).sum().item<double>() * (y * y).sum().item<double>() + 1e-300);
}

// Cuts ascending numbers into buckets of equally many rows; a value that many rows share is a
// bucket of its own, and the others share the rest.
std::vector<double> boundaries_of(std::span<const double> sorted) {
  constexpr size_t kBuckets = 12;
  std::vector<double> boundaries;
  for (size_t begin = 0, left = kBuckets; left > 1; --left) {
    const size_t wanted = (sorted.size() - begin + left - 1) / left;
    const double last = sorted[begin + wanted - 1];
    const auto end =
        std::upper_bound(sorted.begin() + static_cast<std::ptrdiff_t>(begin), sorted.end(), last);
    if (end == sorted.end()) break;
    boundaries.push_back(*end);
    begin = static_cast<size_t>(end - sorted.begin());
  }
  return boundaries;
}

}  // namespace

Dataset EncodedTable::dataset(const TablePlan& plan) const {
  std::vector<std::pair<std::string, Element>> entries(features.begin(), features.end());
  if (weights.defined()) entries.emplace_back(plan.weight, weights);
  Element all = Element::dict(std::move(entries));
  return Dataset::from_tensor_slices(labels.defined() ? Element::tuple({std::move(all), labels})
                                                      : std::move(all));
}

EncodedTable EncodedTable::sample(int64_t count) const {
  if (count >= rows) return *this;
  return select(*this, (torch::arange(count) * rows).floor_divide(count));
}

EncodedSplit encode_split(const std::string& path, const TableFormat& format, const TablePlan& plan,
                          const HeldOut& held_out) {
  TableFile file(path, format);
  Encoder train(file, plan, true), eval(file, plan, true);
  while (file.next()) {
    Encoder& part = held_out(file.row()) ? eval : train;
    if (part.usable()) {
      part.add();
    } else {
      part.skip();
    }
  }
  const EncodedTable all = train.table();
  EncodedSplit split{with_known_classes(all, plan), with_known_classes(eval.table(), plan)};
  if (split.train.rows < all.rows) {
    log::warning(fmt::format("ignored {} rows whose '{}' is not one of {}",
                             all.rows - split.train.rows, printable(plan.label),
                             join_quoted(plan.classes, 5)));
  }
  return split;
}

EncodedTable encode_file(const std::string& path, const TableFormat& format, const TablePlan& plan,
                         bool labelled) {
  TableFile file(path, format);
  Encoder encoder(file, plan, labelled);
  while (file.next()) {
    if (encoder.usable()) {
      encoder.add();
    } else {
      encoder.skip();
    }
  }
  return with_known_classes(encoder.table(), plan);
}

void add_statistics(const EncodedTable& table, TablePlan& plan) {
  // Mean, and a deviation that may be divided by.
  const auto measure = [](const Tensor& numbers, double* mean, double* deviation) {
    *mean = numbers.mean().item<double>();
    const double spread = numbers.std(/*unbiased=*/false).item<double>();
    *deviation = spread > 0 && std::isfinite(spread) ? spread : 1;
  };
  if (!plan.classifies())
    measure(table.labels.to(kFloat64), &plan.label_mean, &plan.label_deviation);
  for (PlannedColumn& column : plan.columns) {
    if (column.kind == ColumnKind::kCategory) continue;
    const Tensor& all = table.features.at(column.name);
    const Tensor numbers = std::get<0>(all.masked_select(all.isfinite()).to(kFloat64).sort());
    const int64_t count = numbers.numel();
    if (count == 0) continue;
    measure(numbers, &column.mean, &column.deviation);
    column.boundaries.clear();
    if (column.kind == ColumnKind::kFew) {
      for (size_t i = 1; i < column.steps.size(); ++i)
        column.boundaries.push_back((column.steps[i - 1] + column.steps[i]) / 2);
      continue;
    }
    column.boundaries = boundaries_of({numbers.data_ptr<double>(), static_cast<size_t>(count)});
  }
}

std::vector<std::string> leaks_of(const EncodedTable& table, const TablePlan& plan) {
  constexpr double kAlmostAll = 0.999;
  std::vector<std::string> leaks;
  const auto classes = static_cast<int64_t>(plan.classes.size());
  for (const PlannedColumn& column : plan.columns) {
    const Tensor& values = table.features.at(column.name);
    double told = 0;
    if (!plan.classifies()) {
      if (column.kind != ColumnKind::kCategory) told = correlation(values, table.labels);
      // A number that is the label in other units.
      if (told < 1 - 1e-6) continue;
      leaks.push_back(fmt::format("'{}' is the label times a number", column.name));
      continue;
    }
    if (column.kind == ColumnKind::kCategory) {
      const auto words = static_cast<int64_t>(column.words.size()) + 1;
      if (words * 20 > table.rows) continue;
      told = majority_accuracy(values, table.labels, words, classes);
    } else if (separates(values, table.labels)) {
      told = 1;
    }
    if (told < kAlmostAll) continue;
    const double baseline =
        at::bincount(table.labels).max().item<double>() / static_cast<double>(table.rows);
    if (baseline >= kAlmostAll) continue;
    leaks.push_back(fmt::format("'{}' alone predicts the label in {:.4g} % of the rows",
                                column.name, 100 * told));
  }
  return leaks;
}

}  // namespace muster::app

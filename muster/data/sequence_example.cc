#include "muster/data/sequence_example.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/data/internal/feature_values.h"
#include "muster/data/internal/padding_limit.h"
#include "muster/formats/example.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::data {
namespace {

using formats::Feature;
using formats::FeatureKind;

// How the steps of one list are read.
struct StepPlan {
  std::string key{};
  FeatureKind kind = FeatureKind::kFloat;
  Shape shape{};       // of a step; unused where steps vary
  int64_t width = -1;  // values of a step; -1: any number
  bool allow_missing = false;
  Feature padding;  // one value
};

StepPlan plan_of(const std::string& key, const FixedLenFeature&) {
  throw invalid_argument(
      fmt::format("the list \"{}\" is described as one feature, and has one for each step", key),
      "describe a step: FixedLenSequenceFeature, or VarLenFeature where steps differ in size");
}

StepPlan plan_of(const std::string& key, const VarLenFeature& feature) {
  const FeatureKind kind = internal::kind_of(feature.dtype, key);
  return {.key = key,
          .kind = kind,
          .shape = {},
          .allow_missing = true,
          .padding = internal::zero_of(kind)};
}

StepPlan plan_of(const std::string& key, const FixedLenSequenceFeature& feature) {
  const FeatureKind kind = internal::kind_of(feature.dtype, key);
  int64_t width = 1;
  for (const int64_t extent : feature.shape) {
    if (extent < 1) {
      throw invalid_argument(
          fmt::format("the step of \"{}\" has the shape {}", key, muster::describe(feature.shape)),
          "every axis of a step has at least size 1");
    }
    width *= extent;
  }
  return {.key = key,
          .kind = kind,
          .shape = feature.shape,
          .width = width,
          .allow_missing = feature.allow_missing,
          .padding = feature.padding_value
                         ? internal::values_of(*feature.padding_value, {}, kind, key)
                         : internal::zero_of(kind)};
}

// The steps of one list in all examples of a batch.
struct Steps {
  std::vector<const std::vector<Feature>*> rows;  // null: a missing list

  int64_t count(size_t row) const {
    return rows[row] == nullptr ? 0 : static_cast<int64_t>(rows[row]->size());
  }
  int64_t most() const {
    int64_t most = 0;
    for (size_t row = 0; row < rows.size(); ++row) most = std::max(most, count(row));
    return most;
  }
  // How many values the step has, and the longest of all; 0 after the last step.
  int64_t length(size_t row, int64_t step) const {
    if (step >= count(row)) return 0;
    return static_cast<int64_t>(formats::size_of((*rows[row])[static_cast<size_t>(step)]));
  }
  int64_t longest() const {
    int64_t longest = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (int64_t step = 0; step < count(row); ++step) {
        longest = std::max(longest, length(row, step));
      }
    }
    return longest;
  }
};

// Calls add(value) for every place of [rows, steps, width], with the padding if there is no value.
template <typename T, typename Add>
void each_value(const StepPlan& plan, const Steps& steps, int64_t width, const Add& add) {
  const T& padding = std::get<std::vector<T>>(plan.padding).front();
  const int64_t most = steps.most();
  for (size_t row = 0; row < steps.rows.size(); ++row) {
    for (int64_t step = 0; step < most; ++step) {
      const int64_t have = steps.length(row, step);
      const std::vector<T>* values =
          have == 0 ? nullptr
                    : &std::get<std::vector<T>>((*steps.rows[row])[static_cast<size_t>(step)]);
      for (int64_t i = 0; i < width; ++i) {
        add(i < have ? (*values)[static_cast<size_t>(i)] : padding);
      }
    }
  }
}

template <typename Number>
Tensor numbers_of(const StepPlan& plan, const Steps& steps, int64_t width, const Shape& shape,
                  DType dtype) {
  Tensor out = torch::empty(shape, dtype);
  Number* to = out.data_ptr<Number>();
  each_value<Number>(plan, steps, width, [&to](Number value) { *to++ = value; });
  return out;
}

// One long step and many empty ones are few bytes of a file, and are padded to all steps times all
// values. Throws InvalidArgument if that is too much for `read_bytes` of records.
void check_fits(const StepPlan& plan, const Steps& steps, int64_t width, uint64_t read_bytes) {
  const double places = static_cast<double>(steps.rows.size()) * static_cast<double>(steps.most()) *
                        static_cast<double>(width);
  internal::check_padding(
      fmt::format("SequenceExampleParser: \"{}\" of {} examples, of up to {} steps with up to {} "
                  "values each",
                  plan.key, steps.rows.size(), steps.most(), width),
      places * internal::padded_value_bytes(plan.padding), read_bytes);
}

Value values_of(const StepPlan& plan, const Steps& steps, uint64_t read_bytes) {
  const int64_t width = plan.width < 0 ? steps.longest() : plan.width;
  check_fits(plan, steps, width, read_bytes);
  Shape shape = plan.width < 0 ? Shape{width} : plan.shape;
  shape.insert(shape.begin(), {static_cast<int64_t>(steps.rows.size()), steps.most()});
  if (plan.kind == FeatureKind::kFloat) {
    return numbers_of<float>(plan, steps, width, shape, kFloat32);
  }
  if (plan.kind == FeatureKind::kInt64) {
    return numbers_of<int64_t>(plan, steps, width, shape, kInt64);
  }
  std::vector<int64_t> offsets{0};
  std::string bytes;
  each_value<std::string>(plan, steps, width, [&](const std::string& value) {
    bytes += value;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  });
  return Strings(std::move(shape), std::move(offsets), std::move(bytes));
}

Tensor row_lengths_of(const Steps& steps) {
  Tensor out = torch::empty({static_cast<int64_t>(steps.rows.size())}, kInt64);
  for (size_t row = 0; row < steps.rows.size(); ++row) {
    out.data_ptr<int64_t>()[row] = steps.count(row);
  }
  return out;
}

Tensor step_lengths_of(const Steps& steps) {
  const int64_t most = steps.most();
  Tensor out = torch::empty({static_cast<int64_t>(steps.rows.size()), most}, kInt64);
  int64_t* to = out.data_ptr<int64_t>();
  for (size_t row = 0; row < steps.rows.size(); ++row) {
    for (int64_t step = 0; step < most; ++step) *to++ = steps.length(row, step);
  }
  return out;
}

// Throws InvalidArgument unless the steps are of the kind and the size that the plan has.
void check_steps(const StepPlan& plan, const std::vector<Feature>& list) {
  for (size_t step = 0; step < list.size(); ++step) {
    const auto have = static_cast<int64_t>(formats::size_of(list[step]));
    const FeatureKind kind = formats::kind_of(list[step]);
    if (kind != plan.kind && !(kind == FeatureKind::kNone && plan.width < 0)) {
      throw invalid_argument(fmt::format("step {} of \"{}\" holds {} values, not {}", step,
                                         plan.key, to_string(kind), to_string(plan.kind)),
                             "ask for it with the dtype the data has");
    }
    if (plan.width >= 0 && have != plan.width) {
      throw invalid_argument(
          fmt::format("step {} of \"{}\" holds {} values, but its shape {} takes {}", step,
                      plan.key, have, muster::describe(plan.shape), plan.width),
          "give the shape that a step of the data has, or read it as VarLenFeature when that "
          "changes");
    }
  }
}

// The list of the plan; null if it is missing and optional.
const std::vector<Feature>* list_of(const StepPlan& plan, const formats::SequenceExample& example) {
  std::vector<std::string> keys;
  for (const auto& [key, list] : example.feature_lists) {
    if (key == plan.key) {
      check_steps(plan, list);
      return &list;
    }
    keys.push_back("\"" + key + "\"");
  }
  if (plan.allow_missing) return nullptr;
  throw invalid_argument(fmt::format("the list \"{}\" is missing; the example has {}", plan.key,
                                     keys.empty() ? std::string("none") : join(keys, ", ")),
                         "set allow_missing, or leave the list out");
}

}  // namespace

struct SequenceExampleParser::Compiled {
  std::vector<StepPlan> plans;

  // The dict of all lists, of examples that were read from the given number of bytes.
  Element sequences(const std::vector<formats::SequenceExample>& examples,
                    uint64_t read_bytes) const;
};

SequenceExampleParser::SequenceExampleParser(const FeatureSpec& context,
                                             const FeatureSpec& sequences)
    : context_(context) {
  auto compiled = std::make_shared<Compiled>();
  std::map<std::string, std::string> keys;  // of the dict, and the list each belongs to
  for (const auto& [key, feature] : sequences) {
    StepPlan plan =
        std::visit([&key = key](const auto& each) { return plan_of(key, each); }, feature);
    std::vector<std::string> own{key, key + kRowLengths};
    if (plan.width < 0) own.push_back(key + kStepLengths);
    for (const std::string& one : own) {
      if (keys.emplace(one, key).second) continue;
      throw invalid_argument(
          fmt::format("the key \"{}\" would be there twice: for the lists \"{}\" and \"{}\"", one,
                      keys[one], key),
          "leave one of them out");
    }
    compiled->plans.push_back(std::move(plan));
  }
  compiled_ = std::move(compiled);
}

Element SequenceExampleParser::Compiled::sequences(
    const std::vector<formats::SequenceExample>& examples, uint64_t read_bytes) const {
  std::vector<std::pair<std::string, Element>> entries;
  for (const StepPlan& plan : plans) {
    Steps steps;
    for (size_t row = 0; row < examples.size(); ++row) {
      try {
        steps.rows.push_back(list_of(plan, examples[row]));
      } catch (const Error& error) {
        if (examples.size() == 1) throw;
        throw Error(error.kind(),
                    fmt::format("row {} of {}: {}", row, examples.size(), error.message()),
                    error.hint());
      }
    }
    entries.emplace_back(plan.key, Element(values_of(plan, steps, read_bytes)));
    entries.emplace_back(plan.key + kRowLengths, Element(row_lengths_of(steps)));
    if (plan.width < 0) {
      entries.emplace_back(plan.key + kStepLengths, Element(step_lengths_of(steps)));
    }
  }
  return Element::dict(std::move(entries));
}

Element SequenceExampleParser::operator()(const Element& serialized) const {
  if (!serialized.is_leaf() || !serialized.value().is_strings() ||
      serialized.value().strings().shape().size() > 1) {
    throw invalid_argument(
        "tf.SequenceExamples are parsed from strings, one for each; this is " +
            serialized.describe(),
        "give the records of a TFRecord file, of which map() sees one or a batch");
  }
  const Strings& records = serialized.value().strings();
  std::vector<formats::SequenceExample> examples;
  uint64_t read_bytes = 0;
  for (int64_t row = 0; row < records.size(); ++row) {
    read_bytes += records[row].size();
    Result<formats::SequenceExample> example =
        formats::decode_sequence_example(bytes_of(records[row]));
    if (!example.ok()) {
      const Error& error = example.error();
      throw Error(error.kind(),
                  records.size() == 1
                      ? error.message()
                      : fmt::format("row {} of {}: {}", row, records.size(), error.message()),
                  error.hint());
    }
    examples.push_back(std::move(example).value());
  }
  Element sequences = compiled_->sequences(examples, read_bytes);
  if (records.shape().empty()) {
    sequences = sequences.transform([](const Value& value) { return value.row(0); });
  }
  // The context lies where the features of a tf.Example do, and the lists are passed over.
  return Element::tuple({context_(serialized), std::move(sequences)});
}

}  // namespace muster::inline v0_1::data

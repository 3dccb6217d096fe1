#include "muster/data/numpy_input_fn.h"

#include "muster/base/error.h"
#include "muster/base/nearest_hint.h"
#include "muster/data/npy.h"

namespace muster::inline v0_1::data {
namespace {

// A value and how errors call it: x["age"].
struct Named {
  std::string name{};
  Value value{};
};

std::vector<Named> named_values(const std::string& argument, const Element& element) {
  if (element.is_leaf()) return {{argument, element.value()}};
  if (element.structure().kind != Structure::Kind::kDict || element.values().empty()) {
    throw invalid_argument(
        fmt::format("{} of numpy_input_fn is {}", argument, element.describe()),
        "give a tensor, or a dict with at least one: Element::dict({{\"age\", ages}})");
  }
  std::vector<Named> named;
  for (const std::string& key : element.structure().keys) {
    named.push_back({fmt::format("{}[\"{}\"]", argument, key), element.at(key).value()});
  }
  return named;
}

void check_rows(const std::vector<Named>& values) {
  const Named& first = values.front();
  for (const Named& other : values) {
    if (other.value.rows() == first.value.rows()) continue;
    throw invalid_argument(
        fmt::format("numpy_input_fn needs equal first dimensions: {} is {}, {} is {}", first.name,
                    first.value.describe(), other.name, other.value.describe()),
        "give one row per example in every array");
  }
}

void check_keys(const Element& x, const Element& y) {
  for (const std::string& key : y.structure().keys) {
    const auto& keys = x.structure().keys;
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) continue;
    throw invalid_argument(
        fmt::format("the key \"{}\" is both in x and in y of numpy_input_fn", key),
        "give the label another name, or take it out of the features");
  }
}

void check_options(const NumpyInputOptions& options) {
  if (!options.shuffle) {
    throw invalid_argument("numpy_input_fn: shuffle is not set",
                           "say .shuffle = true for training, .shuffle = false otherwise");
  }
  const auto check = [](const char* name, const std::optional<int64_t>& count) {
    if (!count || *count >= 1) return;
    throw invalid_argument(fmt::format("numpy_input_fn: {} is {}", name, *count),
                           fmt::format("{} counts from 1", name));
  };
  check("batch_size", options.batch_size);
  check("num_epochs", options.num_epochs);
  check("queue_capacity", options.queue_capacity);
}

}  // namespace

std::function<Dataset()> numpy_input_fn(const Element& x, const std::optional<Element>& y,
                                        const NumpyInputOptions& options) {
  check_options(options);
  std::vector<Named> values = named_values("x", x);
  if (y) {
    for (Named& value : named_values("y", *y)) values.push_back(std::move(value));
    check_keys(x, *y);
  }
  check_rows(values);
  // Made once: the arrays are shared by all data sets the function gives.
  Dataset dataset = Dataset::from_tensor_slices(y ? Element::tuple({x, *y}) : x);
  if (*options.shuffle) {
    const int64_t rows = values.front().value.rows();
    dataset = dataset.shuffle(options.queue_capacity.value_or(std::max<int64_t>(rows, 1)),
                              {.seed = options.seed});
  }
  dataset = dataset.repeat(options.num_epochs.value_or(-1)).batch(options.batch_size);
  return [dataset] { return dataset; };
}

std::function<Dataset()> numpy_input_fn(const std::string& npz_path,
                                        const std::optional<std::string>& label,
                                        const NumpyInputOptions& options) {
  check_options(options);
  const Element arrays = load_npz(npz_path);
  if (!label) return numpy_input_fn(arrays, std::nullopt, options);
  std::vector<std::pair<std::string, Element>> features;
  for (const std::string& key : arrays.structure().keys) {
    if (key != *label) features.emplace_back(key, arrays.at(key));
  }
  const auto& keys = arrays.structure().keys;
  if (features.size() == keys.size()) {
    throw not_found(fmt::format("there is no array \"{}\" in '{}'; there are {}", *label, npz_path,
                                arrays.describe()),
                    nearest_hint(*label, keys, "name one of them as the label"));
  }
  if (features.empty()) {
    throw invalid_argument(
        fmt::format("'{}' has \"{}\" alone: no features are left", npz_path, *label),
        "add the features to the archive");
  }
  return numpy_input_fn(Element::dict(std::move(features)), arrays.at(*label), options);
}

}  // namespace muster::inline v0_1::data

// Tests of columns write batches short, and call layers on variables they choose.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "muster/features/resolve.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/element.h"
#include "muster/tensor/features.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

using Entries = std::vector<std::pair<std::string, Element>>;

inline Tensor floats(const std::vector<double>& values, at::IntArrayRef shape) {
  return torch::tensor(values, kFloat64).to(kFloat32).reshape(shape);
}
inline Tensor ints(const std::vector<int64_t>& values, at::IntArrayRef shape) {
  return torch::tensor(values, kInt64).reshape(shape);
}
inline Strings texts(const std::vector<std::string>& values, const Shape& shape) {
  std::vector<int64_t> offsets{0};
  std::string bytes;
  for (const std::string& value : values) {
    bytes += value;
    offsets.push_back(static_cast<int64_t>(bytes.size()));
  }
  return Strings(shape, offsets, bytes);
}

// Rows of unequal lengths, as ExampleParser gives them for a VarLenFeature.
template <typename T>
Entries ragged(const std::string& key, const std::vector<std::vector<T>>& rows) {
  size_t width = 0;
  std::vector<int64_t> lengths;
  for (const auto& row : rows) {
    width = std::max(width, row.size());
    lengths.push_back(static_cast<int64_t>(row.size()));
  }
  std::vector<T> all;
  for (auto row : rows) {
    row.resize(width);
    all.insert(all.end(), row.begin(), row.end());
  }
  const Shape shape{static_cast<int64_t>(rows.size()), static_cast<int64_t>(width)};
  Entries entries;
  if constexpr (std::is_same_v<T, std::string>) {
    entries.emplace_back(key, texts(all, shape));
  } else {
    entries.emplace_back(key, torch::tensor(all).reshape(shape));
  }
  entries.emplace_back(key + "/row_lengths", ints(lengths, {shape[0]}));
  return entries;
}

inline Element dict(std::vector<Entries> parts) {
  Entries all;
  for (Entries& part : parts) all.insert(all.end(), part.begin(), part.end());
  return Element::dict(std::move(all));
}

// The ids of a column; missing ones are -1.
inline Tensor ids_of(const FeatureColumn& column, const Element& batch) {
  return feature_column::resolve({column})(batch).at(column.name() + "/ids").value().tensor();
}

inline void expect_equal(const Tensor& given, const Tensor& expected) {
  ASSERT_EQ(describe(given), describe(expected));
  EXPECT_TRUE(given.equal(expected)) << given << "\nexpected\n" << expected;
}
inline void expect_close(const Tensor& given, const Tensor& expected, double tolerance = 1e-5) {
  ASSERT_EQ(describe(given), describe(expected));
  EXPECT_TRUE(torch::allclose(given, expected, tolerance, tolerance)) << given << "\nexpected\n"
                                                                      << expected;
}

// Keeps variables in a plain list; values that were set come in place of the initializer's.
class Variables final : public VariableStore {
 public:
  std::map<std::string, Tensor> set{};

  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    const auto given = set.find(spec.name);
    Tensor value = given != set.end() ? given->second.clone()
                                      : spec.initializer(spec.shape, spec.dtype,
                                                         derive_key(7, {id_of(spec.name)}));
    EXPECT_EQ(value.sizes(), at::IntArrayRef(spec.shape)) << spec.name;
    value.requires_grad_(spec.trainable);
    all_.push_back(std::make_unique<Variable>(spec, value));
    return *all_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return all_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : all_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& variable : all_) names.push_back(variable->name());
    return names;
  }
  Tensor value(const std::string& name) const { return find(name)->value().detach(); }

 private:
  std::vector<std::unique_ptr<Variable>> all_;
};

struct Calls {
  Variables store{};
  StepContext context{store, 11};
};

}  // namespace muster::inline v0_1::testing

// Tests call layers without variables in a context, and write tensors and data sets short.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/error_of.h"
#include "muster/data/dataset.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

// These layers have no variables.
class NoVariables final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override {
    throw internal_error("a layer asked for the variable " + spec.name);
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return none_; }
  Variable* find(const std::string&) const override { return nullptr; }

 private:
  std::vector<std::unique_ptr<Variable>> none_;
};

struct Calls {
  NoVariables store;
  StepContext context{store, 11};
};

inline Tensor floats(std::vector<double> values, at::IntArrayRef shape) {
  return torch::tensor(values, kFloat64).to(kFloat32).reshape(shape);
}
inline Tensor ints(std::vector<int64_t> values, at::IntArrayRef shape) {
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
inline std::vector<std::string> list(const Strings& strings) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < strings.size(); ++i) all.emplace_back(strings[i]);
  return all;
}

inline void expect_equal(const Tensor& given, const Tensor& expected) {
  EXPECT_EQ(describe(given), describe(expected));
  ASSERT_EQ(given.sizes(), expected.sizes());
  EXPECT_TRUE(given.equal(expected)) << given << "\nexpected\n" << expected;
}
inline void expect_close(const Tensor& given, const Tensor& expected, double tolerance = 1e-6) {
  ASSERT_EQ(given.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(given, expected.to(given.scalar_type()), tolerance, tolerance))
      << given << "\nexpected\n"
      << expected;
}

}  // namespace muster::inline v0_1::testing

// Helpers that tests of canned estimators and of heads in Estimators share. Thread safety: pure
// functions.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/checkpoint/manager.h"
#include "muster/data/dataset.h"
#include "muster/distribute/strategy.h"
#include "muster/estimator/estimator.h"
#include "muster/formats/event.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

// [values] or, by rows of one length, [rows, values].
inline Tensor floats(const std::vector<double>& values, DType dtype = kFloat32) {
  return torch::tensor(values, at::kDouble).to(dtype);
}
inline Tensor rows_of(const std::vector<std::vector<double>>& rows) {
  std::vector<Tensor> all;
  for (const std::vector<double>& row : rows) all.push_back(floats(row));
  return torch::stack(all);
}

// These rows, all of them in each batch, without end.
inline InputFn one_batch(const Element& features, const Element& labels) {
  const Element both = Element::tuple({features, labels});
  return [=] {
    return Dataset::from_tensor_slices(both).repeat().global_batch(both.values().front().rows());
  };
}
// The same without labels, once.
inline InputFn features_alone(const Element& features) {
  return [=] { return Dataset::from_tensors(features); };
}

// Leaves a checkpoint of step 100 with these variables, of a run with SGD.
inline void leave_checkpoint(const std::string& model_dir, std::map<std::string, Tensor> tensors) {
  tensors.emplace("SGD/iterations", torch::tensor(100, at::kLong));
  CheckpointManager(model_dir).save({.tensors = std::move(tensors), .global_step = 100});
}

// An optimizer that changes nothing.
inline optim::Optimizer idle() { return optim::sgd({.learning_rate = 0.0}); }

class RecordLosses : public Hook {
 public:
  void after_step(const StepInfo& step) override { losses.push_back(step.loss); }
  std::vector<double> losses;
};

// Expects these results, to `tolerance`, relative where they are large.
inline void expect_results(const EvalResult& results, const EvalResult& expected,
                           double tolerance) {
  for (const auto& [name, value] : expected) {
    ASSERT_TRUE(results.contains(name)) << name;
    EXPECT_NEAR(results.at(name), value, tolerance * (1 + std::abs(value))) << name;
  }
}

// Expects a tensor of these values and this shape, to 1e-5.
inline void expect_values(const Tensor& given, const Tensor& expected) {
  ASSERT_EQ(given.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(given.to(kFloat64), expected.to(kFloat64), 1e-5, 1e-6))
      << given << "\nexpected\n"
      << expected;
}

// The last value of each tag in the event files of a folder.
using Shown = std::map<std::string, decltype(formats::SummaryValue::value)>;
inline Shown summaries_in(const std::string& directory) {
  Shown shown;
  FileSystem& files = local_file_system();
  for (const std::string& path : formats::list_event_files(files, directory).value()) {
    for (formats::Event& event : formats::read_events(files, path).value().events) {
      for (formats::SummaryValue& value : event.values) shown[value.tag] = std::move(value.value);
    }
  }
  return shown;
}
inline double number_of(const Shown& shown, const std::string& tag) {
  return shown.contains(tag) ? std::get<float>(shown.at(tag)) : std::nan("");
}

// Trains and evaluates on `replicas` replicas. It prints little, and reads no TF_CONFIG.
inline RunConfig run_config(const std::string& model_dir, int replicas = 1) {
  const distribute::StrategyPtr strategy =
      replicas == 1 ? nullptr : distribute::mirrored({.replicas = replicas});
  return {.model_dir = model_dir,
          .save_checkpoints_steps = 1000,
          .log_step_count_steps = 1000,
          .train_distribute = strategy,
          .eval_distribute = strategy,
          .progress_line = false,
          .environment = Environment{}};
}

// How far the variables and slots of two trained models are apart: the largest max|a - b| /
// max|b| of one. The names must be the same.
inline double largest_distance(const Estimator& a, const Estimator& b) {
  if (a.get_variable_names() != b.get_variable_names())
    throw std::runtime_error("the models hold different variables");
  double largest = 0;
  for (const std::string& name : a.get_variable_names()) {
    const Tensor right = b.get_variable_value(name).to(kFloat64);
    const Tensor difference = (a.get_variable_value(name).to(kFloat64) - right).abs();
    const double size = right.abs().max().item<double>();
    const double error = difference.max().item<double>();
    largest = std::max(largest, size > 0 ? error / size : error);
  }
  return largest;
}

}  // namespace muster::inline v0_1::testing

// Tests of applications share a store of variables, a loop that trains, and files of weights.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/formats/safetensors.h"
#include "muster/layers/functional.h"
#include "muster/layers/step_context.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::testing {

// Keeps variables in a list; the key of a value is (seed, name).
class PlainStore final : public VariableStore {
 public:
  Variable& get_or_create(const VariableSpec& spec) override {
    if (Variable* known = find(spec.name)) return *known;
    Tensor value = spec.initializer(spec.shape, spec.dtype, derive_key(7, {id_of(spec.name)}));
    value.requires_grad_(spec.trainable);
    variables_.push_back(std::make_unique<Variable>(spec, value));
    return *variables_.back();
  }
  const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
  Variable* find(const std::string& name) const override {
    for (const auto& variable : variables_) {
      if (variable->name() == name) return variable.get();
    }
    return nullptr;
  }

 private:
  std::vector<std::unique_ptr<Variable>> variables_;
};

// A model with its variables.
struct ModelRun {
  explicit ModelRun(Layer model) : model(std::move(model)) {}

  // In evaluation.
  Tensor operator()(const Tensor& input) {
    const torch::NoGradGuard no_grad;
    context.begin_step(/*training=*/false, 0, 0);
    return model(input, context);
  }

  Layer model;
  PlainStore store;
  StepContext context{store, 11};
};

// Trains a model that gives logits by plain gradient descent.
struct Training : ModelRun {
  using ModelRun::ModelRun;

  double step(const Tensor& input, const Tensor& labels, double learning_rate) {
    context.begin_step(/*training=*/true, steps++, 0);
    const Tensor logits = model(input, context);
    const Tensor loss =
        torch::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}), labels.reshape({-1}));
    loss.backward();
    const torch::NoGradGuard no_grad;
    for (const auto& variable : store.variables()) {
      Tensor& gradient = variable->value().mutable_grad();
      if (gradient.defined()) variable->value().sub_(gradient, learning_rate);
      gradient.reset();
    }
    return loss.item<double>();
  }

  int64_t steps = 0;
};

// The variables that a model asks for, found with a batch of no rows.
inline std::vector<VariableSpec> variables_of(const Functional& model) {
  class Specs final : public VariableStore {
   public:
    Variable& get_or_create(const VariableSpec& spec) override {
      for (const auto& known : variables_) {
        if (known->name() == spec.name) return *known;
      }
      const Tensor value = at::zeros({1}, spec.dtype).expand(spec.shape);
      variables_.push_back(std::make_unique<Variable>(spec, value));
      return *variables_.back();
    }
    const std::vector<std::unique_ptr<Variable>>& variables() const override { return variables_; }
    Variable* find(const std::string&) const override { return nullptr; }

   private:
    std::vector<std::unique_ptr<Variable>> variables_;
  } store;
  const torch::NoGradGuard no_grad;
  StepContext context(store, 0);
  Shape shape = model.inputs().at(0).shape();
  shape[0] = 0;
  model(torch::zeros(shape, model.inputs().at(0).dtype()), context);
  std::vector<VariableSpec> specs;
  for (const auto& variable : store.variables()) specs.push_back(variable->spec());
  return specs;
}

inline at::Generator generator(uint64_t seed) {
  return at::make_generator<at::CPUGeneratorImpl>(seed);
}

inline void write_tensors(const std::string& path,
                          const std::vector<std::pair<std::string, Tensor>>& tensors) {
  std::vector<Tensor> alive;
  std::vector<formats::TensorView> views;
  for (const auto& [name, tensor] : tensors) {
    alive.push_back(tensor.detach().contiguous());
    const Tensor& last = alive.back();
    views.push_back({name,
                     last.scalar_type() == kFloat32 ? "F32" : "I64",
                     last.sizes().vec(),
                     {static_cast<const std::byte*>(last.data_ptr()), last.nbytes()}});
  }
  auto writer = local_file_system().open_staged(path);
  formats::write_safetensors(*writer.value(), views).value();
  writer.value()->commit().value();
}

}  // namespace muster::inline v0_1::testing

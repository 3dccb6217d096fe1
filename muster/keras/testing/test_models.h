// Models and data for tests: two classes on a plane, distinguished by two dense layers.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "muster/keras/model.h"
#include "muster/layers/dense.h"
#include "muster/layers/sequential.h"
#include "muster/optim/optimizer.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::keras::testing {

struct Points {
  Tensor x;  // float32 [rows, 4]
  Tensor y;  // int64 [rows]
};

// The same rows in every run.
inline Points points(int64_t rows, int64_t offset = 0) {
  const Tensor x = (torch::arange(4 * rows).to(kFloat32) + static_cast<double>(offset) * 4)
                       .mul(0.7)
                       .sin()
                       .view({rows, 4});
  return {x, (x.select(1, 0) - x.select(1, 1) + 0.3 * x.select(1, 2) > 0).to(at::kLong)};
}

inline Dataset rows_of(int64_t rows, int64_t offset = 0) {
  const Points some = points(rows, offset);
  return Dataset::from_tensor_slices(Element::tuple({some.x, some.y}));
}

inline Layer two_layers() {
  return Sequential({Dense(8, {.activation = activations::tanh}), Dense(2)});
}

// Knows only the cluster of a test.
inline ModelOptions alone(distribute::StrategyPtr strategy = nullptr) {
  return {.strategy = std::move(strategy), .seed = 3, .environment = Environment()};
}

inline CompileOptions settings(const std::string& optimizer = "adam") {
  return {.optimizer = optimizer == "sgd" ? optim::sgd({.learning_rate = 0.1, .momentum = 0.9})
                                          : optim::adam({.learning_rate = 0.01}),
          .loss = SparseCategoricalCrossentropy({.from_logits = true}),
          .metrics = {"accuracy"}};
}

inline Model compiled(distribute::StrategyPtr strategy = nullptr,
                      const std::string& optimizer = "adam") {
  Model model(two_layers(), alone(std::move(strategy)));
  model.compile(settings(optimizer));
  return model;
}

inline std::map<std::string, Tensor> weights_of(Model& model) {
  std::map<std::string, Tensor> weights;
  for (auto& [name, value] : model.get_weights()) weights[name] = value;
  return weights;
}

// The largest difference of an element.
inline double difference(const std::map<std::string, Tensor>& a,
                         const std::map<std::string, Tensor>& b) {
  if (a.size() != b.size()) throw std::runtime_error("other weights");
  double largest = 0;
  for (const auto& [name, value] : a)
    largest = std::max(largest, (value - b.at(name)).abs().max().item<double>());
  return largest;
}

// Puts values into the Logs, as if they had been measured.
class Told : public Callback {
 public:
  explicit Told(std::vector<double> values) : values_(std::move(values)) {}
  void on_epoch_end(int64_t epoch, Logs& logs) override {
    logs["val_told_loss"] = values_[static_cast<size_t>(epoch)];
  }

 private:
  const std::vector<double> values_;
};

// Keeps the weights after each epoch.
struct Weights : Callback {
  std::vector<std::map<std::string, Tensor>> of_epochs;
  void on_epoch_end(int64_t, Logs&) override { of_epochs.push_back(weights_of(model())); }
};

}  // namespace muster::inline v0_1::keras::testing

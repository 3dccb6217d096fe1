// Models of Keras 2.15 and Keras 3 in files: the same models here load their weights from each kind
// of file, and predict what Keras predicted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/error_of.h"
#include "muster/base/file_system.h"
#include "muster/base/temp_directory.h"
#include "muster/muster.h"
#include "muster/tensor/libtorch.h"

namespace muster {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string golden(const std::string& name) {
  return join_path(Environment::process().get("MUSTER_SOURCE_DIR").value(),
                   "muster/kerasfiles/golden/" + name);
}

keras::Model model_of(const Layer& layer) {
  return keras::Model(layer, {.seed = 3, .environment = Environment()});
}

Layer dense(int64_t units = 3) {
  return Sequential({Dense(units, {.name = "first"}),
                     BatchNormalization({.scale = false, .name = "norm"}),
                     Dense(1, {.name = "last"})});
}

Layer image() {
  return Sequential({Conv2D(3, 2, {.name = "first"}), DepthwiseConv2D(2, {.name = "each"}),
                     SeparableConv2D(2, 2, {.name = "both"}), Flatten(),
                     Dense(1, {.name = "dense"})});
}

Layer parts() {
  const SymbolicTensor words = Input({4}, {.dtype = at::kLong, .name = "words"});
  SymbolicTensor rows = Embedding(5, 4, {.name = "rows"})(words);
  rows = MultiHeadAttention(2, 3, {.name = "attention"})(std::vector<SymbolicTensor>{rows, rows});
  rows = Bidirectional(GRU(2, {.return_sequences = true}), {.name = "both"})(rows);
  rows = LSTM(3, {.name = "memory"})(Dropout(0.5)(rows));
  rows = Sequential({Dense(2, {.name = "inside"})})(rows);
  return Functional({words}, {LayerNormalization({.center = false, .name = "norm"})(rows)});
}

struct Kind {
  const char* name;
  std::function<Layer()> make;
  Shape shape;  // of an example
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> kKinds = {
      {"dense", [] { return dense(); }, {2}}, {"image", image, {4, 4, 2}}, {"parts", parts, {4}}};
  return kKinds;
}

// What keras_files.py predicts for.
Tensor inputs_of(const Kind& kind) {
  Shape shape = kind.shape;
  shape.insert(shape.begin(), 3);
  const Tensor numbers = torch::arange(c10::multiply_integers(shape)).view(shape);
  return kind.name == std::string("parts") ? numbers % 5 : numbers.to(at::kFloat) / 16;
}

TEST(KerasFiles, AModelPredictsWhatKerasPredicted) {
  size_t files = 0;
  for (const std::string version : {"keras2", "keras3"}) {
    const json expected =
        json::parse(local_file_system().read_file(golden(version + "/expected.json")).value());
    for (const Kind& kind : kinds()) {
      const json& said = expected.at(kind.name).at("outputs");
      const Tensor wanted = torch::tensor(said.at("values").get<std::vector<double>>(), at::kDouble)
                                .view(said.at("shape").get<std::vector<int64_t>>());
      for (const std::string file : expected.at(kind.name).at("files")) {
        SCOPED_TRACE(version + "/" + file);
        keras::Model model = model_of(kind.make());
        const Tensor inputs = inputs_of(kind);
        model.build(kind.name == std::string("parts") ? Shape{} : kind.shape);
        // In this file the layers of a model in a model have no names that tell which they are.
        if (version == "keras2" && file == "parts.weights.h5") {
          const auto part = model.load_weights(golden(version + "/" + file), {.by_name = true});
          EXPECT_THAT(part.missing, ::testing::ElementsAre("inside/kernel", "inside/bias"));
          continue;
        }
        const auto loaded = model.load_weights(golden(version + "/" + file));
        EXPECT_EQ(loaded.loaded.size(), model.get_weights().size());
        EXPECT_TRUE(torch::allclose(model.predict(inputs, 3).to(at::kDouble), wanted, 1e-5, 1e-6))
            << model.predict(inputs, 3) << wanted;
        ++files;
      }
    }
  }
  EXPECT_EQ(files, 20u);
}

TEST(KerasFiles, WhatDoesNotFitIsListedWithBothShapes) {
  keras::Model wider = model_of(dense(5));
  wider.build({2});
  const Error error = error_of([&] { wider.load_weights(golden("keras3/dense.keras")); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(),
              AllOf(HasSubstr("keras3/dense.keras does not fit the model"),
                    HasSubstr("first/kernel float32[2, 5]: the file has float32[2, 3]")));
  keras::Model other = model_of(Sequential({Dense(3, {.name = "frist"})}));
  other.build({2});
  EXPECT_THAT(error_of([&] { other.load_weights(golden("keras3/dense.h5")); }).message(),
              HasSubstr("the nearest is first/kernel"));
}

EstimatorSpec model_fn(const Features& features, const Labels& labels, Mode mode,
                       ModelContext& context) {
  const auto model = context.model("net", [] { return dense(); });
  const Tensor y = model(features);
  if (mode == Mode::kPredict) return EstimatorSpec::predict({{"y", y}});
  const Tensor loss = losses::mean_squared_error(labels, y);
  if (mode == Mode::kEval) return EstimatorSpec::eval(loss);
  const auto sgd = context.optimizer(optim::sgd({.learning_rate = 1e-30}));
  return EstimatorSpec::train(loss, sgd.minimize(loss));
}

TEST(KerasFiles, ARunBeginsWithTheWeightsOfAFile) {
  const TempDirectory directory;
  const std::string file = golden("keras2/dense.keras");
  WarmStartSettings settings{.ckpt_to_initialize_from = file, .vars_to_warm_start = {".*"}};
  const auto read = kerasfiles::open_keras_checkpoint(local_file_system(), file);
  for (const std::string& name : read->names()) {
    if (name != "global_step") settings.var_name_to_prev_var_name["net/" + name] = name;
  }
  Estimator estimator(model_fn, {.model_dir = directory.path(), .warm_start_from = settings});
  const Dataset rows =
      Dataset::from_tensor_slices(Element::tuple({torch::ones({4, 2}), torch::ones({4, 1})}));
  estimator.train([&] { return rows.batch(2); }, {.max_steps = 1});
  for (const std::string name : {"first/kernel", "last/bias", "norm/beta"})
    EXPECT_TRUE(estimator.get_variable_value("net/" + name).equal(read->read(name))) << name;
}

}  // namespace
}  // namespace muster

// A Model next to fit(): its forms, its weights, and what it says of mistakes.
#include "muster/keras/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/export/servable.h"
#include "muster/keras/testing/test_models.h"
#include "muster/layers/dense.h"
#include "muster/layers/merge.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/reshape.h"
#include "muster/layers/sequential.h"
#include "muster/loop/scope.h"

namespace muster::inline v0_1::keras {
namespace {

using ::testing::AllOf;
using testing::alone;
using testing::compiled;
using testing::difference;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::points;
using testing::rows_of;
using testing::weights_of;

TEST(ModelTest, ABatchTrainsAsFitDoes) {
  Model by_fit = compiled(), by_batch = compiled();
  by_fit.fit(rows_of(40).batch(10));
  for (int64_t begin = 0; begin < 40; begin += 10) {
    const testing::Points some = points(10, begin);
    const Logs logs = by_batch.train_on_batch(some.x, some.y);
    EXPECT_TRUE(logs.contains("accuracy") && logs.contains("loss"));
  }
  EXPECT_EQ(difference(weights_of(by_fit), weights_of(by_batch)), 0);
  const testing::Points some = points(12);
  const Logs tested = by_batch.test_on_batch(some.x, some.y);
  EXPECT_NEAR(tested.at("loss"), by_fit.evaluate(some.x, some.y, 12).at("loss"), 1e-6);
  EXPECT_TRUE(torch::allclose(by_batch.predict_on_batch(some.x), by_fit.predict(some.x, 5)));
}

TEST(ModelTest, PredictionsAreInTheOrderOfTheExamples) {
  for (const auto& strategy : {distribute::one_device(), distribute::mirrored({.replicas = 3})}) {
    Model model = compiled(strategy);
    const testing::Points some = points(41);
    const Tensor whole = model.predict(some.x, 41), parts = model.predict(some.x, 4);
    EXPECT_EQ(whole.sizes(), at::IntArrayRef({41, 2}));
    EXPECT_TRUE(torch::allclose(whole, parts, 1e-6, 1e-7));
    EXPECT_EQ(model.predict(rows_of(41).batch(4), {.steps = 2}).size(0), 8);
  }
}

Model two_headed() {
  const SymbolicTensor a = Input({4}, {.name = "a"}), b = Input({4}, {.name = "b"});
  const SymbolicTensor both = Concatenate()({a, b});
  return Model(
      Functional({a, b}, {Dense(2, {.name = "kind"})(both), Dense(1, {.name = "size"})(both)}),
      alone());
}

Dataset two_labels(int64_t rows, bool named) {
  const testing::Points some = points(rows);
  const Element features = named ? Element::dict({{"a", some.x}, {"b", some.x.flip(1)}})
                                 : Element::tuple({some.x, some.x.flip(1)});
  const Tensor size = some.x.sum(1, true);
  const Element labels =
      named ? Element::dict({{"kind", some.y}, {"size", size}}) : Element::tuple({some.y, size});
  return Dataset::from_tensor_slices(Element::tuple({features, labels})).batch(10);
}

TEST(ModelTest, SeveralInputsAndOutputsGoByNameOrOrder) {
  CompileOptions options{
      .optimizer = "adam",
      .losses = {{"kind", SparseCategoricalCrossentropy({.from_logits = true})}, {"size", "mse"}},
      .loss_weights = {{"size", 0.5}},
      .output_metrics = {{"kind", {"accuracy"}}, {"size", {"mae"}}}};
  std::vector<Logs> results;
  for (const bool named : {true, false}) {
    Model model = two_headed();
    EXPECT_THAT(model.input_names(), ElementsAre("a", "b"));
    EXPECT_THAT(model.output_names(), ElementsAre("kind", "size"));
    model.compile(options);
    model.fit(two_labels(50, named), {.epochs = 2});
    results.push_back(model.evaluate(two_labels(50, named)));
    const Logs& logs = results.back();
    EXPECT_NEAR(logs.at("loss"), logs.at("kind_loss") + 0.5 * logs.at("size_loss"), 1e-6);
    EXPECT_TRUE(logs.contains("kind_accuracy") && logs.contains("size_mae"));
    const auto predictions = model.predict_outputs(two_labels(50, named));
    EXPECT_EQ(predictions.at("size").sizes(), at::IntArrayRef({50, 1}));
    EXPECT_THAT(message_of([&] { model.predict(two_labels(50, named)); }),
                HasSubstr("has 2 outputs"));
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(ModelTest, AFunctionIsAModel) {
  const Layer hidden = Dense(8, {.activation = activations::tanh}), last = Dense(2);
  Model by_function(
      [=](const Features& features, CallContext& context) {
        return LayerOutputs{.tensors = {last(hidden(features.tensor(), context), context)}};
      },
      alone());
  by_function.compile(testing::settings());
  by_function.fit(rows_of(40).batch(10));
  Model by_layers = compiled();
  by_layers.fit(rows_of(40).batch(10));
  EXPECT_EQ(difference(weights_of(by_function), weights_of(by_layers)), 0);
}

TEST(ModelTest, AModelInAScopeTrainsOverItsReplicas) {
  const auto strategy = distribute::mirrored({.replicas = 2});
  const auto scope = strategy->scope({.seed = 3, .environment = Environment()});
  Model model(testing::two_layers(), {.seed = 3, .environment = Environment()});
  EXPECT_EQ(model.strategy(), strategy);
  model.compile(testing::settings());
  model.fit(rows_of(40).batch(10));
  // The scope's own loop sees the same variables.
  EXPECT_TRUE(scope.variable("dense/kernel").equal(weights_of(model).at("dense/kernel")));
  Model other = compiled(distribute::mirrored({.replicas = 2}));
  other.fit(rows_of(40).batch(10));
  EXPECT_EQ(difference(weights_of(other), weights_of(model)), 0);
}

TEST(ModelTest, WeightsGoToAFileAndBack) {
  const TempDirectory directory;
  Model a = compiled(), b = compiled();
  EXPECT_THAT(message_of([&] { a.get_weights(); }), HasSubstr("has no weights yet"));
  a.build({4});
  EXPECT_EQ(a.count_params(), 4 * 8 + 8 + 8 * 2 + 2);
  a.fit(rows_of(40).batch(10));
  a.save_weights(directory / "a.safetensors");
  b.build({4});
  const LoadedWeights loaded = b.load_weights(directory / "a.safetensors");
  EXPECT_EQ(loaded.loaded.size(), 4u);
  EXPECT_EQ(difference(weights_of(a), weights_of(b)), 0);

  Model wider(Sequential({Dense(8, {.name = "dence"}), Dense(3, {.name = "dense_1"})}), alone());
  wider.build({4});
  EXPECT_THAT(message_of([&] { wider.load_weights(directory / "a.safetensors"); }),
              AllOf(HasSubstr("dence/kernel"), HasSubstr("the nearest is dense/kernel"),
                    HasSubstr("dense_1/kernel float32[8, 3]: the file has float32[8, 2]")));
  const LoadedWeights part =
      wider.load_weights(directory / "a.safetensors", {.by_name = true, .skip_mismatch = true});
  EXPECT_THAT(part.missing, ElementsAre("dence/kernel", "dence/bias"));
  EXPECT_THAT(part.unused, ElementsAre("dense/bias", "dense/kernel"));
  EXPECT_EQ(part.mismatched.size(), 2u);
}

// What a network learned of its data is among the weights it begins with.
TEST(ModelTest, FitGoesOnWithMovingStatisticsThatWereLoaded) {
  const TempDirectory directory;
  const auto normalized = [] {
    Model model(Sequential({Dense(8), BatchNormalization({.name = "bn"}), Dense(2)}), alone());
    model.compile({.optimizer = optim::sgd({.learning_rate = 0.1}),
                   .loss = SparseCategoricalCrossentropy({.from_logits = true}),
                   .metrics = {"accuracy"}});
    model.build({4});
    return model;
  };
  Model a = normalized();
  a.fit(rows_of(40).batch(10));
  a.save_weights(directory / "a.safetensors");
  for (const LoadWeightsOptions& options :
       {LoadWeightsOptions{}, LoadWeightsOptions{.by_name = true, .skip_mismatch = true}}) {
    Model b = normalized();
    b.load_weights(directory / "a.safetensors", options);
    EXPECT_EQ(difference(weights_of(a), weights_of(b)), 0);
    b.freeze({"dense", "bn"});
    b.fit(rows_of(40).batch(10));
    std::map<std::string, Tensor> before, after;
    for (auto& [name, value] : a.get_weights()) before[name] = value;
    for (auto& [name, value] : b.get_weights()) after[name] = value;
    EXPECT_TRUE(after.at("bn/moving_mean").equal(before.at("bn/moving_mean")));
    EXPECT_TRUE(after.at("bn/moving_variance").equal(before.at("bn/moving_variance")));
    EXPECT_FALSE(after.at("dense_1/kernel").equal(before.at("dense_1/kernel")));
  }
}

TEST(ModelTest, OfManyWeightsThatDoNotFitAFewAreListed) {
  const auto deep = [](int64_t units) {
    std::vector<Layer> layers;
    for (int i = 0; i < 6; ++i) layers.push_back(Dense(units));
    Model model(Sequential(layers), alone());
    model.build({4});
    return model;
  };
  const TempDirectory directory;
  deep(3).save_weights(directory / "a.safetensors");
  Model wider = deep(5);
  const Error error = error_of([&] { wider.load_weights(directory / "a.safetensors"); });
  EXPECT_THAT(error.message(), AllOf(HasSubstr("12 of its 12 weights"), HasSubstr("dense/kernel"),
                                     HasSubstr("... and 7 more"), Not(HasSubstr("dense_5"))));
  EXPECT_THAT(error.what(), HasSubstr("make the model as the one that saved"));
}

TEST(ModelTest, AModelThatWasSavedGoesOnAsIfItHadNotStopped) {
  const TempDirectory directory;
  Model whole = compiled();
  whole.fit(rows_of(40).batch(10), {.epochs = 2});
  {
    Model first = compiled();
    first.fit(rows_of(40).batch(10));
    first.save(directory / "saved");
  }
  Model second = compiled();
  second.build({4});
  second.load(directory / "saved");
  EXPECT_EQ(second.step(), 4);
  EXPECT_EQ(second.get_weights().size(), 4u);
  // What is saved again before it trains has the optimizer's slots as well.
  second.save(directory / "again");
  Model third = compiled();
  third.build({4});
  third.load(directory / "again");
  for (Model* model : {&second, &third}) {
    model->fit(rows_of(40).batch(10));
    EXPECT_EQ(difference(weights_of(whole), weights_of(*model)), 0);
  }
}

TEST(ModelTest, CompilingAgainKeepsTheWeightsAlone) {
  Model model = compiled();
  model.fit(rows_of(40).batch(10));
  const auto before = weights_of(model);
  model.compile(testing::settings());
  EXPECT_EQ(difference(weights_of(model), before), 0);
  model.fit(rows_of(40).batch(10));
  // Adam's moments began again: so does a fresh model with these weights.
  Model fresh = compiled();
  fresh.build({4});
  fresh.set_weights(before);
  fresh.fit(rows_of(40).batch(10));
  EXPECT_LT(difference(weights_of(model), weights_of(fresh)), 1e-7);
}

TEST(ModelTest, ExportsWhatItPredicts) {
  const TempDirectory directory;
  ModelOptions options = alone();
  options.inputs = {Input({4})};
  Model model(testing::two_layers(), options);
  model.compile(testing::settings());
  model.fit(rows_of(40).batch(10));
  EXPECT_THAT(model.summary(), HasSubstr("Total params: 58"));
  const std::string path = model.export_model(directory / "export");
  const Servable servable(path);
  const testing::Points some = points(7);
  const auto answer = servable.run("serving_default", {{"input_1", some.x}});
  EXPECT_TRUE(torch::allclose(answer.at("output_1"), model.predict(some.x)));
  EXPECT_EQ(local_file_system().list_directory(directory / "export").value().size(), 1u);
}

// An axis of -1 is one in the export too.
TEST(ModelTest, ExportsInputsOfAnyLength) {
  const TempDirectory directory;
  ModelOptions options = alone();
  options.inputs = {Input({-1, 8})};
  Model model(Sequential({LSTM(5), Dense(2)}), options);
  model.build({7, 8});
  const Servable servable(model.export_model(directory / "export"));
  EXPECT_EQ(servable.signature("serving_default").inputs.at("input_1").describe(),
            "float32[-1, -1, 8]");
  for (const int64_t length : {1, 2, 7, 50}) {
    for (const int64_t rows : {1, 3, 8}) {
      const Tensor x = torch::rand({rows, length, 8});
      const auto outputs = servable.run("serving_default", {{"input_1", x}});
      EXPECT_TRUE(torch::allclose(outputs.begin()->second, model.predict(x), 1e-4, 1e-5)) << length;
    }
  }
  // The weights of a Dense layer hold for one length.
  options.inputs = {Input({-1, 8})};
  Model flat(Sequential({Flatten(), Dense(2)}), options);
  flat.build({7, 8});
  const std::string refused = message_of([&] { (void)flat.export_model(directory / "flat"); });
  EXPECT_THAT(refused, HasSubstr("axis 1 of the feature \"input_1\", whose size is -1"));
}

// Without Input() a model takes what its first batch had.
TEST(ModelTest, ExportsAndShowsWhatItWasTrainedOn) {
  const TempDirectory directory;
  const testing::Points some = points(7);
  Model model(testing::two_layers(), alone());
  model.compile(testing::settings());
  EXPECT_THAT(message_of([&] { model.summary(); }), HasSubstr("not known"));
  model.fit(rows_of(40).batch(10));
  EXPECT_THAT(model.summary(), HasSubstr("Total params: 58"));
  const Servable servable(model.export_model(directory / "layer"));
  EXPECT_TRUE(torch::allclose(servable.run("serving_default", {{"input_1", some.x}}).at("output_1"),
                              model.predict(some.x)));

  const Layer out = Dense(3, {.name = "out"});
  Model of_function(
      [out](const Features& features, CallContext& context) {
        return LayerOutputs{.tensors = {out(features["a"], context)}};
      },
      alone());
  of_function.compile(testing::settings());
  of_function.fit(
      Dataset::from_tensor_slices(Element::tuple({Element::dict({{"a", some.x}}), points(7).y}))
          .batch(7));
  const Servable by_name(of_function.export_model(directory / "function"));
  EXPECT_EQ(by_name.run("serving_default", {{"a", some.x}}).at("output_1").size(1), 3);
}

TEST(ModelTest, SaysWhatDoesNotFit) {
  EXPECT_THAT(message_of([] { Loss("sparse_categorical_crossentropi"); }),
              HasSubstr("sparse_categorical_crossentropi"));
  EXPECT_THAT(message_of([] { MetricChoice("acuracy"); }), HasSubstr("acuracy"));
  Model model = two_headed();
  EXPECT_THAT(message_of([&] { model.compile({.losses = {{"sise", "mse"}}}); }), HasSubstr("sise"));
  EXPECT_THAT(message_of([&] { model.compile({}); }), HasSubstr("there is no loss"));
  EXPECT_THAT(message_of([&] { model.compile({.optimizer = "adamm", .loss = "mse"}); }),
              HasSubstr("adamm"));
  model.compile({.loss = "mse"});
  EXPECT_THAT(message_of([&] { model.fit(rows_of(8).batch(4)); }),
              AllOf(HasSubstr("the model has the inputs 'a', 'b'"), HasSubstr("float32[4, 4]")));
  Model other = compiled();
  const Tensor labels = torch::zeros({8, 3});
  EXPECT_THAT(message_of([&] { other.fit(points(8).x, labels, {}); }),
              HasSubstr("the loss sparse_categorical_crossentropy"));
}

}  // namespace
}  // namespace muster::inline v0_1::keras

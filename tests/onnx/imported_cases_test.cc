// What Muster exports as ONNX and as a SavedModel comes back and computes the same; such models
// train and are served.
// ./dev check onnx looks at more models.
#include "tests/onnx/imported_cases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <algorithm>

#include "muster/base/environment.h"
#include "muster/base/temp_directory.h"
#include "muster/distribute/variable_table.h"
#include "muster/estimator/predictor.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/files/file_systems.h"
#include "muster/imports/onnx_import.h"
#include "muster/imports/saved_model_import.h"
#include "muster/keras/model.h"
#include "muster/layers/bidirectional.h"
#include "muster/layers/dense.h"
#include "muster/layers/functional.h"
#include "muster/layers/masking.h"
#include "muster/layers/recurrent.h"
#include "muster/layers/recurrent_cell.h"
#include "muster/layers/sequential.h"
#include "muster/layers/step_context.h"
#include "muster/onnx/onnx_model.h"
#include "muster/savedmodel/saved_model.h"
#include "muster/tensor/libtorch.h"
#include "tests/onnx/exported_cases.h"

namespace muster::inline v0_1 {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class ImportedCasesTest : public ::testing::Test {
 protected:
  // Converts the export in a folder; what comes back must compute the same.
  static void expect_same_back(const std::string& folder) {
    (void)onnx::export_onnx(file_systems(), folder, join_path(folder, "model.onnx"));
    write_batches(folder);
    EXPECT_THAT(import_differences(folder, "model.onnx"), IsEmpty());
  }
  // As ONNX and as a SavedModel.
  static void expect_same_back_from_both(const std::string& folder) {
    expect_same_back(folder);
    (void)saved_model::export_saved_model(file_systems(), folder, folder);
    EXPECT_THAT(import_differences(folder, "saved_model.pb"), IsEmpty());
  }
  // Saves a network of two layers, [3] -> [2].
  std::string save_network() const {
    const SymbolicTensor x = Input({3}, {.name = "x"});
    keras::Model model(Functional({x}, {Dense(2)(Dense(8, {.activation = activations::tanh})(x))}));
    const std::string path = directory_ / "network.onnx";
    model.save(path);
    return path;
  }

  // Of a converted export: its LSTMs, GRUs and loops.
  static std::vector<std::string> recurrent_operations(const std::string& folder) {
    ::onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(file_systems().read_file(folder + "/model.onnx").value()));
    std::vector<std::string> operations;
    for (const auto& node : model.graph().node()) {
      if (node.op_type() == "LSTM" || node.op_type() == "GRU" || node.op_type() == "Loop")
        operations.push_back(node.op_type());
    }
    return operations;
  }

  const TempDirectory directory_;
};

// One of each four: the rest is in ./dev check onnx.
TEST_F(ImportedCasesTest, LayersComeBack) {
  const std::string cases = join_path(Environment::process().get("MUSTER_SOURCE_DIR").value_or("."),
                                      "tests/peers/golden/layers");
  size_t number = 0;
  for (const ExportedCase& exported : layer_cases(cases)) {
    if (number++ % 4 != 0) continue;
    SCOPED_TRACE(exported.name);
    const std::string folder = directory_ / exported.name;
    file_systems().make_directories(folder).value();
    write_servable(file_systems(), folder, exported.source);
    expect_same_back_from_both(folder);
  }
  EXPECT_GT(number, 50U);
}

TEST_F(ImportedCasesTest, RecurrentLayersAreOperations) {
  int number = 0;
  const auto operations_of = [&](Layer layer) {
    const SymbolicTensor steps = Input({5, 3}, {.name = "steps"});
    keras::Model model(Functional({steps}, {layer(steps)}));
    const std::string folder = model.export_model(directory_ / std::to_string(number++));
    expect_same_back_from_both(folder);
    return recurrent_operations(folder);
  };
  EXPECT_THAT(operations_of(LSTM(4)), ElementsAre("LSTM"));
  EXPECT_THAT(
      operations_of(LSTM(4, {.use_bias = false, .return_sequences = true, .go_backwards = true})),
      ElementsAre("LSTM"));
  EXPECT_THAT(operations_of(Bidirectional(LSTM(2))), ElementsAre("LSTM", "LSTM"));
  EXPECT_THAT(operations_of(GRU(3)), ElementsAre("GRU"));
  EXPECT_THAT(operations_of(GRU(3, {.activation = activations::relu,
                                    .recurrent_activation = activations::hard_sigmoid,
                                    .reset_after = false})),
              ElementsAre("GRU"));
  EXPECT_THAT(operations_of(RNN(LSTMCell(2))), ElementsAre("LSTM"));
  // Steps that count by their values, and functions that ONNX's operations lack.
  EXPECT_THAT(operations_of(Sequential({Masking(), LSTM(2)})), ElementsAre("Loop"));
  EXPECT_THAT(operations_of(LSTM(2, {.activation = activations::swish})), ElementsAre("Loop"));
  EXPECT_THAT(operations_of(SimpleRNN(2)), ElementsAre("Loop"));

  const std::string lengths = export_one_model("rnn_lstm", directory_ / "rnn");
  expect_same_back(lengths);
  EXPECT_THAT(recurrent_operations(lengths), ElementsAre("LSTM", "LSTM"));

  // A weight of 8 bits is off by at most 0.4 % of the largest one of its unit.
  const std::string small = directory_ / "small.onnx";
  (void)onnx::export_onnx(file_systems(), lengths, small, {.weights = "int8"});
  ::onnx::ModelProto stored;
  EXPECT_TRUE(stored.ParseFromString(file_systems().read_file(small).value()));
  // Two kernels of each LSTM, and that of the logits.
  EXPECT_EQ(
      std::ranges::count_if(stored.graph().node(),
                            [](const auto& node) { return node.op_type() == "DequantizeLinear"; }),
      5);
  const Servable::Tensors batch{{"page/ids", torch::arange(12).reshape({2, 6, 1}) % 7},
                                {"page/lengths", torch::arange(5, 7)}};
  const Tensor expected = Servable(lengths).run(kServingDefault, batch).at("scores");
  const Tensor got = Servable(small).run(kServingDefault, batch).at("scores");
  EXPECT_FALSE(got.equal(expected));
  EXPECT_TRUE(got.allclose(expected, 0, 0.01)) << got << expected;
}

TEST_F(ImportedCasesTest, LibTorchsRecurrentLayersComeBackAndAreExportedAgain) {
  for (const ExportedCase& exported : libtorch_cases()) {
    SCOPED_TRACE(exported.name);
    const std::string folder = directory_ / exported.name;
    file_systems().make_directories(folder).value();
    write_servable(file_systems(), folder, exported.source);
    expect_same_back(folder);
    EXPECT_THAT(recurrent_operations(folder), Not(Contains("Loop")));

    const onnx::OnnxModel loaded = onnx::load_model(file_systems(), folder + "/model.onnx");
    const SymbolicTensor steps = Input({9, 3}, {.name = "steps"});
    keras::Model model(
        Functional({steps}, loaded.layer(SymbolicValues{.tensors = {steps}}).tensors));
    const std::string again = model.export_model(directory_ / exported.name + "_again");
    expect_same_back(again);
    EXPECT_EQ(recurrent_operations(again), recurrent_operations(folder));
  }
}

TEST_F(ImportedCasesTest, ModelsComeBack) {
  for (const char* name : {"steps_of_any_number", "wide_and_deep", "trees_3_classes"}) {
    SCOPED_TRACE(name);
    expect_same_back_from_both(export_one_model(name, directory_ / name));
  }
}

TEST_F(ImportedCasesTest, APredictorAnswersWithAFile) {
  Predictor predictor(save_network());
  EXPECT_EQ(predictor.predict({{"x", torch::ones({3})}}).begin()->second.sizes(), Shape({2}));
  EXPECT_FALSE(predictor.reload());
}

TEST_F(ImportedCasesTest, ALayerTrainsOnAndIsExportedAgain) {
  const std::string path = save_network();
  const onnx::OnnxModel loaded = onnx::load_model(file_systems(), path, {.name = "old"});
  const Servable before(path);
  const SymbolicTensor x = Input({3}, {.name = "x"});
  keras::Model model(Functional({x}, {loaded.layer(x)}));
  const Tensor rows = torch::arange(48, at::kFloat).sin().reshape({16, 3});
  const auto expected = before.run(kServingDefault, {{"x", rows}}).begin()->second;
  EXPECT_TRUE(model.predict(rows).allclose(expected));

  model.compile({.optimizer = "sgd", .loss = keras::MeanSquaredError()});
  const keras::History history = model.fit(Element(rows), Element(torch::zeros({16, 2})),
                                           {.epochs = 5, .verbose = keras::Verbose::kSilent});
  EXPECT_LT(history["loss"].back(), 0.9 * history["loss"].front());

  const std::string exported = model.export_model(directory_ / "export", {"onnx"});
  const Tensor trained = model.predict(rows);
  EXPECT_FALSE(trained.allclose(expected));
  for (const std::string& again : {exported, exported + "/model.onnx"})
    EXPECT_TRUE(Servable(again)
                    .run(kServingDefault, {{"x", rows}})
                    .begin()
                    ->second.allclose(trained, 1e-5, 1e-6));
}

TEST_F(ImportedCasesTest, ASavedModelTrainsOn) {
  const SymbolicTensor x = Input({3}, {.name = "x"});
  keras::Model first(Functional({x}, {Dense(2)(Dense(8, {.activation = activations::tanh})(x))}));
  const std::string folder = directory_ / "saved";
  first.save(folder + "/saved_model.pb");
  const saved_model::SavedModel loaded =
      saved_model::load_model(file_systems(), folder, {.name = "old"});
  EXPECT_EQ(loaded.weights.size(), 4U);
  keras::Model model(Functional({x}, {loaded.layer(x)}));
  const Tensor rows = torch::arange(48, at::kFloat).sin().reshape({16, 3});
  EXPECT_TRUE(model.predict(rows).allclose(first.predict(rows), 1e-5, 1e-6));
  Predictor predictor(folder);
  EXPECT_TRUE(predictor.predict({{"x", rows[0]}})
                  .begin()
                  ->second.allclose(first.predict(rows)[0], 1e-5, 1e-6));

  model.compile({.optimizer = "sgd", .loss = keras::MeanSquaredError()});
  const keras::History history = model.fit(Element(rows), Element(torch::zeros({16, 2})),
                                           {.epochs = 5, .verbose = keras::Verbose::kSilent});
  EXPECT_LT(history["loss"].back(), 0.9 * history["loss"].front());
}

TEST_F(ImportedCasesTest, AWeightMayBeFrozen) {
  const onnx::OnnxModel loaded = onnx::load_model(
      file_systems(), save_network(), {.name = "old", .trainable = [](const std::string& name) {
                                         return name.find("bias") == std::string::npos;
                                       }});
  distribute::VariableTable variables{1};
  StepContext context{variables, 1};
  context.begin_step(/*training=*/true, 0, 0);
  (void)loaded.layer(torch::ones({2, 3}), context);
  int frozen = 0;
  for (const auto& variable : variables.variables()) {
    EXPECT_TRUE(variable->name().starts_with("old/")) << variable->name();
    EXPECT_EQ(variable->spec().trainable, variable->name().find("bias") == std::string::npos);
    EXPECT_TRUE(variable->value().equal(
        loaded.weights.at(variable->name().substr(std::string("old/").size()))));
    frozen += variable->spec().trainable ? 0 : 1;
  }
  EXPECT_EQ(frozen, 2);
}

}  // namespace
}  // namespace muster::inline v0_1

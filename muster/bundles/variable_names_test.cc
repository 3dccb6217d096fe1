#include "muster/bundles/variable_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::inline v0_1 {
namespace {

using tensorflow::muster_names;
using tensorflow::optimizers_without_count;
using tensorflow::tensorflow_names;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

TEST(VariableNames, OfTheOptimizersOfVersion1) {
  EXPECT_THAT(muster_names({"w", "w/Adam", "w/Adam_1", "head/beta1_power", "beta2_power"}),
              UnorderedElementsAre(Pair("w", "w"), Pair("w/Adam", "Adam/m/w"),
                                   Pair("w/Adam_1", "Adam/v/w")));
  EXPECT_THAT(
      muster_names({"a/w", "a/w/t_0/Adagrad"}),
      UnorderedElementsAre(Pair("a/w", "a/w"), Pair("a/w/t_0/Adagrad", "Adagrad/accumulator/a/w")));
  EXPECT_THAT(muster_names({"w", "w/RMSProp", "w/RMSProp_1"}),
              UnorderedElementsAre(Pair("w", "w"), Pair("w/RMSProp", "RMSprop/rms/w"),
                                   Pair("w/RMSProp_1", "RMSprop/momentum/w")));
  EXPECT_THAT(muster_names({"w", "w/RMSProp", "w/RMSProp_1", "w/RMSProp_2"}),
              UnorderedElementsAre(Pair("w", "w"), Pair("w/RMSProp", "RMSprop/rms/w"),
                                   Pair("w/RMSProp_1", "RMSprop/mg/w"),
                                   Pair("w/RMSProp_2", "RMSprop/momentum/w")));
}

TEST(VariableNames, OfTheOptimizersOfKeras) {
  EXPECT_THAT(muster_names({"a/w", "training/Adam/a/w/m", "training/Adam/iter",
                            "training/Adam/learning_rate"}),
              UnorderedElementsAre(Pair("a/w", "a/w"), Pair("training/Adam/a/w/m", "Adam/m/a/w"),
                                   Pair("training/Adam/iter", "Adam/iterations")));
  EXPECT_THAT(muster_names({"a/w", "SGD/m/a/w", "iteration"}),
              UnorderedElementsAre(Pair("a/w", "a/w"), Pair("SGD/m/a/w", "SGD/momentum/a/w"),
                                   Pair("iteration", "SGD/iterations")));
}

// As tf.estimator's RNNClassifier saves them.
TEST(VariableNames, OfRecurrentModels) {
  const std::string lstm = "rnn_model/rnn/lstm_cell/bias";
  const std::string second = "rnn_model/rnn/stacked_rnn_cells/gru_cell_1/kernel";
  const std::string table = "sequence_features/w_embedding/embedding_weights";
  EXPECT_THAT(
      muster_names({lstm, second, table, "rnn_model/logits/kernel",
                    "training/Adagrad/" + lstm + "/accumulator"}),
      UnorderedElementsAre(Pair(lstm, "rnn_model/rnn/bias"), Pair(second, "rnn_model/rnn_1/kernel"),
                           Pair(table, "rnn_model/" + table),
                           Pair("rnn_model/logits/kernel", "rnn_model/logits/kernel"),
                           Pair("training/Adagrad/" + lstm + "/accumulator",
                                "Adagrad/accumulator/rnn_model/rnn/bias")));
  EXPECT_THAT(muster_names({table}), ElementsAre(Pair(table, table)));
}

// As tf.estimator's DNNLinearCombinedClassifier saves them.
TEST(VariableNames, OfTwoOptimizersOfOneKind) {
  const std::set<std::string> names = {"dnn/w",
                                       "linear/w",
                                       "training/Adam/dnn/w/m",
                                       "training/Adam/learning_rate",
                                       "training/Adam_1/iter",
                                       "training/Adam_1/learning_rate",
                                       "training/Adam_1/linear/w/m"};
  EXPECT_THAT(muster_names(names),
              UnorderedElementsAre(Pair("dnn/w", "dnn/w"), Pair("linear/w", "linear/w"),
                                   Pair("training/Adam/dnn/w/m", "dnn_Adam/m/dnn/w"),
                                   Pair("training/Adam_1/iter", "linear_Adam/iterations"),
                                   Pair("training/Adam_1/linear/w/m", "linear_Adam/m/linear/w")));
  EXPECT_THAT(optimizers_without_count(names), ElementsAre("dnn_Adam"));
}

// A variable may be called like an optimizer, and a layer like a slot.
TEST(VariableNames, AVariableThatIsNoSlotKeepsItsName) {
  EXPECT_THAT(muster_names({"net/Adam", "net/m"}),
              UnorderedElementsAre(Pair("net/Adam", "net/Adam"), Pair("net/m", "net/m")));
}

TEST(VariableNames, CountsThatStandNowhereAreToldByOptimizer) {
  EXPECT_THAT(optimizers_without_count({"w", "w/Ftrl", "w/Ftrl_1"}), ElementsAre("Ftrl"));
  EXPECT_THAT(optimizers_without_count({"w", "training/Ftrl/w/linear", "training/Ftrl/iter"}),
              IsEmpty());
  EXPECT_THAT(optimizers_without_count({"w", "training_2/Adam/w/m", "training_2/Adam/w/v"}),
              ElementsAre("Adam"));
  // SGD has no slots.
  EXPECT_THAT(optimizers_without_count({"w", "training/SGD/learning_rate", "training/SGD/decay"}),
              ElementsAre("SGD"));
}

TEST(VariableNames, GoBackToThoseOfVersion1) {
  const std::set<std::string> theirs = {"w",           "w/Adagrad",   "w/Adam",    "w/Adam_1",
                                        "w/Ftrl",      "w/Ftrl_1",    "v",         "v/RMSProp",
                                        "v/RMSProp_1", "v/RMSProp_2", "u",         "u/RMSProp",
                                        "u/RMSProp_1", "global_step", "net/kernel"};
  std::set<std::string> ours = {"Adam/iterations"};
  for (const auto& [name, here] : muster_names(theirs)) ours.insert(here);
  std::set<std::string> back;
  for (const auto& [here, name] : tensorflow_names(ours)) back.insert(name);
  EXPECT_EQ(back, theirs);
}

}  // namespace
}  // namespace muster::inline v0_1

// Inputs that heads refuse, and their errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/distribute/variable_table.h"
#include "muster/features/categorical_column.h"
#include "muster/features/dense_column.h"
#include "muster/heads/binary_class_head.h"
#include "muster/heads/internal/test_batch.h"
#include "muster/heads/multi_class_head.h"
#include "muster/heads/multi_head.h"
#include "muster/heads/multi_label_head.h"
#include "muster/heads/regression_head.h"
#include "muster/train/model_context.h"

namespace muster::inline v0_1 {
namespace {

using testing::features_with;
using ::testing::HasSubstr;
using testing::labels_of;
using testing::numbers;

struct Refused {
  const char* name{};
  std::function<void()> call{};
  std::string message{};
};

Tensor two_rows(int64_t last = 1) { return torch::zeros({2, last}); }

// Asks `head` for the loss of two rows.
void lose(const Head& head, const Labels& labels, const Tensor& weights = {},
          const Tensor& logits = {}) {
  (void)head.loss(features_with(weights), labels,
                  logits.defined() ? logits : two_rows(head.logits_dimension()));
}

Head three_classes() { return MultiClassHead({.n_classes = 3}); }
Head two_labels() { return MultiLabelHead({.n_classes = 2}); }
Head yes_or_no() { return BinaryClassHead({.label_vocabulary = {"no", "yes"}}); }
Head weighted() { return BinaryClassHead({.weight_column = "w", .name = "b"}); }
Head weighted_numbers() { return RegressionHead({.label_dimension = 3, .weight_column = "w"}); }
Head two_heads() { return MultiHead({.heads = {weighted(), RegressionHead({.name = "r"})}}); }
Labels zeros() { return labels_of(torch::zeros({2})); }
Labels numbered(const std::vector<double>& values) {
  return labels_of(numbers(values, {static_cast<int64_t>(values.size())}));
}
Labels texts(const std::vector<std::string>& all) { return Labels(Element(Strings(all))); }
constexpr auto kNone = losses::Reduction::kNone;

// clang-format off
const std::vector<Refused>& refused_options() {
  static const std::vector<Refused> cases = {
      {"reduction_none", [] { BinaryClassHead({.loss_reduction = kNone}); },
       "BinaryClassHead: loss_reduction is kNone; it must be kSumOverBatchSize or kSum"},
      {"reduction_none_of_numbers", [] { RegressionHead({.loss_reduction = kNone, .name = "r"}); },
       "RegressionHead \"r\": loss_reduction is kNone"},
      {"no_rule", [] { Head(nullptr); }, "Head: there is no rule"},
      {"threshold_of_1", [] { BinaryClassHead({.thresholds = {0.5, 1}}); },
       "BinaryClassHead: thresholds[1] is 1; it must be in (0, 1)"},
      {"threshold_nan", [] { MultiLabelHead({.n_classes = 2, .thresholds = {std::nan("")}}); },
       "MultiLabelHead: thresholds[0] is nan; it must be in (0, 1)"},
      {"threshold_twice", [] { BinaryClassHead({.thresholds = {0.5, 0.5}}); },
       "thresholds[1] is 0.5, as one before it; it must be another"},
      {"two_of_many", [] { MultiClassHead({.n_classes = 2}); },
       "MultiClassHead: n_classes is 2; it must be more than 2"},
      {"one_label", [] { MultiLabelHead({.n_classes = 1, .name = "m"}); },
       "MultiLabelHead \"m\": n_classes is 1; it must be at least 2"},
      {"no_dimension", [] { RegressionHead({.label_dimension = 0}); },
       "RegressionHead: label_dimension is 0; it must be at least 1"},
      {"no_dimension_of_counts", [] { PoissonRegressionHead({.label_dimension = -1}); },
       "PoissonRegressionHead: label_dimension is -1; it must be at least 1"},
      {"names_too_few", [] { MultiClassHead({.n_classes = 3, .label_vocabulary = {"a", "b"}}); },
       "MultiClassHead: label_vocabulary is 2 names; it must be one for each of 3 classes"},
      {"names_too_many", [] { BinaryClassHead({.label_vocabulary = {"a", "b", "c"}}); },
       "BinaryClassHead: label_vocabulary is 3 names; it must be one for each of 2 classes"},
      {"name_twice", [] { MultiLabelHead({.n_classes = 2, .label_vocabulary = {"a", "a"}}); },
       "label_vocabulary[1] is \"a\", as one before it; it must be another"},
      {"name_empty", [] { BinaryClassHead({.label_vocabulary = {"", "a"}}); },
       "label_vocabulary[0] is \"\"; it must be a name"},
      {"class_out_of_range",
       [] { MultiLabelHead({.n_classes = 2, .classes_for_class_based_metrics = {2}}); },
       "classes_for_class_based_metrics is class 2; it must be in [0, 2)"},
      {"class_twice",
       [] { MultiLabelHead({.n_classes = 2, .classes_for_class_based_metrics = {0, 0}}); },
       "classes_for_class_based_metrics is class 0 twice"},
      {"class_by_name_without_names",
       [] { MultiLabelHead({.n_classes = 2, .classes_for_class_based_metrics = {"a"}}); },
       "classes_for_class_based_metrics is \"a\"; it must be a number"},
      {"class_by_other_name",
       [] {
         MultiLabelHead({.n_classes = 2,
                         .label_vocabulary = {"ash", "elm"},
                         .classes_for_class_based_metrics = {"elk"}});
       },
       "its label_vocabulary has no label 'elk'; it has 'ash', 'elm'"},
      {"weights_of_categories",
       [] {
         const auto city = feature_column::categorical_column_with_hash_bucket("city", 2);
         BinaryClassHead({.weight_column = city});
       },
       "weight_column: the column 'city' is not a numeric_column"},
      {"no_heads", [] { MultiHead({}); }, "MultiHead: heads is empty"},
      {"heads_without_name", [] { MultiHead({.heads = {weighted(), RegressionHead()}}); },
       "MultiHead: the name of heads[1], a RegressionHead, is empty"},
      {"heads_of_one_name", [] { MultiHead({.heads = {weighted(), weighted()}}); },
       "heads[1], a BinaryClassHead, is \"b\", as one before it"},
      {"heads_of_two_reductions",
       [] {
         MultiHead({.heads = {weighted(), RegressionHead({.loss_reduction = losses::Reduction::kSum,
                                                          .name = "r"})}});
       },
       "MultiHead: the loss_reduction of \"r\" is another than that of \"b\""},
      {"head_weights_too_many", [] { MultiHead({.heads = {weighted()}, .head_weights = {1, 2}}); },
       "MultiHead: head_weights is 2 numbers; it must be one for each of 1 heads"},
      {"head_weight_negative", [] { MultiHead({.heads = {weighted()}, .head_weights = {-1}}); },
       "MultiHead: head_weights[0] is -1; it must be finite and 0 or more"},
  };
  return cases;
}

const std::vector<Refused>& refused_batches() {
  static const std::vector<Refused> cases = {
      // Logits.
      {"logits_of_two", [] { lose(BinaryClassHead(), zeros(), {}, two_rows(2)); },
       "BinaryClassHead: logits is float32[2, 2]; it must be floats [batch..., 1]"},
      {"logits_of_integers", [] { lose(BinaryClassHead(), zeros(), {}, two_rows().to(kInt64)); },
       "BinaryClassHead: logits is int64[2, 1]"},
      {"logits_of_one_axis", [] { (void)RegressionHead().predictions(torch::zeros({2})); },
       "RegressionHead: logits is float32[2]; it must be floats [batch..., 1]"},
      {"logits_by_head",
       [] { (void)RegressionHead().predictions(std::map<std::string, Tensor>{{"a", two_rows()}}); },
       "RegressionHead: logits is {a: float32[2, 1]}; it must be one tensor"},
      // Labels.
      {"no_labels", [] { lose(weighted(), Labels(), torch::ones({2})); },
       "BinaryClassHead \"b\": there are no labels; the features are {w: float32[2], x: "},
      {"labels_of_several",
       [] {
         lose(BinaryClassHead(), Labels(Element::dict({{"a", two_rows()}, {"b", two_rows()}})));
       },
       "BinaryClassHead: labels is {a: float32[2, 1], b: float32[2, 1]}; it must be one value"},
      {"label_of_other_shape", [] { lose(BinaryClassHead(), labels_of(torch::zeros({3}))); },
       "BinaryClassHead: labels float32[3] do not fit logits float32[2, 1]; they must be [2, 1]"},
      {"label_one_hot", [] { lose(three_classes(), labels_of(two_rows(3).to(kInt64))); },
       "MultiClassHead: labels int64[2, 3] do not fit logits float32[2, 3]; they must be [2, 1]"},
      {"labels_of_a_dimension_less", [] { lose(weighted_numbers(), zeros(), torch::ones({2})); },
       "RegressionHead: labels float32[2] do not fit logits float32[2, 3]; they must be [2, 3]"},
      {"label_above_1", [] { lose(BinaryClassHead(), labels_of(numbers({1.2, 0.4}, {2, 1}))); },
       "BinaryClassHead: labels[0, 0] is 1.2; labels must be in [0, 1]"},
      {"label_below_0", [] { lose(BinaryClassHead(), numbered({1, -1})); },
       "BinaryClassHead: labels[1, 0] is -1; labels must be in [0, 1]"},
      {"label_nan", [] { lose(BinaryClassHead(), numbered({1, std::nan("")})); },
       "BinaryClassHead: labels[1, 0] is nan; labels must be in [0, 1]"},
      {"label_no_class", [] { lose(three_classes(), labels_of(torch::tensor({0, 3}))); },
       "MultiClassHead: labels[1, 0] is 3; labels must be in [0, 3)"},
      {"label_negative_class", [] { lose(three_classes(), labels_of(torch::tensor({-1, 0}))); },
       "MultiClassHead: labels[0, 0] is -1; labels must be in [0, 3)"},
      {"label_floating", [] { lose(three_classes(), zeros()); },
       "MultiClassHead: labels is float32[2]; it must be numbers of classes"},
      {"label_of_two", [] { lose(two_labels(), labels_of(numbers({0, 1, 2, 0}, {2, 2}))); },
       "MultiLabelHead: labels[1, 0] is 2; labels must be in [0, 1]"},
      {"label_list_of_numbers", [] { lose(two_labels(), labels_of(two_rows(3))); },
       "MultiLabelHead: labels float32[2, 3] do not fit logits float32[2, 2]; they must be [2, 2]"},
      {"label_of_a_list",
       [] {
         lose(two_labels(), Labels(Element::dict({{"l", torch::tensor({{0, 1}, {1, 2}})},
                                                  {"l/row_lengths", torch::tensor({1, 2})}})));
       },
       "MultiLabelHead: labels[1, 1] is 2; labels must be in [0, 2)"},
      {"list_of_floats",
       [] {
         lose(two_labels(), Labels(Element::dict({{"l", two_rows(3)},
                                                  {"l/row_lengths", torch::tensor({1, 2})}})));
       },
       "MultiLabelHead: labels is float32[2, 3] with the lengths int64[2]; it must be numbers"},
      {"lists_of_one_class",
       [] {
         lose(three_classes(), Labels(Element::dict({{"l", torch::tensor({{0}, {1}})},
                                                     {"l/row_lengths", torch::tensor({1, 1})}})));
       },
       "MultiClassHead: labels is {l: int64[2, 1], l/row_lengths: int64[2]}; it must be one value"},
      {"label_logistic", [] { lose(LogisticRegressionHead(), numbered({0.5, 2})); },
       "LogisticRegressionHead: labels[1, 0] is 2; labels must be in [0, 1]"},
      {"texts_without_names", [] { lose(three_classes(), texts({"a", "b"})); },
       "MultiClassHead: labels are string[2], and there is no label_vocabulary"},
      {"text_unknown", [] { lose(yes_or_no(), texts({"yes", "yse"})); },
       "BinaryClassHead: its label_vocabulary has no label 'yse'; it has 'no', 'yes'"},
      {"text_empty", [] { lose(yes_or_no(), texts({"yes", ""})); },
       "its label_vocabulary has no label ''"},
      {"text_of_a_number", [] { lose(RegressionHead(), texts({"1", "2"})); },
       "RegressionHead: labels is string[2]; it must be numbers"},
      {"texts_of_more_rows",
       [] {
         lose(MultiLabelHead({.n_classes = 2, .label_vocabulary = {"a", "b"}}),
              texts({"a", "b", "a"}));
       },
       "MultiLabelHead: labels is string[3]; it must be names [batch..., most]"},
      // Weights.
      {"weights_missing", [] { lose(weighted(), zeros()); },
       "BinaryClassHead \"b\": weight_column is \"w\"; it must be one of the features, {x: "},
      {"weights_of_other_shape", [] { lose(weighted(), zeros(), torch::ones({3})); },
       "weights \"w\" are float32[3], which do not fit logits float32[2, 1]; they must be [2, 1]"},
      {"weights_of_an_axis_less",
       [] {
         lose(weighted(), labels_of(torch::zeros({2, 2})), two_rows(), torch::zeros({2, 2, 1}));
       },
       "which do not fit logits float32[2, 2, 1]; they must be [2, 2, 1]"},
      {"weights_of_each_label_of_classes",
       [] {
         lose(MultiLabelHead({.n_classes = 3, .weight_column = "w"}), labels_of(two_rows(3)),
              two_rows(3));
       },
       "the weights \"w\" are float32[2, 3], which do not fit"},
      {"weights_between",
       [] { lose(weighted_numbers(), labels_of(two_rows(3)), two_rows(2)); },
       "they must be [2, 1] or of the shape of the logits"},
      {"weight_negative", [] { lose(weighted(), zeros(), numbers({1, -0.5}, {2})); },
       "the weights \"w\"[1] is -0.5; the weights \"w\" must be finite and 0 or more"},
      {"weight_infinite", [] { lose(weighted(), zeros(), numbers({1, INFINITY}, {2, 1})); },
       "the weights \"w\"[1, 0] is inf"},
      {"weights_of_texts",
       [] {
         const Features all(Element::dict({{"w", Strings({"1", "2"})}}));
         (void)weighted().loss(all, zeros(), two_rows());
       },
       "the weights \"w\" is string[2]; it must be numbers"},
      {"weights_of_a_column_missing",
       [] {
         const auto w = feature_column::numeric_column("w");
         lose(RegressionHead({.weight_column = w}), zeros());
       },
       "RegressionHead: weight_column is \"w\"; it must be one of the features, {x: "},
      // Functions of one's own.
      {"loss_fn_reduced",
       [] {
         const HeadLossFn mean = [](const Tensor&, const Tensor& logits, const Features&) {
           return logits.mean();
         };
         lose(BinaryClassHead({.loss_fn = mean}), zeros());
       },
       "BinaryClassHead: what loss_fn gave is float32[]; it must be floats [2, 1]"},
      {"inverse_link_fn_reduced",
       [] {
         const auto sum = [](const Tensor& logits) { return logits.sum(); };
         (void)RegressionHead({.inverse_link_fn = sum}).predictions(two_rows());
       },
       "what inverse_link_fn gave is float32[]; it must be of the shape of the logits"},
      {"regularization_of_several",
       [] {
         (void)BinaryClassHead().loss(features_with({}), zeros(), two_rows(), {torch::ones({2})});
       },
       "BinaryClassHead: regularization_losses[0] is float32[2]; it must be a floating scalar"},
      // Several heads.
      {"labels_of_a_head_missing",
       [] { lose(two_heads(), Labels(Element::dict({{"b", two_rows()}}))); },
       "MultiHead: there are no labels for 'r'; the labels are {b: float32[2, 1]}"},
      {"no_labels_of_heads", [] { lose(two_heads(), Labels()); },
       "MultiHead: there are no labels for 'b', 'r'; the labels are missing"},
      {"logits_of_a_head_missing",
       [] { (void)two_heads().predictions(std::map<std::string, Tensor>{{"b", two_rows()}}); },
       "MultiHead: there are no logits for 'r'; the logits are {b: float32[2, 1]}"},
      {"logits_of_heads_too_few", [] { (void)two_heads().predictions(two_rows()); },
       "MultiHead: logits is float32[2, 1]; it must be floats [batch..., 2]"},
      // Names of classes.
      {"names_of_no_classes", [] { (void)RegressionHead().class_names(torch::zeros({1}, kInt64)); },
       "RegressionHead: class_names: there are no classes"},
      {"name_of_no_class", [] { (void)three_classes().class_names(torch::tensor({1, 3})); },
       "MultiClassHead: class_ids[1] is 3; class_ids must be in [0, 3)"},
      {"names_of_floats", [] { (void)three_classes().class_names(torch::zeros({1})); },
       "MultiClassHead: class_ids is float32[1]; it must be of an integer dtype"},
  };
  return cases;
}
// clang-format on

class HeadRefuses : public ::testing::TestWithParam<Refused> {};

TEST_P(HeadRefuses, AndSaysWhat) {
  EXPECT_THAT(message_of(GetParam().call), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(Options, HeadRefuses, ::testing::ValuesIn(refused_options()),
                         [](const auto& info) { return std::string(info.param.name); });
INSTANTIATE_TEST_SUITE_P(Batches, HeadRefuses, ::testing::ValuesIn(refused_batches()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HeadRefusesTest, TrainingWithoutOrWithTwoWaysToUpdate) {
  const nlohmann::json params = nlohmann::json::object();
  distribute::VariableTable variables(1);
  ModelContext context(Mode::kTrain, variables, 1, params);
  const auto train = [&](const HeadTraining& training) {
    return error_of([&] {
      (void)weighted().create_estimator_spec(context, features_with(torch::ones({2})), zeros(),
                                             two_rows(), training);
    });
  };
  EXPECT_EQ(train({}).kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(
      train({}).message(),
      HasSubstr("BinaryClassHead \"b\": there is no optimizer and no train_op_fn in mode train"));
  const HeadTraining both{.optimizer = optim::sgd(),
                          .train_op_fn = [](const Tensor&) { return optim::TrainOp(); }};
  EXPECT_THAT(train(both).message(),
              HasSubstr("BinaryClassHead \"b\": there are an optimizer, SGD, and a train_op_fn"));
  EXPECT_THAT(train(both).hint(), HasSubstr("one of the two"));
}

TEST(HeadRefusesTest, AMistypedLabelWithTheOneThatIsMeant) {
  const Error error = error_of([] { lose(yes_or_no(), texts({"yse", "no"})); });
  EXPECT_THAT(error.hint(), HasSubstr("did you mean 'yes'?"));
}

}  // namespace
}  // namespace muster::inline v0_1

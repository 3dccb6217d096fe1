#include <functional>

#include "muster/applications/efficientnet.h"
#include "muster/applications/gpt.h"
#include "muster/applications/mobilenet.h"
#include "muster/applications/resnet.h"
#include "muster/applications/vgg.h"
#include "muster/applications/vision_transformer.h"
#include "muster/base/strings.h"
#include "muster/canned/baseline.h"
#include "muster/canned/dnn.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/canned/kmeans.h"
#include "muster/canned/linear.h"
#include "muster/canned/rnn.h"
#include "muster/data/csv.h"
#include "muster/features/categorical_column.h"
#include "muster/features/column_receiver.h"
#include "muster/features/dense_column.h"
#include "muster/features/resolve.h"
#include "muster/features/sequence_column.h"
#include "muster/keras/model.h"
#include "muster/layers/convolution.h"
#include "muster/layers/functional.h"
#include "muster/layers/pooling.h"
#include "muster/layers/recurrent.h"
#include "muster/tensor/libtorch.h"
#include "muster/trees/boosted_trees.h"
#include "tests/onnx/exported_cases.h"

namespace muster::inline v0_1 {
namespace {

namespace fc = feature_column;

// Exports to versions in the folder, and returns the path of one.
using ExportOne = std::function<std::string(const std::string& folder)>;

std::string export_layer(const std::string& folder, Layer layer) {
  keras::Model model(std::move(layer));
  return model.export_model(folder);
}

// Of people with an age and a city, in one of three classes.
struct Columns {
  FeatureColumn city = fc::categorical_column_with_vocabulary_list("city", {"Bern", "Oslo", "Rom"});
  FeatureColumn years = fc::bucketized_column(fc::numeric_column("age"), {20, 40, 60});
  std::vector<FeatureColumn> wide{years, city, fc::crossed_column({years, "city"}, 30)};
  std::vector<FeatureColumn> deep{fc::numeric_column("age"), fc::embedding_column(city, 3)};

  std::vector<FeatureColumn> all() const {
    std::vector<FeatureColumn> both = wide;
    both.insert(both.end(), deep.begin(), deep.end());
    return both;
  }
};

std::string export_estimator(const std::string& folder, Estimator estimator) {
  const Columns columns;
  const auto to_numbers = fc::resolve(columns.all());
  estimator.train(
      [&] {
        const Tensor number = torch::arange(12);
        const Strings cities({12}, {0, 4, 8, 11, 15, 19, 22, 26, 30, 33, 37, 41, 44},
                             "BernOsloRomBernOsloRomBernOsloRomBernOsloRom");
        return Dataset::from_tensor_slices(
                   Element::tuple(
                       {Element::dict({{"age", (number * 7).to(kFloat32)}, {"city", cities}}),
                        number % 3}))
            .global_batch(4)
            .map(to_numbers);
      },
      {.steps = 3});
  return estimator.export_model(folder, fc::serving_input_receiver(columns.all())).value();
}

RunConfig config_of(const std::string& folder) {
  return {.model_dir = folder + "/model", .save_summary_steps = 0, .progress_line = false};
}

std::string export_sequences(const std::string& folder, const char* cell) {
  const FeatureColumn page =
      fc::embedding_column(fc::sequence_categorical_column_with_identity("page", 8), 4);
  Estimator estimator = RNNClassifier(
      {.sequence_feature_columns = {page}, .units = {6, 4}, .cell_type = cell, .n_classes = 3},
      config_of(folder));
  estimator.train(
      [] {
        const Tensor pages = torch::arange(48).reshape({8, 6}) % 7;
        return Dataset::from_tensor_slices(
                   Element::tuple({Element::dict({{"page", pages}}), torch::arange(8) % 3}))
            .global_batch(4);
      },
      {.steps = 2});
  return estimator
      .export_model(folder, raw_serving_input_receiver(
                                {{"page/ids", {kInt64, {6, 1}}}, {"page/lengths", {kInt64, {}}}}))
      .value();
}

std::string export_tokens(const std::string& folder) {
  const SymbolicTensor tokens = Input({16}, {.dtype = kInt64, .name = "tokens"});
  const Layer network = applications::GPT(
      {.vocabulary_size = 20, .context = 16, .layers = 2, .heads = 2, .width = 16});
  return export_layer(folder, Functional({tokens}, {network(tokens)}));
}

// Requests choose the number of steps.
std::string export_steps(const std::string& folder) {
  const SymbolicTensor steps = Input({-1, 3}, {.name = "steps"});
  const SymbolicTensor hidden = LSTM(4, {.return_sequences = true})(steps);
  return export_layer(folder, Functional({steps}, {GRU(2)(hidden), hidden}));
}

// Requests choose height and width.
std::string export_images(const std::string& folder) {
  const SymbolicTensor image = Input({-1, -1, 3}, {.name = "image"});
  const SymbolicTensor small = Conv2D(4, 3, {.strides = 2, .padding = Padding::kSame})(image);
  return export_layer(folder, Functional({image}, {small, GlobalAveragePooling2D()(small)}));
}

std::string export_trees(const std::string& folder, int64_t classes) {
  const Tensor number = torch::arange(200);
  Tensor x = torch::stack(
      {(number * 37 % 101).to(kFloat32) / 50 - 0.5, (number * 53 % 97).to(kFloat32) / 48 - 0.5}, 1);
  const Tensor kind = number % 5;
  Tensor label = x.select(1, 0) * x.select(1, 1) * 4 + kind.eq(1) + x.select(1, 1);
  if (classes > 0) label = label.clamp(0, static_cast<double>(classes) - 0.6).round();
  x.masked_fill_(number.unsqueeze(1).remainder(torch::tensor({7, 11})).eq(0),
                 std::numeric_limits<double>::quiet_NaN());
  const InputFn input = [=] {
    return Dataset::from_tensor_slices(
               Element::tuple({Element::dict({{"x", x}, {"kind", kind}}), label}))
        .global_batch(50);
  };
  const auto receiver = raw_serving_input_receiver(
      {{"x", {.dtype = kFloat32, .shape = {2}, .may_be_missing = true}}, {"kind", {kInt64, {}}}});
  if (classes == 0) {
    BoostedTreesRegressor model(
        {.n_trees = 6, .max_depth = 4, .center_bias = true, .categorical_features = {"kind"}},
        config_of(folder));
    model.train(input);
    return model.export_model(folder, receiver).value();
  }
  BoostedTreesClassifier model(
      {.n_classes = classes, .n_trees = 6, .max_depth = 4, .categorical_features = {"kind"}},
      config_of(folder));
  model.train(input);
  return model.export_model(folder, receiver).value();
}

std::string export_clusters(const std::string& folder) {
  KMeansClustering model({.num_clusters = 4}, config_of(folder));
  model.train(
      [] {
        return Dataset::from_tensor_slices(torch::arange(24).reshape({12, 2}).to(kFloat32).sin())
            .repeat()
            .global_batch(12);
      },
      {.steps = 2});
  return model.export_model(folder, raw_serving_input_receiver({{"x", {kFloat32, {2}}}})).value();
}

std::string export_baseline(const std::string& folder) {
  Estimator estimator = BaselineClassifier({.n_classes = 3}, config_of(folder));
  estimator.train([] {
    return Dataset::from_tensors(
        Element::tuple({Element::dict({{"x", torch::zeros({3, 4})}}), torch::arange(3)}));
  });
  return estimator.export_model(folder, raw_serving_input_receiver({{"x", {kFloat32, {4}}}}))
      .value();
}

const std::map<std::string, ExportOne>& all_models() {
  using namespace applications;
  static const Columns columns;
  static const std::map<std::string, ExportOne> all = {
      {"resnet18",
       [](const auto& to) {
         return export_layer(to, ResNet18({.input_shape = {32, 32, 3}, .classes = 10}));
       }},
      {"resnet50",
       [](const auto& to) {
         return export_layer(
             to, ResNet50({.input_shape = {32, 32, 3}, .classes = 10, .torchvision = true}));
       }},
      {"vgg16",
       [](const auto& to) {
         return export_layer(
             to, VGG16({.input_shape = {32, 32, 3}, .include_top = false, .pooling = "avg"}));
       }},
      {"mobilenet_v2",
       [](const auto& to) {
         return export_layer(to, MobileNetV2({.input_shape = {32, 32, 3}, .classes = 10}));
       }},
      {"efficientnet_b0",
       [](const auto& to) {
         return export_layer(to, EfficientNetB0({.input_shape = {32, 32, 3}, .classes = 10}));
       }},
      {"vision_transformer",
       [](const auto& to) {
         return export_layer(to, VisionTransformer({.input_shape = {32, 32, 3},
                                                    .layers = 2,
                                                    .heads = 4,
                                                    .width = 32,
                                                    .mlp_width = 64,
                                                    .classes = 10}));
       }},
      {"gpt", export_tokens},
      {"gpt_of_any_length",
       [](const auto& to) {
         return export_layer(
             to, GPT({.vocabulary_size = 20, .context = 16, .layers = 2, .heads = 2, .width = 16}));
       }},
      {"steps_of_any_number", export_steps},
      {"images_of_any_size", export_images},
      {"linear_classifier",
       [](const auto& to) {
         return export_estimator(
             to,
             LinearClassifier({.feature_columns = columns.wide, .n_classes = 3}, config_of(to)));
       }},
      {"dnn_classifier",
       [](const auto& to) {
         return export_estimator(to, DNNClassifier({.hidden_units = {8, 4},
                                                    .feature_columns = columns.deep,
                                                    .n_classes = 3,
                                                    .batch_norm = true},
                                                   config_of(to)));
       }},
      {"dnn_regressor",
       [](const auto& to) {
         return export_estimator(
             to,
             DNNRegressor({.hidden_units = {8}, .feature_columns = columns.deep}, config_of(to)));
       }},
      {"wide_and_deep",
       [](const auto& to) {
         return export_estimator(
             to, DNNLinearCombinedClassifier({.linear_feature_columns = columns.wide,
                                              .dnn_feature_columns = columns.deep,
                                              .dnn_hidden_units = {8, 4},
                                              .n_classes = 3},
                                             config_of(to)));
       }},
      {"rnn_lstm", [](const auto& to) { return export_sequences(to, "lstm"); }},
      {"rnn_gru", [](const auto& to) { return export_sequences(to, "gru"); }},
      {"kmeans", export_clusters},
      {"baseline", export_baseline},
      {"trees_regressor", [](const auto& to) { return export_trees(to, 0); }},
      {"trees_2_classes", [](const auto& to) { return export_trees(to, 2); }},
      {"trees_3_classes", [](const auto& to) { return export_trees(to, 3); }},
  };
  return all;
}

}  // namespace

std::vector<std::string> exported_models() {
  std::vector<std::string> names;
  for (const auto& [name, export_one] : all_models()) names.push_back(name);
  return names;
}

std::string export_one_model(const std::string& name, const std::string& folder) {
  return all_models().at(name)(folder);
}

CensusTrees export_census_trees(const std::string& census, const std::string& folder) {
  const std::vector<std::string> names{"age", "capital_gain", "capital_loss", "education_num",
                                       "hours_per_week"};
  data::CsvOptions options{.columns = {{"income", data::CsvKind::kString}}, .label = "income"};
  std::map<std::string, ServingFeature> features;
  for (const std::string& name : names) {
    options.columns.push_back({name, data::CsvKind::kFloat32});
    features[name] = {kFloat32, {}};
  }
  const auto rows = [&](const char* file) {
    return Dataset::from_files({join_path(census, file)}, data::csv_format(options));
  };
  BoostedTreesClassifier model(
      {.label_vocabulary = {"<=50K", ">50K"}, .n_trees = 50, .max_depth = 5}, config_of(folder));
  model.train([&] { return rows("adult_train.csv").global_batch(512); });
  CensusTrees made{.folder =
                       model.export_model(folder, raw_serving_input_receiver(features)).value()};
  const Element first = rows("adult_test.csv").batch(7).iterator()->next().value().part(0);
  for (const std::string& name : names) made.rows[name] = first.at(name).value().tensor();
  return made;
}

}  // namespace muster::inline v0_1

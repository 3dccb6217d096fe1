#include "muster/savedmodel/saved_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/base/error_of.h"
#include "muster/base/temp_directory.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/export/request_columns.h"
#include "muster/export/write_servable.h"
#include "muster/savedmodel/saved_model_description.h"
#include "muster/tensor/libtorch.h"

namespace muster::inline v0_1::saved_model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;
using Features = ServableSource::Tensors;

// relu(x w) + 0.5, with the signatures "serving_default" and "classify".
class SavedModelTest : public ::testing::Test {
 protected:
  SavedModelTest() {
    weight_ = torch::arange(8, kFloat32).reshape({4, 2}) / 7;
    source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {4}}}});
    source_.weights = {{"net/dense/kernel", weight_}};
    source_.function = [this](const Features& features) {
      const Tensor logits = features.at("x").matmul(weight_).relu() + 0.5;
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"logits", logits}})},
          {"classify", ClassificationOutput(logits.softmax(-1), {"no", "yes"})}};
    };
  }

  // Writes the export and the SavedModel, and returns what that contains.
  SavedModelDescription written() {
    local_file_system().make_directories(version_).value();
    write_servable(local_file_system(), version_, source_);
    files_ = export_saved_model(local_file_system(), version_, folder_);
    return read(folder_);
  }
  static SavedModelDescription read(const std::string& folder) {
    const std::string bytes = local_file_system().read_file(folder + "/saved_model.pb").value();
    return describe_saved_model(bytes_of(bytes));
  }
  // The same function with another body, of the feature and the weight.
  void compute(std::function<Tensor(const Tensor&)> body) {
    source_.function = [body = std::move(body)](const Features& features) {
      return std::map<std::string, ExportOutput>{
          {kServingDefault, PredictOutput({{"y", body(features.at("x"))}})}};
    };
  }

  // The names of the signatures of a SavedModel.
  static std::vector<std::string> names_of(const SavedModelDescription& model) {
    std::vector<std::string> names;
    for (const auto& [name, signature] : model.signatures) names.push_back(name);
    return names;
  }

  const TempDirectory directory_;
  const std::string version_ = directory_ / "7", folder_ = directory_ / "saved";
  Tensor weight_;
  ServableSource source_;
  std::vector<std::string> files_;
};

TEST_F(SavedModelTest, HasTheSignaturesOfTheExport) {
  const SavedModelDescription model = written();
  EXPECT_THAT(files_, ElementsAre("saved_model.pb", "variables/variables.index",
                                  "variables/variables.data-00000-of-00001"));
  EXPECT_THAT(model.tags, ElementsAre("serve"));
  const auto& serving = model.signatures.at(kServingDefault);
  EXPECT_EQ(serving.method, "tensorflow/serving/predict");
  EXPECT_THAT(serving.inputs, ElementsAre(Pair("x", "float32[-1, 4]")));
  EXPECT_THAT(serving.outputs, ElementsAre(Pair("logits", "float32[-1, 2]")));
  const auto& classify = model.signatures.at("classify");
  EXPECT_EQ(classify.method, "tensorflow/serving/classify");
  EXPECT_THAT(classify.outputs,
              ElementsAre(Pair("classes", "string[-1, 2]"), Pair("scores", "float32[-1, 2]")));
}

TEST_F(SavedModelTest, TheGraphComputesWithVariables) {
  const SavedModelDescription model = written();
  EXPECT_THAT(model.nodes.at("net/dense/MatMul"),
              ElementsAre("x", "net/dense/kernel/Read/ReadVariableOp"));
  EXPECT_THAT(model.nodes.at("net/dense/Relu"), ElementsAre("net/dense/MatMul"));
  EXPECT_THAT(model.nodes.at("logits"), ElementsAre("net/dense/AddV2"));
  EXPECT_TRUE(model.nodes.contains("classes/Tile"));
}

TEST_F(SavedModelTest, WeightsAreACheckpointOfTensorflow) {
  (void)written();
  const tensorflow::BundleReader bundle(local_file_system(), folder_ + "/variables/variables");
  ASSERT_THAT(bundle.entries(), ElementsAre(Pair("net/dense/kernel", ::testing::_)));
  const auto& entry = bundle.entries().begin()->second;
  EXPECT_THAT(entry.shape, ElementsAre(4, 2));
  Tensor read = torch::empty({4, 2});
  bundle.read("net/dense/kernel", entry.pieces.at(0),
              {static_cast<std::byte*>(read.data_ptr()), static_cast<size_t>(read.nbytes())});
  EXPECT_TRUE(torch::equal(read, weight_));
}

TEST_F(SavedModelTest, AModelWithoutWeightsHasNoVariables) {
  compute([](const Tensor& x) { return x * 2; });
  source_.weights.clear();
  const SavedModelDescription model = written();
  EXPECT_THAT(files_, ElementsAre("saved_model.pb"));
  EXPECT_FALSE(model.operations.contains("RestoreV2"));
}

TEST_F(SavedModelTest, TheSameExportIsTheSameFile) {
  (void)written();
  const std::string path = folder_ + "/saved_model.pb";
  const std::string first = local_file_system().read_file(path).value();
  export_saved_model(local_file_system(), version_, folder_);
  EXPECT_EQ(local_file_system().read_file(path).value(), first);
}

// TensorFlow has channels last, as Muster's layers: no transposes are left.
TEST_F(SavedModelTest, ConvolutionsOfMustersLayersNeedNoTransposes) {
  source_.receiver = raw_serving_input_receiver({{"x", {kFloat32, {8, 8, 3}}}});
  const Tensor kernel = torch::ones({3, 3, 3, 5});
  source_.weights = {{"conv/kernel", kernel}};
  compute([kernel](const Tensor& x) {
    return torch::conv2d(x.permute({0, 3, 1, 2}), kernel.permute({3, 2, 0, 1}), {}, 1, 1)
        .permute({0, 2, 3, 1});
  });
  const SavedModelDescription model = written();
  EXPECT_EQ(model.operations.at("Conv2D"), 1);
  EXPECT_FALSE(model.operations.contains("Transpose"));
  EXPECT_FALSE(model.operations.contains("PadV2"));  // the padding is "SAME"
}

TEST_F(SavedModelTest, AnUnknownOperationIsNamedWithTheWeightBeforeIt) {
  compute([this](const Tensor& x) { return x.matmul(weight_).erfinv(); });
  const Error error = error_of([&] { (void)written(); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.message(), AllOf(HasSubstr("aten::erfinv"), HasSubstr("\"net/dense/kernel\"")));
  EXPECT_FALSE(local_file_system().exists(folder_ + "/saved_model.pb").value());
}

// TensorFlow Serving takes the parent folder, which has numbered versions.
TEST_F(SavedModelTest, AnExportMayBeASavedModelToo) {
  source_.formats = {"saved_model"};
  local_file_system().make_directories(version_).value();
  write_servable(local_file_system(), version_, source_);
  EXPECT_TRUE(read(version_).signatures.contains("classify"));
  // Its digests are checked with the others.
  (void)read_export(local_file_system(), version_);
  local_file_system()
      .write_atomically(version_ + "/variables/variables.index", std::string_view("no"))
      .value();
  EXPECT_EQ(error_of([&] { (void)read_export(local_file_system(), version_); }).kind(),
            ErrorKind::kCorrupt);
}

// As tf.estimator writes them: "inputs" and "examples" are serialized.
TEST_F(SavedModelTest, AnExportOfExamplesParsesThem) {
  source_.receiver = parsing_serving_input_receiver(
      {{"x", data::FixedLenFeature{{4}, kFloat32, Value(torch::tensor(0.5F))}}});
  const SavedModelDescription model = written();
  EXPECT_THAT(names_of(model), UnorderedElementsAre("classify", kServingDefault, "tensors:classify",
                                                    "tensors:serving_default"));
  EXPECT_THAT(model.signatures.at(kServingDefault).inputs,
              ElementsAre(Pair("examples", "string[-1]")));
  EXPECT_THAT(model.signatures.at("classify").inputs, ElementsAre(Pair("inputs", "string[-1]")));
  EXPECT_THAT(model.signatures.at("tensors:classify").inputs,
              ElementsAre(Pair("x", "float32[-1, 4]")));
  EXPECT_EQ(model.signatures.at("tensors:classify").method, "tensorflow/serving/predict");
  // The model's input may be fed; else it is what was parsed.
  EXPECT_EQ(model.operations.at("PlaceholderWithDefault"), 2);  // and the name of the checkpoint
  EXPECT_THAT(model.nodes.at("x"), ElementsAre("ParseExample/ParseExampleV2"));
  EXPECT_EQ(model.nodes.at("ParseExample/ParseExampleV2").front(), "input_example_tensor");
}

TEST_F(SavedModelTest, IdsOfClassesGetTheirNames) {
  source_.function = [this](const Features& features) {
    const Tensor logits = features.at("x").matmul(weight_);
    const auto classes = ClassificationOutput(logits.softmax(-1), {"no", "yes"});
    return std::map<std::string, ExportOutput>{
        {kServingDefault, classes},
        {"classification", classes},
        {"predict", PredictOutput({{"class_ids", logits.argmax(-1, true)}})}};
  };
  EXPECT_THAT(written().signatures.at("predict").outputs,
              ElementsAre(Pair("class_ids", "int64[-1, 1]"), Pair("classes", "string[-1, 1]")));
}

TEST_F(SavedModelTest, WordsOfIdsAreAnAsset) {
  source_.receiver = raw_serving_input_receiver(
      {{"word", {.dtype = kInt64, .shape = {}, .texts = TextInput{{"red", "pale blue"}, 2}}}});
  source_.weights.clear();
  source_.function = [](const Features& features) {
    return std::map<std::string, ExportOutput>{
        {kServingDefault, PredictOutput({{"twice", features.at("word") * 2}})}};
  };
  const SavedModelDescription model = written();
  EXPECT_THAT(files_, ElementsAre("saved_model.pb", "assets/word.txt"));
  EXPECT_EQ(local_file_system().read_file(folder_ + "/assets/word.txt").value(),
            "red\npale blue\n");
  EXPECT_THAT(model.signatures.at(kServingDefault).inputs, ElementsAre(Pair("word", "int64[-1]")));
  EXPECT_THAT(model.signatures.at("features:serving_default").inputs,
              ElementsAre(Pair("word", "string[-1]")));
  EXPECT_THAT(model.nodes.at("init_all_tables"), ElementsAre("^word_words/HashTableV2/Initialize"));
}

// Columns over the features "city" and "job". What they compute is compared with TensorFlow by
// ./dev check onnx.
class ColumnsOfCities final : public RequestColumns {
 public:
  ColumnsOfCities(nlohmann::json recipe, bool parses)
      : recipe_(std::move(recipe)), parses_(parses) {}
  nlohmann::json recipe() const override { return recipe_; }
  std::unique_ptr<const RequestReader> reader(
      const std::map<std::string, TensorInfo>&,
      const std::optional<data::FeatureSpec>&) const override {
    return std::make_unique<Reader>(parses_);
  }

 private:
  class Reader final : public RequestReader {
   public:
    explicit Reader(bool parses) {
      if (parses) parser_.emplace(data::FeatureSpec{{"city", data::VarLenFeature{data::kString}}});
    }
    const std::map<std::string, RawFeature>& features() const override { return features_; }
    const std::optional<data::ExampleParser>& parser() const override { return parser_; }
    void check(const Element&) const override {}
    std::map<std::string, Tensor> inputs_of(const Element&) const override { return {}; }

   private:
    const std::map<std::string, RawFeature> features_{{"city", {.is_text = true, .shape = {-1, 1}}},
                                                      {"job", {.is_text = true, .shape = {-1, 1}}}};
    std::optional<data::ExampleParser> parser_;
  };

  const nlohmann::json recipe_;
  const bool parses_;
};

class SavedModelOfColumnsTest : public SavedModelTest {
 protected:
  SavedModelOfColumnsTest() {
    receiver_ = raw_serving_input_receiver(
        {{"city/ids", {kInt64, {1}}}, {"city_X_job/ids", {kInt64, {1}}}});
  }

  // The model of columns with this recipe. An export is not read here: the part with the columns
  // would read their recipe.
  SavedModelDescription model_of(const char* recipe, bool parses) {
    source_.receiver = receiver_;
    source_.function = [this](const Features& features) {
      const Tensor ids = features.at("city/ids") + features.at("city_X_job/ids");
      return std::map<std::string, ExportOutput>{
          {kServingDefault,
           PredictOutput({{"y", ids.to(kFloat32).matmul(weight_[0].reshape({1, 2}))}})}};
    };
    local_file_system().make_directories(version_).value();
    write_servable(local_file_system(), version_, source_);
    ExportedModel model = read_export(local_file_system(), version_);
    model.columns = std::make_shared<ColumnsOfCities>(nlohmann::json::parse(recipe), parses);
    files_ = write_saved_model(local_file_system(), model, folder_);
    return read(folder_);
  }

  ServingInputReceiver receiver_;
};

constexpr const char* kCities = R"([
  {"kind": "vocabulary", "key": "city", "values": ["Bern", "Oslo"], "dtype": "string",
   "default_value": -1, "num_oov_buckets": 3},
  {"kind": "cross", "keys": ["city", "job"], "buckets": 10, "hash_key": 7}])";

TEST_F(SavedModelOfColumnsTest, TheyAreInTheGraph) {
  const SavedModelDescription model = model_of(kCities, true);
  EXPECT_THAT(names_of(model), UnorderedElementsAre(kServingDefault, "features:serving_default",
                                                    "tensors:serving_default"));
  EXPECT_THAT(model.signatures.at("features:serving_default").inputs,
              ElementsAre(Pair("city", "string[-1, 1]"), Pair("job", "string[-1, 1]")));
  EXPECT_THAT(model.operations,
              IsSupersetOf({Pair("LookupTableFindV2", 1), Pair("StringToHashBucketFast", 1),
                            Pair("SparseCross", 1), Pair("InitializeTableFromTextFileV2", 1)}));
  EXPECT_EQ(local_file_system().read_file(folder_ + "/assets/city.txt").value(), "Bern\nOslo\n");
  EXPECT_THAT(files_, ::testing::Contains("assets/city.txt"));
}

TEST_F(SavedModelOfColumnsTest, WithoutExamplesARequestGivesTheFeatures) {
  const SavedModelDescription model = model_of(kCities, false);
  EXPECT_THAT(names_of(model), UnorderedElementsAre(kServingDefault, "tensors:serving_default"));
  EXPECT_THAT(model.signatures.at(kServingDefault).inputs,
              ElementsAre(Pair("city", "string[-1, 1]"), Pair("job", "string[-1, 1]")));
  EXPECT_FALSE(model.operations.contains("ParseExampleV2"));
}

TEST_F(SavedModelOfColumnsTest, WordsThatALineCannotHoldAreInTheGraph) {
  const SavedModelDescription model = model_of(R"([
    {"kind": "vocabulary", "key": "city", "values": ["Bern", "new\nline"], "dtype": "string",
     "default_value": -1, "num_oov_buckets": 0},
    {"kind": "cross", "keys": ["city", "job"], "buckets": 10, "hash_key": 7}])",
                                               true);
  EXPECT_EQ(model.operations.at("LookupTableImportV2"), 1);
  EXPECT_FALSE(local_file_system().exists(folder_ + "/assets").value());
}

// A dense feature is hashed after columns, one of a tf.Example in its place.
TEST_F(SavedModelOfColumnsTest, ACrossInTwoOrdersTakesNoFeaturesNextToExamples) {
  EXPECT_THAT(names_of(model_of(R"([
    {"kind": "hash", "key": "city", "buckets": 5, "dtype": "string"},
    {"kind": "cross", "buckets": 10, "hash_key": 7,
     "keys": ["job", {"kind": "vocabulary", "key": "city", "values": ["Bern"], "dtype": "string",
                      "default_value": -1, "num_oov_buckets": 0}]}])",
                                true)),
              UnorderedElementsAre(kServingDefault, "tensors:serving_default"));
}

TEST_F(SavedModelTest, CutFilesAreCorrupt) {
  (void)written();
  const std::string bytes = local_file_system().read_file(folder_ + "/saved_model.pb").value();
  EXPECT_EQ(error_of([&] {
              (void)describe_saved_model(bytes_of(std::string_view(bytes).substr(0, 100)));
            }).kind(),
            ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace muster::inline v0_1::saved_model

#include "tests/onnx/exported_requests.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "muster/base/bytes.h"
#include "muster/base/strings.h"
#include "muster/canned/dnn_linear_combined.h"
#include "muster/checkpoint/checkpoint.h"
#include "muster/export/servable.h"
#include "muster/export/write_servable.h"
#include "muster/features/categorical_column.h"
#include "muster/features/column_receiver.h"
#include "muster/features/dense_column.h"
#include "muster/features/parse_spec.h"
#include "muster/features/resolve.h"
#include "muster/files/file_systems.h"
#include "muster/formats/example.h"
#include "muster/formats/tfrecord.h"
#include "muster/tensor/libtorch.h"
#include "muster/trees/boosted_trees.h"

namespace muster::inline v0_1 {
namespace {

namespace fc = feature_column;
using formats::Example;
using formats::Feature;
using nlohmann::json;
using Texts = std::vector<std::string>;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

// The values of a feature as a dense row of this width.
template <typename Values>
Values row_of(const Example& example, const std::string& key, int64_t width,
              typename Values::value_type other) {
  Values row;
  for (const auto& [name, feature] : example.features) {
    if (name == key) row = std::get<Values>(feature);
  }
  row.resize(static_cast<size_t>(width), other);
  return row;
}

// The requests by feature: an element for Muster, JSON for others.
std::pair<Element, json> features_of(const std::map<std::string, RawFeature>& features,
                                     const std::vector<Example>& examples) {
  std::vector<std::pair<std::string, Element>> values;
  json all = json::object();
  for (const auto& [key, feature] : features) {
    Shape shape = feature.shape;
    shape[0] = static_cast<int64_t>(examples.size());
    const int64_t width = c10::multiply_integers(shape) / shape[0];
    std::string bytes;
    std::vector<int64_t> offsets{0};
    std::vector<double> numbers;
    for (const Example& example : examples) {
      if (feature.is_text) {
        const auto row = row_of<Texts>(example, key, width, "");
        for (const std::string& text : row) {
          bytes += text;
          offsets.push_back(static_cast<int64_t>(bytes.size()));
        }
        all[key].push_back(row);
      } else if (at::isFloatingType(feature.dtype)) {
        const auto row = row_of<Floats>(example, key, width, 0);
        numbers.insert(numbers.end(), row.begin(), row.end());
        all[key].push_back(row);
      } else {
        const auto row = row_of<Integers>(example, key, width, -1);
        numbers.insert(numbers.end(), row.begin(), row.end());
        all[key].push_back(row);
      }
    }
    values.emplace_back(
        key, feature.is_text
                 ? Element(Value(Strings(shape, offsets, bytes)))
                 : Element(torch::tensor(numbers, at::kDouble).to(feature.dtype).reshape(shape)));
  }
  return {Element::dict(std::move(values)), all};
}

// Calls `run` for each signature, and writes all outputs.
template <typename Run>
void write_outputs(const Servable& model, const std::string& path, const Run& run) {
  Checkpoint numbers;
  for (const auto& [signature, about] : model.signatures()) {
    for (const auto& [name, output] : run(signature))
      numbers.tensors["out/" + signature + "/" + name] = output.contiguous();
  }
  write_checkpoint(file_systems(), path, numbers);
}

void write_requests(const std::string& folder, const std::vector<Example>& examples) {
  const Servable model(folder);
  const Signature& signature = model.signature(kServingDefault);
  Texts serialized;
  for (const Example& example : examples) serialized.push_back(formats::encode_example(example));
  if (signature.takes_examples) {
    auto writer =
        formats::TfrecordWriter::open(file_systems(), join_path(folder, "examples.tfrecord"))
            .value();
    for (const std::string& each : serialized) writer.write(bytes_of(each)).value();
    writer.close().value();
    write_outputs(model, join_path(folder, "examples.safetensors"),
                  [&](const std::string& name) { return model.run_examples(name, serialized); });
  }
  if (signature.features.empty()) return;
  const auto [batch, all] = features_of(signature.features, examples);
  file_systems().write_atomically(join_path(folder, "features.json"), all.dump()).value();
  write_outputs(
      model, join_path(folder, "features.safetensors"),
      [&, &element = batch](const std::string& name) { return model.run_features(name, element); });
}

// A model whose outputs are its inputs: "of_city/ids" is "city/ids".
ServableSource inputs_of(ServingInputReceiver receiver) {
  return {
      .function =
          [](const ServableSource::Tensors& features) {
            std::map<std::string, Tensor> outputs;
            for (const auto& [name, tensor] : features) outputs["of_" + name] = tensor * 1;
            return std::map<std::string, ExportOutput>{{kServingDefault, PredictOutput(outputs)}};
          },
      .receiver = std::move(receiver)};
}

void write_source(const std::string& folder, const ServableSource& source,
                  const std::vector<Example>& examples) {
  write_servable(file_systems(), folder, source);
  write_requests(folder, examples);
}

// Columns of every kind.
struct EveryColumn {
  FeatureColumn age = fc::numeric_column("age", {.default_value = {33}});
  FeatureColumn years = fc::bucketized_column(age, {20, 40.1, 60});
  FeatureColumn sizes =
      fc::bucketized_column(fc::numeric_column("size", {.shape = {2}, .dtype = kInt64}), {1, 5});
  FeatureColumn city = fc::categorical_column_with_vocabulary_list(
      "city", fc::Vocabulary{"Bern", "Oslo", "Rom"}, {.num_oov_buckets = 2});
  FeatureColumn place = fc::categorical_column_with_vocabulary_list(
      "place", fc::Vocabulary{8000, 3000, 4000}, {.default_value = 1});
  FeatureColumn code = fc::categorical_column_with_vocabulary_list("code", fc::Vocabulary{3, 2},
                                                                   {.num_oov_buckets = 3});
  FeatureColumn odd = fc::categorical_column_with_vocabulary_list(
      "odd", fc::Vocabulary{"a\nb", "c", "d\r"}, {.default_value = -7});
  FeatureColumn tags = fc::categorical_column_with_hash_bucket("tags", 50);
  FeatureColumn serial = fc::categorical_column_with_hash_bucket("serial", 20, {.dtype = kInt64});
  FeatureColumn level =
      fc::categorical_column_with_identity("level", 5, {.default_value = int64_t{2}});
  FeatureColumn room = fc::categorical_column_with_identity("room", 4);
  FeatureColumn shares = fc::weighted_categorical_column(tags, "share");
  FeatureColumn job = fc::crossed_column({years, "job"}, 30);
  FeatureColumn job_tags = fc::crossed_column({"job", "tags"}, 1000, {.hash_key = 5});
  FeatureColumn three = fc::crossed_column({sizes, city, level}, 100);

  std::vector<FeatureColumn> all() const {
    return {age,    years, sizes, city,   place, code,     odd,  tags,
            serial, level, room,  shares, job,   job_tags, three};
  }
};

// People with more or fewer values, unknown ones and none.
std::vector<Example> people(bool with_empty) {
  std::vector<Example> examples;
  const Texts cities{"Bern", "Ulm", "Rom", "Zürich", "Oslo"};
  for (int64_t i = 0; i < 12; ++i) {
    Example example;
    const auto add = [&](const char* key, Feature feature) {
      example.features.emplace_back(key, std::move(feature));
    };
    if (i % 4 != 3) add("age", Floats{static_cast<float>(i * 7) + (i == 6 ? -1.9F : 0)});
    add("size", Integers{i - 3, i});
    if (i % 5 != 4) add("city", Texts{cities[static_cast<size_t>(i) % cities.size()]});
    if (i % 3 != 1) add("place", Integers{i % 2 == 0 ? 3000 : i});
    add("code", Integers{i % 5 + 1});
    add("odd", Texts{i % 3 == 0 ? "a\nb" : i % 3 == 1 ? "d\r" : "e"});
    Texts tags{"red", "green", "blue"};
    tags.resize(static_cast<size_t>(i) % 4);
    Floats shares{0.5F, 0.25F, 2};
    shares.resize(tags.size());
    add("tags", tags);
    add("share", shares);
    add("serial", Integers{i * 1000003 - 2});
    if (i != 2) add("level", Integers{i - 1 == -1 ? 9 : i - 1});
    if (i % 2 == 0) add("room", Integers{i % 4});
    if (i % 6 != 5) add("job", Texts{i % 2 == 0 ? "nurse" : "miner"});
    examples.push_back(std::move(example));
  }
  if (with_empty) {
    // Values that a dense request cannot say.
    for (auto& [key, feature] : examples[0].features) {
      if (key == "city" || key == "job" || key == "odd") feature = Texts{""};
      if (key == "serial" || key == "place" || key == "code" || key == "level")
        feature = Integers{-1};
    }
  }
  return examples;
}

ServingInputReceiver receiver_of(const std::vector<FeatureColumn>& columns) {
  ServingInputReceiver receiver = fc::serving_input_receiver(columns);
  for (const char* name : {"tags/ids", "tags_weighted_by_share/ids",
                           "tags_weighted_by_share/weights", "job_X_tags/ids"}) {
    if (receiver.features.contains(name)) receiver.features.at(name).shape = {3};
  }
  if (const char* name = "city_X_level_X_size_bucketized/ids"; receiver.features.contains(name))
    receiver.features.at(name).shape = {2};
  return receiver;
}

// Crosses whose features are hashed in another order when they are dense.
std::vector<FeatureColumn> two_orders() {
  const EveryColumn columns;
  return {fc::crossed_column({"job", columns.years}, 1000), columns.city};
}

// Without tf.Examples, which have no float64.
std::vector<FeatureColumn> wide_numbers() {
  const EveryColumn columns;
  const FeatureColumn weight = fc::numeric_column("weight", {.dtype = kFloat64});
  return {weight, columns.city, fc::crossed_column({"job", columns.room}, 1000)};
}

std::vector<Example> weighed_people() {
  std::vector<Example> examples = people(false);
  for (Example& example : examples)
    example.features.emplace_back("weight", Floats{static_cast<float>(example.features.size())});
  return examples;
}

// Ids that a client gives as words.
void export_words(const std::string& folder) {
  const ServingInputReceiver receiver = raw_serving_input_receiver(
      {{"color",
        {.dtype = kInt64,
         .shape = {2},
         .texts = TextInput{.words = {"red", "green", "pale blue"}, .unknown = 7}}},
       {"x", {kFloat32, {}}}});
  write_servable(file_systems(), folder, inputs_of(receiver));
  const json requests = json::parse(
      R"({"color": [["green", "red"], ["black", "pale blue"], ["", "green"]], "x": [0.5, 1.5, -2]})");
  Texts words;
  for (const json& row : requests.at("color")) {
    for (const json& word : row) words.push_back(word.get<std::string>());
  }
  const Servable model(folder);
  const Tensor ids = model.text_ids("color", Strings(words)).reshape({3, 2});
  file_systems().write_atomically(join_path(folder, "features.json"), requests.dump()).value();
  write_outputs(model, join_path(folder, "features.safetensors"), [&](const std::string& name) {
    return model.run(name, {{"color", ids}, {"x", torch::tensor({0.5F, 1.5F, -2.0F})}});
  });
}

// Each method over parsed numbers with defaults.
void export_numbers(const std::string& folder) {
  const ServingInputReceiver receiver = parsing_serving_input_receiver(
      {{"x", data::FixedLenFeature{{2}, kFloat32, Value(torch::tensor({0.5F, -1.5F}))}},
       {"n", data::FixedLenFeature{{}, kInt64}}});
  const ServableSource source{
      .function =
          [](const ServableSource::Tensors& features) {
            const Tensor sums = features.at("x").sum(1, true) + features.at("n").unsqueeze(1);
            const Tensor scores = torch::cat({sums, -sums, sums * 2}, 1).softmax(1);
            return std::map<std::string, ExportOutput>{
                {kServingDefault, ClassificationOutput(scores, {"a", "b", "c"})},
                {"classification", ClassificationOutput(scores, {"a", "b", "c"})},
                {"regression", RegressionOutput(sums)},
                {"predict",
                 PredictOutput({{"class_ids", scores.argmax(1, true)}, {"sums", sums}})}};
          },
      .receiver = receiver};
  std::vector<Example> examples;
  for (int64_t i = 0; i < 4; ++i) {
    examples.push_back({.features = {{"n", Integers{i - 2}}}});
    if (i != 1) examples.back().features.emplace_back("x", Floats{static_cast<float>(i), 0.25F});
  }
  write_source(folder, source, examples);
}

void export_parsed_trees(const std::string& folder) {
  const Tensor number = torch::arange(200);
  const Tensor x = (number * 37 % 101).to(kFloat32) / 50, kind = number % 5;
  BoostedTreesClassifier model(
      {.n_classes = 2, .n_trees = 4, .categorical_features = {"kind"}},
      {.model_dir = folder + "/model", .save_summary_steps = 0, .progress_line = false});
  model.train([=] {
    return Dataset::from_tensor_slices(
               Element::tuple({Element::dict({{"x", x}, {"kind", kind}}), (x + kind).gt(3)}))
        .global_batch(50);
  });
  const std::string version =
      model
          .export_model(
              folder, parsing_serving_input_receiver({{"x", data::FixedLenFeature{{}, kFloat32}},
                                                      {"kind", data::FixedLenFeature{{}, kInt64}}}))
          .value();
  std::vector<Example> examples;
  for (int64_t i = 0; i < 9; ++i) {
    examples.push_back(
        {.features = {{"x", Floats{static_cast<float>(i) / 4}}, {"kind", Integers{i % 5}}}});
  }
  write_requests(version, examples);
}

// The columns of examples/census, fewer of them.
struct Census {
  static FeatureColumn text(const char* key) {
    return fc::categorical_column_with_hash_bucket(key, 200);
  }
  FeatureColumn ages =
      fc::bucketized_column(fc::numeric_column("age"), {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});
  FeatureColumn sex = fc::categorical_column_with_vocabulary_list("sex", {"Male", "Female"});
  FeatureColumn marital = text("marital_status"), country = text("native_country");
  std::vector<FeatureColumn> wide{ages,
                                  text("workclass"),
                                  marital,
                                  country,
                                  fc::crossed_column({"education", "occupation"}, 1000),
                                  fc::crossed_column({ages, "education", "occupation"}, 5000)};
  std::vector<FeatureColumn> deep{
      fc::numeric_column("age", {.normalizer_fn = [](const Tensor& x) { return (x - 38) / 13; }}),
      fc::numeric_column("hours_per_week"), fc::indicator_column(sex),
      fc::embedding_column(marital, 4), fc::embedding_column(text("occupation"), 8)};

  std::vector<FeatureColumn> all() const {
    std::vector<FeatureColumn> both = wide;
    both.insert(both.end(), deep.begin(), deep.end());
    return both;
  }
};

// The rows of a batch. What a CSV file lacks, a tf.Example lacks too.
std::vector<Example> examples_of(const Element& batch) {
  std::vector<Example> examples(static_cast<size_t>(batch.rows()));
  for (const std::string& key : batch.structure().keys) {
    const auto value = batch.at(key).value();
    for (size_t i = 0; i < examples.size(); ++i) {
      if (value.is_strings()) {
        const std::string text(value.strings()[static_cast<int64_t>(i)]);
        if (!text.empty()) examples[i].features.emplace_back(key, Texts{text});
      } else {
        const Tensor number = value.tensor()[static_cast<int64_t>(i)];
        examples[i].features.emplace_back(key, Floats{number.item<float>()});
      }
    }
  }
  return examples;
}

void export_census(const std::string& folder, const std::string& census) {
  const Census columns;
  const auto csv =
      data::csv_format(fc::csv_options(columns.all(), {"income", data::CsvKind::kString}));
  const auto rows = [&](const char* file) {
    return Dataset::from_files({join_path(census, file)}, csv).global_batch(128);
  };
  Estimator estimator = DNNLinearCombinedClassifier(
      {.linear_feature_columns = columns.wide,
       .linear_optimizer = "Ftrl",
       .dnn_feature_columns = columns.deep,
       .dnn_hidden_units = {16},
       .label_vocabulary = {"<=50K", ">50K"}},
      {.model_dir = folder + "/model", .save_summary_steps = 0, .progress_line = false});
  estimator.train([&] { return rows("adult_train.csv").map(fc::resolve(columns.all())); },
                  {.steps = 100});
  const std::string version =
      estimator.export_model(folder, fc::serving_input_receiver(columns.all())).value();
  const auto iterator = rows("adult_test.csv").iterator();
  write_requests(version, examples_of(iterator->next().value().part(0)));
}

}  // namespace

std::vector<std::string> request_models(const std::string& census) {
  std::vector<std::string> names{"every_column",   "two_orders",   "wide_numbers",
                                 "parsed_numbers", "parsed_trees", "words"};
  if (file_systems().exists(join_path(census, "adult_train.csv")).value())
    names.emplace_back("census");
  return names;
}

void export_with_requests(const std::string& name, const std::string& folder,
                          const std::string& census) {
  file_systems().make_directories(folder).value();
  if (name == "every_column") {
    const std::vector<FeatureColumn> columns = EveryColumn().all();
    write_source(folder, inputs_of(receiver_of(columns)), people(true));
  } else if (name == "two_orders") {
    write_source(folder, inputs_of(receiver_of(two_orders())), people(true));
  } else if (name == "wide_numbers") {
    write_source(folder, inputs_of(receiver_of(wide_numbers())), weighed_people());
  } else if (name == "words") {
    export_words(folder);
  } else if (name == "parsed_numbers") {
    export_numbers(folder);
  } else if (name == "parsed_trees") {
    export_parsed_trees(folder);
  } else {
    export_census(folder, census);
  }
}

}  // namespace muster::inline v0_1

// Who of the Titanic's passengers was saved: a linear classifier, from CSV files to an export.
// data_dir holds train.csv and eval.csv with the columns below.
//
// Expected: an accuracy of about 79 %.
#include <muster/muster.h>

using namespace muster;
using namespace muster::feature_column;

void program(const Flags& flags) {
  const auto sex = categorical_column_with_vocabulary_list("sex", {"male", "female"});
  const auto cabin = categorical_column_with_vocabulary_list("class", {"First", "Second", "Third"});
  const auto town = categorical_column_with_hash_bucket("embark_town", 10);
  const auto ages = bucketized_column(numeric_column("age"), {6, 14, 18, 25, 35, 50, 65});
  const std::vector<FeatureColumn> columns{sex,
                                           cabin,
                                           town,
                                           ages,
                                           crossed_column({"sex", "class"}, 50),
                                           crossed_column({ages, "sex"}, 100)};

  data::CsvOptions csv{.columns = csv_columns(columns), .label = "survived"};
  csv.columns.push_back({.name = "survived", .kind = data::CsvKind::kInt64});
  const auto rows = [&](const char* file) {
    return Dataset::from_files({flags.data_dir + "/" + file}, data::csv_format(csv));
  };
  const auto training = [&] {
    return rows("train.csv").shuffle(1000).repeat(flags.epochs).batch(32).map(resolve(columns));
  };
  const auto testing = [&] { return rows("eval.csv").batch(256).map(resolve(columns)); };

  Estimator saved = LinearClassifier({.feature_columns = columns},
                                     {.model_dir = flags.model_dir, .random_seed = flags.seed});
  saved.train(training);
  print_result(saved.evaluate(testing));

  std::map<std::string, ServingFeature> request;  // one id of each column, as resolve() gives them
  for (const FeatureColumn& column : columns) request[column.name() + "/ids"] = {kInt64, {1}};
  saved.export_model(flags.model_dir + "/export", raw_serving_input_receiver(request));
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Trains a linear classifier on train.csv and eval.csv.",
                   .defaults = {.data_dir = "titanic", .model_dir = "titanic_model", .epochs = 50},
                   .uses = {"data_dir", "model_dir", "epochs", "seed"}});
}

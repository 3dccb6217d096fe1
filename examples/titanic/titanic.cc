// From CSV files to an export: predicts who survived on the Titanic. Expected accuracy: 80 %.
#include <muster/muster.h>

using namespace muster;
using namespace muster::feature_column;

void program(const Flags& flags) {
  const std::vector<FeatureColumn> columns{
      categorical_column_with_vocabulary_list("sex", {"male", "female"}),
      categorical_column_with_vocabulary_list("class", {"First", "Second", "Third"}),
      bucketized_column(numeric_column("age"), {6, 14, 18, 25, 35, 50, 65}),
      bucketized_column(numeric_column("n_siblings_spouses"), {1, 2, 3}),
      bucketized_column(numeric_column("parch"), {1, 2, 3})};
  const auto csv = data::csv_format(csv_options(columns, {"survived", data::CsvKind::kInt64}));
  const auto rows = [&](const std::string& file) {
    return Dataset::from_files({flags.data_dir + file}, csv);
  };
  const auto ids = resolve(columns);
  const auto training = [&] {
    return rows("/train.csv").shuffle(1000).repeat(flags.epochs).global_batch(32).map(ids);
  };
  const auto testing = [&] { return rows("/eval.csv").batch(256).map(ids); };

  Estimator saved = LinearClassifier(
      {.feature_columns = columns},
      {.model_dir = flags.model_dir, .train_distribute = distribute::multi_worker_mirrored()});
  const auto exporter = final_exporter("titanic", serving_input_receiver(columns));
  const auto result =
      train_and_evaluate(saved, {training}, {.input_fn = testing, .exporters = {exporter}});
  if (result) print_result(*result);  // only the chief has it
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Trains a linear classifier on train.csv and eval.csv.",
                   .defaults = {.data_dir = "titanic", .model_dir = "titanic_model", .epochs = 50},
                   .uses = {"data_dir", "model_dir", "epochs"}});
}

// Predicts whether an income is above 50,000 dollars a year: a wide and deep model of the census of
// 1994, from CSV files to an export. data_dir holds adult_train.csv and adult_test.csv with the
// columns below.
//
//   muster serve census_model/export/census --name=census
//
// Expected: an accuracy of about 85 %.
#include <muster/muster.h>

using namespace muster;
using namespace muster::feature_column;

FeatureColumn number(const char* key, double mean, double deviation) {
  return numeric_column(key,
                        {.normalizer_fn = [=](const Tensor& x) { return (x - mean) / deviation; }});
}
FeatureColumn text(const char* key) { return categorical_column_with_hash_bucket(key, 200); }

void program(const Flags& flags) {
  const auto ages =
      bucketized_column(numeric_column("age"), {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});
  const auto capital_gains =
      bucketized_column(numeric_column("capital_gain"), {1, 3000, 5100, 7000, 15000});
  const auto capital_losses =
      bucketized_column(numeric_column("capital_loss"), {1, 1400, 1800, 2000, 2200});
  const auto workclass = text("workclass"), education = text("education"), sex = text("sex"),
             marital = text("marital_status"), occupation = text("occupation"),
             relationship = text("relationship"), country = text("native_country");
  const auto logarithm = [](const Tensor& x) { return x.log1p() / 8; };
  const std::vector<FeatureColumn> wide{ages,
                                        capital_gains,
                                        capital_losses,
                                        workclass,
                                        education,
                                        marital,
                                        occupation,
                                        relationship,
                                        country,
                                        crossed_column({"education", "occupation"}, 1000),
                                        crossed_column({ages, "education", "occupation"}, 5000)};
  const std::vector<FeatureColumn> deep{
      number("age", 38, 13),
      number("education_num", 10, 2.6),
      number("hours_per_week", 40, 12),
      numeric_column("capital_gain", {.normalizer_fn = logarithm}),
      numeric_column("capital_loss", {.normalizer_fn = logarithm}),
      indicator_column(sex),
      embedding_column(workclass, 4),
      embedding_column(education, 4),
      embedding_column(marital, 4),
      embedding_column(occupation, 8),
      embedding_column(relationship, 4)};

  std::vector<FeatureColumn> all = wide;
  all.insert(all.end(), deep.begin(), deep.end());
  const auto csv = data::csv_format(csv_options(all, {"income", data::CsvKind::kString}));
  const auto rows = [&](const char* file) {
    return Dataset::from_files({flags.data_dir + "/" + file}, csv);
  };
  const auto training = [&] {
    return rows("adult_train.csv")
        .shuffle(25000)
        .repeat(flags.epochs)
        .global_batch(flags.batch_size)
        .map(resolve(all))
        .prefetch();
  };
  const auto testing = [&] { return rows("adult_test.csv").batch(512).map(resolve(all)); };

  const auto strategy = distribute::multi_worker_mirrored();
  Estimator income = DNNLinearCombinedClassifier({.linear_feature_columns = wide,
                                                  .linear_optimizer = "Ftrl",
                                                  .dnn_feature_columns = deep,
                                                  .dnn_optimizer = optim::adam(),
                                                  .dnn_hidden_units = {64, 32},
                                                  .label_vocabulary = {"<=50K", ">50K"}},
                                                 {.model_dir = flags.model_dir,
                                                  .random_seed = flags.seed,
                                                  .train_distribute = strategy,
                                                  .eval_distribute = strategy});
  const auto result =
      train_and_evaluate(income, {.input_fn = training},
                         {.input_fn = testing,
                          .steps = std::nullopt,
                          .exporters = {final_exporter("census", serving_input_receiver(all))}});
  if (result) print_result(*result);  // the chief speaks for all
}

int main(int argc, char** argv) {
  return run_main(argc, argv, program,
                  {.description = "Trains a wide and deep model on the census.",
                   .examples = "Examples:\n"
                               "  census --data_dir=census\n"
                               "  muster run --workers=2 -- census --data_dir=census\n",
                   .defaults = {.data_dir = "census",
                                .model_dir = "census_model",
                                .epochs = 10,
                                .batch_size = 128},
                   .uses = {"data_dir", "model_dir", "epochs", "batch_size", "seed"}});
}

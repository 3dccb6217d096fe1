#include "benchmarks/tabular/census.h"

#include <muster/muster.h>

#include <cstdlib>
#include <vector>

#include "benchmarks/support/step_pacer_hook.h"

namespace muster::bench {
namespace {

using namespace feature_column;

FeatureColumn number(const char* key, double mean, double deviation) {
  return numeric_column(key,
                        {.normalizer_fn = [=](const Tensor& x) { return (x - mean) / deviation; }});
}
FeatureColumn text(const char* key) { return categorical_column_with_hash_bucket(key, 200); }

}  // namespace

void train_on_census(const std::string& path) {
  const auto ages =
      bucketized_column(numeric_column("age"), {18, 25, 30, 35, 40, 45, 50, 55, 60, 65});
  const auto gains =
      bucketized_column(numeric_column("capital_gain"), {1, 3000, 5100, 7000, 15000});
  const auto losses =
      bucketized_column(numeric_column("capital_loss"), {1, 1400, 1800, 2000, 2200});
  const auto workclass = text("workclass"), education = text("education"), sex = text("sex"),
             marital = text("marital_status"), occupation = text("occupation"),
             relationship = text("relationship"), country = text("native_country");
  const auto logarithm = [](const Tensor& x) { return x.log1p() / 8; };
  const std::vector<FeatureColumn> wide{ages,
                                        gains,
                                        losses,
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
  constexpr int64_t kAll = 1 << 16;
  const auto csv = data::csv_format(csv_options(all, {"income", data::CsvKind::kString}));
  const Element rows = *Dataset::from_files({path}, csv).batch(kAll).iterator()->next();
  const int64_t count = rows.rows();
  Estimator income = DNNLinearCombinedClassifier(
      {.linear_feature_columns = wide,
       .linear_optimizer = "Ftrl",
       .dnn_feature_columns = deep,
       .dnn_optimizer = "Adam",
       .dnn_hidden_units = {64, 32},
       .label_vocabulary = {"<=50K", ">50K"}},
      {.model_dir = std::getenv("BENCH_MODEL_DIR"), .random_seed = 1, .save_checkpoints_steps = 0});
  income.train(
      [&] {
        return Dataset::from_tensor_slices(rows)
            .shuffle(count)
            .repeat()
            .batch(kCensusBatch)
            .map(resolve(all))
            .prefetch();
      },
      {.hooks = {std::make_shared<StepPacerHook>()}});
}

}  // namespace muster::bench

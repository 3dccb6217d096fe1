#include "apps/train/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "apps/train/partial_dependence.h"
#include "apps/train/scores.h"
#include "muster/base/file_system.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/estimator/permutation_importance.h"
#include "muster/files/file_systems.h"
#include "muster/launch/run.h"
#include "muster/tensor/batch.h"
#include "muster/tensor/libtorch.h"

namespace muster::app {
namespace {

// More rows would add little information, and take longer.
constexpr int64_t kShuffledRows = 4000;
constexpr int64_t kRepeats = 3;
constexpr int64_t kDependenceRows = 500;
constexpr size_t kDependenceColumns = 8;
constexpr size_t kShownColumns = 40, kShownImportant = 15, kShownClasses = 12;

std::string number_text(double number) {
  return std::isnan(number) ? "-" : fmt::format("{:.4g}", number == 0 ? 0.0 : number);
}
std::string fixed_text(double number) {
  return std::isnan(number) ? "-" : fmt::format("{:.4f}", number);
}
std::string percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

std::string values_of(const PlannedColumn& column) {
  switch (column.kind) {
    case ColumnKind::kNumber:
      return fmt::format("{0:.{2}g} to {1:.{2}g}", column.least, column.most,
                         column.in_double ? 15 : 8);
    case ColumnKind::kFew:
      return fmt::format("{0} numbers, {1:.{3}g} to {2:.{3}g}", column.different, column.least,
                         column.most, column.in_double ? 15 : 8);
    case ColumnKind::kCategory:
      break;
  }
  constexpr size_t kShown = 3, kWidest = 16;
  std::vector<std::string> some;
  for (const std::string& word : column.words) {
    if (some.size() == kShown) break;
    if (!word.empty() && word.size() <= kWidest) some.push_back(word);
  }
  const bool all = some.size() == static_cast<size_t>(column.different);
  return fmt::format("{} texts{}{}{}", column.different, some.empty() ? "" : ": ", join(some, ", "),
                     all || some.empty() ? "" : ", ...");
}

const char* kind_name(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kNumber:
      return "number";
    case ColumnKind::kFew:
      return "few numbers";
    case ColumnKind::kCategory:
      return "category";
  }
  return "";
}

class Writer {
 public:
  explicit Writer(const TrainedTable& trained)
      : trained_(trained),
        plan_(trained.plan),
        folder_(join_path(trained.model_dir, "report")),
        report_(title()) {
    file_systems().make_directories(folder_).value();
  }

  Report write() {
    say_table();
    say_model();
    const Tensor predictions = trained_.model.predict(trained_.eval);
    const Truth truth{trained_.eval.labels, trained_.eval.weights};
    if (plan_.classifies()) {
      say_classes(predictions, truth);
    } else {
      say_numbers(predictions, truth);
    }
    save("held_out_predictions.csv", predictions_with_labels(predictions));
    say_importance();
    say_files();
    file_systems().write_atomically(join_path(folder_, "report.md"), report_.to_markdown()).value();
    return report_;
  }

 private:
  std::string title() const {
    return fmt::format("{}: {}", std::filesystem::path(trained_.flags.csv).filename().string(),
                       plan_.classifies() ? fmt::format("which of {} classes is '{}'?",
                                                        plan_.classes.size(), plan_.label)
                                          : fmt::format("how large is '{}'?", plan_.label));
  }

  void save(const std::string& name, const std::string& csv) {
    file_systems().write_atomically(join_path(folder_, name), csv).value();
  }
  void save(const std::string& name, const Report::Table& table) { save(name, to_csv(table)); }

  void say_table() {
    report_.section("The table");
    report_.line(fmt::format("{} rows to learn from, {} held out{}",
                             with_commas(static_cast<uint64_t>(plan_.rows)),
                             with_commas(static_cast<uint64_t>(trained_.eval.rows)),
                             trained_.flags.eval.empty() ? "" : " in " + trained_.flags.eval));
    Report::Table table{.titles = {"column", "what it is", "values", ">missing"}};
    for (const PlannedColumn& column : plan_.columns) {
      table.rows.push_back({column.name, kind_name(column.kind), values_of(column),
                            column.missing == 0 ? ""
                                                : percent(static_cast<double>(column.missing) /
                                                          static_cast<double>(plan_.rows))});
    }
    save("columns.csv", table);
    const size_t hidden = table.rows.size() > kShownColumns ? table.rows.size() - kShownColumns : 0;
    table.rows.resize(table.rows.size() - hidden);
    report_.table(std::move(table));
    if (hidden > 0) report_.line(fmt::format("... and {} more, in report/columns.csv", hidden));
    for (const LeftOut& column : plan_.left_out)
      report_.line(fmt::format("left out: '{}' {}", column.name, column.why));
    for (const std::string& note : plan_.notes) report_.line("note: " + note);
    if (trained_.eval.without_label > 0 && !trained_.flags.eval.empty()) {
      report_.line(fmt::format(
          "note: ignored {} rows of {} without a label, or with a label that no training row has",
          trained_.eval.without_label, trained_.flags.eval));
    }
    if (trained_.eval.strange > 0) {
      report_.line(fmt::format(
          "note: {} held-out values in numeric columns are not numbers and count as missing",
          trained_.eval.strange));
    }
    for (const std::string& leak : leaks_of(trained_.train, plan_)) {
      report_.line("warning: " + leak +
                   "; if it is unknown before the label is known, exclude it: --exclude");
    }
  }

  void say_model() {
    report_.section("The model");
    report_.line(trained_.model.describe());
    report_.line(trained_.training.steps > 0
                     ? fmt::format("trained to step {}", trained_.training.global_step)
                     : fmt::format("trained before, to step {}; nothing was left to do",
                                   trained_.training.global_step));
  }

  void say_metrics(const std::vector<std::pair<std::string, std::string>>& names,
                   const Metrics& model, const Metrics& baseline, const std::string& what) {
    report_.section("On the held-out rows");
    Report::Table table{.titles = {"", ">model", ">baseline"}},
        exact{.titles = {"metric", "model", "baseline"}};
    for (const auto& [name, shown] : names) {
      const auto without = baseline.find(name);
      const double known = without == baseline.end() ? std::nan("") : without->second;
      table.rows.push_back({shown, fixed_text(model.at(name)), fixed_text(known)});
      exact.rows.push_back({name, fmt::format("{}", model.at(name)), fmt::format("{}", known)});
    }
    save("metrics.csv", exact);
    report_.table(std::move(table));
    report_.line("the baseline " + what);
  }

  void say_classes(const Tensor& probabilities, const Truth& truth) {
    const auto classes = static_cast<int64_t>(plan_.classes.size());
    const Tensor shares = class_shares(trained_.train.labels, trained_.train.weights, classes);
    // Knows how frequent the classes are, and nothing of the row.
    const Metrics baseline = class_metrics(
        shares.to(kFloat32).unsqueeze(0).expand({probabilities.size(0), classes}), truth);
    const auto most = static_cast<size_t>(shares.argmax().item<int64_t>());
    std::vector<std::pair<std::string, std::string>> names{{"accuracy", "accuracy"}};
    if (classes == 2) {
      names.insert(names.end(), {{"auc", "area under the ROC curve"},
                                 {"precision", fmt::format("precision of '{}'", plan_.classes[1])},
                                 {"recall", fmt::format("recall of '{}'", plan_.classes[1])}});
    }
    names.emplace_back("log_loss", "log loss");
    say_metrics(names, class_metrics(probabilities, truth), baseline,
                fmt::format("predicts '{}' for every row, the class of {} of the training rows",
                            plan_.classes[most],
                            percent(shares[static_cast<int64_t>(most)].item<double>())));
    if (classes == 2) say_calibration(probabilities, truth);
    say_confusion(probabilities, truth);
  }

  void say_calibration(const Tensor& probabilities, const Truth& truth) {
    report_.section(fmt::format("Calibration: how often '{}' is true", plan_.classes[1]));
    Report::Table table{.titles = {"probability", ">rows", ">mean prediction", ">observed"}};
    for (const CalibrationBin& bin : calibration(probabilities, truth)) {
      table.rows.push_back({fmt::format("{:.1f} to {:.1f}", bin.from, bin.to),
                            std::to_string(bin.rows), fixed_text(bin.mean_prediction),
                            fixed_text(bin.observed)});
    }
    save("calibration.csv", table);
    report_.table(std::move(table));
  }

  void say_confusion(const Tensor& probabilities, const Truth& truth) {
    const Tensor counts = confusion(probabilities, truth.labels).contiguous();
    Report::Table table{.titles = {"class"}};
    for (const std::string& name : plan_.classes) table.titles.push_back(">said " + name);
    for (size_t i = 0; i < plan_.classes.size(); ++i) {
      table.rows.push_back({plan_.classes[i]});
      for (size_t k = 0; k < plan_.classes.size(); ++k) {
        table.rows.back().push_back(
            std::to_string(counts.data_ptr<int64_t>()[i * plan_.classes.size() + k]));
      }
    }
    save("confusion.csv", table);
    report_.section("Confusion between classes");
    if (plan_.classes.size() > kShownClasses) {
      report_.line("report/confusion.csv has the table of all classes");
    } else {
      report_.table(std::move(table));
    }
  }

  void say_numbers(const Tensor& predictions, const Truth& truth) {
    const Tensor mean = torch::full_like(predictions, plan_.label_mean);
    say_metrics(
        {{"rmse", "root of the mean squared error"},
         {"mae", "mean absolute error"},
         {"r2", "R squared"}},
        number_metrics(predictions, truth), number_metrics(mean, truth),
        fmt::format("predicts the mean of the training rows, {}", number_text(plan_.label_mean)));
    report_.section("Label minus prediction");
    Report::Table table{.titles = {"part of the rows below", ">difference"}};
    for (const auto& [q, value] : residual_quantiles(predictions, truth.labels))
      table.rows.push_back({fmt::format("{:g} %", 100 * q), number_text(value)});
    save("residuals.csv", table);
    report_.table(std::move(table));
  }

  Report::Table predictions_with_labels(const Tensor& predictions) const {
    Report::Table table = predictions_table(plan_, predictions);
    table.titles.insert(table.titles.begin(), "label");
    for (size_t row = 0; row < table.rows.size(); ++row) {
      const Tensor label = trained_.eval.labels[static_cast<int64_t>(row)];
      table.rows[row].insert(table.rows[row].begin(),
                             plan_.classifies()
                                 ? plan_.classes[static_cast<size_t>(label.item<int64_t>())]
                                 : fmt::format("{}", label.item<float>()));
    }
    return table;
  }

  // The rows of a data set, as they were in a table.
  EncodedTable table_of(const InputFn& input) const {
    EncodedTable table;
    std::map<std::string, std::vector<Tensor>> parts;
    std::vector<Tensor> labels, weights;
    const auto iterator = input({}).iterator();
    while (const auto element = iterator->next()) {
      const Batch batch = to_batch(*element);
      for (const PlannedColumn& column : plan_.columns)
        parts[column.name].push_back(batch.features[column.name]);
      labels.push_back(batch.labels.tensor());
      if (!plan_.weight.empty()) weights.push_back(batch.features[plan_.weight]);
      table.rows += batch.rows();
    }
    for (const auto& [name, tensors] : parts) table.features[name] = torch::cat(tensors);
    table.labels = torch::cat(labels);
    if (!weights.empty()) table.weights = torch::cat(weights);
    return table;
  }

  void say_importance() {
    const EncodedTable rows = trained_.eval.sample(kShuffledRows);
    const char* metric = !plan_.classifies()         ? "rmse"
                         : plan_.classes.size() == 2 ? "auc"
                                                     : "accuracy";
    const auto evaluate = [&](const InputFn& input) -> EvalResult {
      const EncodedTable table = table_of(input);
      const Tensor predictions = trained_.model.predict(table);
      const Truth truth{table.labels, table.weights};
      return plan_.classifies() ? class_metrics(predictions, truth)
                                : number_metrics(predictions, truth);
    };
    // Where the held-out rows are of one class, there is no curve.
    if (std::isnan(evaluate([&] { return rows.dataset(plan_).batch(rows.rows); }).at(metric)))
      metric = "accuracy";
    std::vector<std::string> names;
    for (const PlannedColumn& column : plan_.columns) names.push_back(column.name);
    const Explanation needed = permutation_importance(
        evaluate, [&] { return rows.dataset(plan_).batch(rows.rows); },
        {.metric = metric, .columns = names, .repeats = kRepeats, .seed = trained_.flags.seed});
    save("importance.csv", needed.to_csv());
    const Explanation learned = trained_.model.explain();
    const bool trees = plan_.model == "boosted_trees";
    save(trees ? "gain.csv" : "weights.csv", learned.to_csv());

    report_.section("Most important columns");
    Report::Table table{.titles = {"column", fmt::format(">{} that is lost", metric), ">+-"}};
    if (trees) table.titles.insert(table.titles.end(), {">share of gain", ">splits"});
    for (const Explanation::Row& row : needed.rows) {
      if (table.rows.size() == kShownImportant) break;
      table.rows.push_back({row.column, fixed_text(row.numbers[0]), fixed_text(row.numbers[1])});
      if (!trees) continue;
      const auto own = std::ranges::find(learned.rows, row.column, &Explanation::Row::column);
      table.rows.back().push_back(own == learned.rows.end() ? "-" : percent(own->numbers[1]));
      table.rows.back().push_back(
          own == learned.rows.end() ? "0" : fmt::format("{:.0f}", own->numbers[2]));
    }
    report_.table(std::move(table));
    report_.line(fmt::format("how much worse the {} is when the column is shuffled among {} rows",
                             metric, with_commas(static_cast<uint64_t>(rows.rows))));
    say_dependence(needed);
    if (trees) return;
    report_.section("The largest weights of the linear part");
    Report::Table weights{.titles = {"column", "value"}};
    const bool by_class = plan_.classes.size() > 2;
    if (by_class) weights.titles.push_back("class");
    weights.titles.push_back(">weight");
    for (const Explanation::Row& row : learned.rows) {
      if (weights.rows.size() == kShownImportant) break;
      weights.rows.push_back({row.column, row.value});
      if (by_class) weights.rows.back().push_back(row.output);
      weights.rows.back().push_back(number_text(row.numbers[0]));
    }
    report_.table(std::move(weights));
  }

  // How the predictions change with the most important columns.
  void say_dependence(const Explanation& needed) {
    if (plan_.classes.size() > kShownClasses) return;  // a curve for each would show nothing
    std::vector<std::string> columns;
    for (const Explanation::Row& row : needed.rows) {
      if (columns.size() < kDependenceColumns) columns.push_back(row.column);
    }
    save("partial_dependence.csv", partial_dependence(plan_, trained_.eval.sample(kDependenceRows),
                                                      columns, [&](const EncodedTable& table) {
                                                        return trained_.model.predict(table);
                                                      }));
    report_.line(fmt::format(
        "report/partial_dependence.csv: the mean prediction for values of the first {} columns",
        columns.size()));
  }

  // The first held-out row, as a request has it.
  std::string example_request() const {
    nlohmann::ordered_json row = nlohmann::ordered_json::object();
    for (const PlannedColumn& column : plan_.columns) {
      const Tensor value = trained_.eval.features.at(column.name)[0];
      if (column.kind == ColumnKind::kCategory) {
        const auto id = static_cast<size_t>(value.item<int64_t>());
        row[column.name] = id < column.words.size() ? column.words[id] : "(other)";
        continue;
      }
      // As it was written: the shortest text of a float, or of a double.
      const std::string text = column.in_double ? fmt::format("{}", value.item<double>())
                                                : fmt::format("{}", value.item<float>());
      row[column.name] = value.isfinite().item<bool>() ? nlohmann::ordered_json::parse(text)
                                                       : nlohmann::ordered_json(nullptr);
    }
    const nlohmann::ordered_json body = {{"examples", nlohmann::ordered_json::array({row})}};
    return body.dump();
  }

  void say_files() {
    const std::string exports = join_path(trained_.model_dir, "export");
    std::string name;
    for (const char letter : std::filesystem::path(trained_.model_dir).filename().string()) {
      const bool good = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
                        letter == '-' || letter == '.';
      name += good ? letter : '_';
    }
    if (name.empty()) name = "model";
    report_.section("Files");
    report_.line(
        fmt::format("{}: the model; run the same command again to continue", trained_.model_dir));
    report_.line(folder_ + ": this report as report.md, and its tables as CSV");
    report_.line(trained_.export_path + ": the model for muster serve");
    report_.section("Next steps");
    using launch::shell_quoted;
    report_.command(fmt::format("muster serve {} --name={}", shell_quoted(exports), name));
    report_.command(fmt::format("curl -d {} http://127.0.0.1:8501/v1/models/{}:{}",
                                shell_quoted(example_request()), name,
                                plan_.classifies() ? "classify" : "regress"));
    report_.command(fmt::format("muster train --model-dir={} --predict=NEW.csv",
                                shell_quoted(trained_.model_dir)));
  }

  const TrainedTable& trained_;
  const TablePlan& plan_;
  const std::string folder_;
  Report report_;
};

}  // namespace

Report report_of(const TrainedTable& trained) { return Writer(trained).write(); }

Report::Table predictions_table(const TablePlan& plan, const Tensor& predictions) {
  Report::Table table{.titles = {"prediction"}};
  for (const std::string& name : plan.classes) table.titles.push_back("probability of " + name);
  const Tensor values = predictions.to(kFloat32).contiguous();
  const float* value = values.data_ptr<float>();
  if (!plan.classifies()) {
    for (int64_t i = 0; i < values.numel(); ++i)
      table.rows.push_back({fmt::format("{}", value[i])});
    return table;
  }
  const size_t classes = plan.classes.size();
  for (int64_t i = 0; i < values.size(0); ++i, value += classes) {
    const auto best = std::max_element(value, value + classes) - value;
    table.rows.push_back({plan.classes[static_cast<size_t>(best)]});
    for (size_t k = 0; k < classes; ++k) table.rows.back().push_back(fmt::format("{}", value[k]));
  }
  return table;
}

}  // namespace muster::app

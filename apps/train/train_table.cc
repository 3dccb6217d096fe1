#include "apps/train/train_table.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "apps/muster/board_report.h"
#include "apps/train/encoded_table.h"
#include "apps/train/table_model.h"
#include "apps/train/table_plan.h"
#include "apps/train/train_report.h"
#include "muster/base/error.h"
#include "muster/base/file_system.h"
#include "muster/base/json.h"
#include "muster/base/log.h"
#include "muster/base/same_file.h"
#include "muster/base/strings.h"
#include "muster/checkpoint/manager.h"
#include "muster/distribute/strategy.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"

namespace muster::app {
namespace {

constexpr const char* kPlanFile = "table.json";

TableFormat format_of(const TrainFlags& flags) {
  return {.delimiter = flags.delimiter == "auto"  ? '\0'
                       : flags.delimiter == "tab" ? '\t'
                                                  : flags.delimiter.front(),
          .header = flags.header,
          .quotes = flags.quotes};
}

RunConfig config_of(const TrainFlags& flags, const std::string& model_dir) {
  return {.model_dir = model_dir,
          .random_seed = flags.seed,
          .keep_checkpoint_max = 2,
          .train_distribute = distribute::strategy_by_name(flags.strategy)};
}

std::optional<TablePlan> plan_in(const std::string& model_dir) {
  const std::string path = join_path(model_dir, kPlanFile);
  const Result<std::string> text = file_systems().read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) return std::nullopt;
  return plan_from_json(text.value(), path);
}

// A model continues with the rows, columns and numbers that it began with, or not at all.
void check_same(const TablePlan& before, const TablePlan& now, const std::string& model_dir) {
  if (before == now) return;
  const nlohmann::json old_one = to_json(before), new_one = to_json(now);
  std::vector<std::string> differ;
  for (const auto& [key, value] : new_one.items()) {
    if (old_one.at(key) == value) continue;
    const bool is_short = value.is_string() || value.is_number();
    differ.push_back(
        is_short ? fmt::format("{} is {}, and was {}", key, value.dump(), old_one.at(key).dump())
                 : fmt::format("other {}", key));
  }
  throw invalid_argument(fmt::format("{} holds a model of another table, or of other flags: {}",
                                     model_dir, join(differ, "; ")),
                         "give another --model-dir, or remove the folder");
}

// The newest export, where it is of that step; else a new one.
std::string exported(TableModel& model, const std::string& model_dir) {
  const std::string folder = join_path(model_dir, "export");
  if (const auto newest = newest_version(folder)) {
    const std::string path = join_path(folder, std::to_string(*newest));
    if (Servable(path).global_step() == model.global_step()) return path;
  }
  return model.export_model(folder);
}

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return;
  throw from_errno(errno, "cannot write to standard output", "the files are written nevertheless");
}

void predict(const TrainFlags& flags, const std::string& model_dir) {
  const std::optional<TablePlan> plan = plan_in(model_dir);
  if (!plan) {
    throw not_found(model_dir + " holds no model of a table",
                    "train one there first: muster train FILE.csv --label=COLUMN");
  }
  const std::string path = flags.out.empty() ? join_path(model_dir, "predictions.csv") : flags.out;
  if (is_same_file(flags.predict, path)) {
    throw invalid_argument(fmt::format("--out: {} is the table with the rows to predict", path),
                           "name another file: the predictions would take its place");
  }
  const EncodedTable rows = encode_file(flags.predict, format_of(flags), *plan, false);
  if (rows.strange > 0) {
    log::warning(fmt::format("{} values in numeric columns are not numbers and count as missing",
                             rows.strange));
  }
  const auto model = make_table_model(*plan, {}, config_of(flags, model_dir));
  file_systems()
      .write_atomically(path, to_csv(predictions_table(*plan, model->predict(rows))))
      .value();
  print(fmt::format("{} rows of {}: {}\n", rows.rows, flags.predict, path));
}

}  // namespace

void train_table(const TrainFlags& flags) {
  check_flags(flags);
  const std::string model_dir = model_dir_of(flags);
  if (!flags.predict.empty()) return predict(flags, model_dir);

  if (is_same_file(flags.csv, flags.eval)) {
    throw invalid_argument(
        fmt::format("--eval: {} is the table that is learned from", flags.eval),
        "omit it, and one row of five is held out; or name a file of other rows");
  }
  if (!flags.report.empty()) check_board_report(flags.report);
  const TableFormat format = format_of(flags);
  const HeldOut held = held_out(flags.eval.empty() ? flags.eval_fraction : 0, flags.seed);
  TablePlan plan = plan_table(flags, format, held);
  EncodedSplit split = encode_split(flags.csv, format, plan, held);
  if (!flags.eval.empty()) split.eval = encode_file(flags.eval, format, plan, true);
  if (split.eval.rows == 0) {
    throw invalid_argument(
        flags.eval.empty() ? "no row was held out" : flags.eval + " has no rows with a label",
        flags.eval.empty() ? "give a larger --eval-fraction" : "give rows to measure the model on");
  }
  add_statistics(split.train, plan);

  // Files of a run that ended before it learned anything are ignored.
  const bool learned = CheckpointManager(model_dir).latest().has_value();
  const std::optional<TablePlan> before = learned ? plan_in(model_dir) : std::nullopt;
  if (learned && !before) {
    throw invalid_argument(model_dir + " holds a model that muster train did not make",
                           "give another --model-dir");
  }
  if (before) check_same(*before, plan, model_dir);
  const auto model = make_table_model(plan, {.trees = flags.trees, .epochs = flags.epochs},
                                      config_of(flags, model_dir));
  if (!before && model->is_chief()) {
    file_systems().make_directories(model_dir).value();
    file_systems()
        .write_atomically(join_path(model_dir, kPlanFile), to_json(plan).dump(1) + "\n")
        .value();
  }
  const TrainResult training = model->train(split.train);
  if (!model->is_chief()) return;  // it speaks for all
  const Report report = report_of({.flags = flags,
                                   .plan = plan,
                                   .train = split.train,
                                   .eval = split.eval,
                                   .model = *model,
                                   .training = training,
                                   .model_dir = model_dir,
                                   .export_path = exported(*model, model_dir)});
  print(report.to_text());
  if (!flags.report.empty()) write_board_report(model_dir, flags.report);
}

}  // namespace muster::app

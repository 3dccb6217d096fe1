// The models that `muster train` makes of a table, under one interface. Thread safety: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "apps/train/encoded_table.h"
#include "apps/train/table_plan.h"
#include "muster/estimator/explanation.h"
#include "muster/estimator/run_config.h"
#include "muster/export/serving_input_receiver.h"
#include "muster/train/results.h"

namespace muster::app {

class TableModel {
 public:
  virtual ~TableModel() = default;

  // "boosted trees: 300 trees of at most 6 questions"
  virtual std::string describe() const = 0;
  // Continues from the newest checkpoint to the end; does nothing if the end is reached. Throws the
  // errors of Estimator::train(): Cancelled, after saving, if the process is asked to stop.
  virtual TrainResult train(const EncodedTable& table) = 0;
  // float32 [rows, classes] of probabilities, or [rows] of numbers. Throws NotFound without a
  // checkpoint.
  virtual Tensor predict(const EncodedTable& table) = 0;
  // The learned gains of trees, or weights of a linear part.
  virtual Explanation explain() = 0;
  // Writes a version into the folder, and returns its path.
  virtual std::string export_model(const std::string& export_dir) = 0;
  virtual bool is_chief() const = 0;
  // The step of the newest checkpoint; 0 without one.
  virtual int64_t global_step() const = 0;
};

// How much is trained; unset is chosen by the number of rows.
struct TableModelOptions {
  std::optional<int64_t> trees{};
  std::optional<int64_t> epochs{};
};

// Makes the model of the plan, which has its statistics.
std::unique_ptr<TableModel> make_table_model(const TablePlan& plan,
                                             const TableModelOptions& options,
                                             const RunConfig& config);

// The features as a request has them: numbers, null where they are missing, and texts.
ServingInputReceiver receiver_of(const TablePlan& plan);

}  // namespace muster::app

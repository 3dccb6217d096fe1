// The report of `muster train`. Thread safety: pure functions, except for the files they write.
#pragma once

#include <string>

#include "apps/train/encoded_table.h"
#include "apps/train/report.h"
#include "apps/train/table_model.h"
#include "apps/train/table_plan.h"
#include "apps/train/train_flags.h"
#include "muster/train/results.h"

namespace muster::app {

// The subject of the report.
struct TrainedTable {
  const TrainFlags& flags;
  const TablePlan& plan;
  const EncodedTable& train;
  const EncodedTable& eval;  // with one row at least
  TableModel& model;
  TrainResult training{};
  std::string model_dir{};
  std::string export_path{};
};

// Measures the model on the rows that were held out, shuffles columns, writes report.md and CSV
// files into the model's directory under report/, and returns the report.
Report report_of(const TrainedTable& trained);

// "prediction", and of classes the "probability of ..." each.
Report::Table predictions_table(const TablePlan& plan, const Tensor& predictions);

}  // namespace muster::app

// The plan for a table: which columns are numbers and which are categories, which are left out,
// which is predicted. It is made once, from the training rows, and kept with the model. Thread
// safety: values and pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/train/missing_words.h"
#include "apps/train/table_file.h"
#include "apps/train/train_flags.h"
#include "muster/formats/written_number.h"

namespace muster::app {

enum class ColumnKind {
  kNumber,    // unchanged
  kFew,       // whole numbers of which there are few: numbers, and categories too
  kCategory,  // texts
};

// A column that the model is given.
struct PlannedColumn {
  std::string name{};
  ColumnKind kind = ColumnKind::kNumber;
  int64_t missing = 0;    // rows without a value, or with one that is no number
  int64_t different = 0;  // values; of numbers that are not few, 0
  double least = 0, most = 0;
  std::vector<std::string> words = {};  // kCategory: by id; other texts have the id words.size()
  std::vector<double> steps = {};       // kFew: the numbers, ascending
  formats::NumberFormat format = {};    // of numbers
  bool in_double = false;               // float32 does not distinguish the numbers
  // Statistics of a column of numbers, by add_statistics().
  double mean = 0, deviation = 1;
  std::vector<double> boundaries = {};  // of buckets that hold as many rows each
  bool operator==(const PlannedColumn&) const = default;
};

// A column that it is not given, and why.
struct LeftOut {
  std::string name{};
  std::string why{};
  bool operator==(const LeftOut&) const = default;
};

struct TablePlan {
  std::string label{};
  std::vector<std::string> classes = {};  // of a label that is a class; empty: it is a number
  bool label_is_number = false;           // how texts are compared with the classes
  std::string weight = {};
  std::string model = {};  // "boosted_trees", "wide_and_deep" or "linear"
  formats::NumberFormat label_format = {}, weight_format = {};
  // --missing; unset: the rule of MissingWords.
  std::optional<std::vector<std::string>> missing = std::nullopt;
  double label_mean = 0, label_deviation = 1;  // of a label that is a number
  std::vector<PlannedColumn> columns = {};
  std::vector<LeftOut> left_out = {};
  int64_t rows = 0;           // that are learned from
  int64_t without_label = 0;  // of the file
  std::vector<std::string> notes = {};

  bool classifies() const { return !classes.empty(); }
  bool operator==(const TablePlan&) const = default;
};

// Whether a row lacks the label: a word that may mean a missing value is a label if it is a class
// of the plan.
bool is_without_label(const TablePlan& plan, const MissingWords& missing, std::string_view text);

// Which rows of a file are held out.
using HeldOut = std::function<bool(int64_t row)>;

// Selects the part `fraction` of all rows, by a number that is drawn for each of them: a row stays
// where it is when others are added after it. With `fraction` = 0 no row is selected.
HeldOut held_out(double fraction, uint64_t seed);

// Reads the file twice: for its labels, and then all of it, except for the rows that are held out.
// Throws NotFound for a missing file; InvalidArgument for columns that the flags name and the table
// does not have (with the nearest name), a label of one value, a number of classes that is too
// large, a task that the label does not fit, a --positive that is no class, too few rows, and a
// table without a column that can be learned from; Corrupt for a damaged row.
TablePlan plan_table(const TrainFlags& flags, const TableFormat& format, const HeldOut& held_out);

nlohmann::json to_json(const TablePlan& plan);
// Throws Corrupt for text that to_json() did not make. `where` names the file.
TablePlan plan_from_json(const std::string& text, const std::string& where);

}  // namespace muster::app

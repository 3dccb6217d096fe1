// What is made of a table: which columns are numbers and which are categories, what is left out,
// what is predicted. It is found out once, from the rows that are learned from, and kept next to
// the model. Thread safety: values and pure functions.
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
  kNumber,    // as it is
  kFew,       // whole numbers of which there are few: numbers, and categories too
  kCategory,  // texts
};

// A column that the model is given.
struct PlannedColumn {
  std::string name{};
  ColumnKind kind = ColumnKind::kNumber;
  int64_t missing = 0;    // rows without a value, or one that is not a number
  int64_t different = 0;  // values; of numbers that are not few, 0
  double least = 0, most = 0;
  std::vector<std::string> words = {};  // kCategory: by id; others have the id words.size()
  std::vector<double> steps = {};       // kFew: the numbers, ascending
  formats::NumberFormat format = {};    // of numbers
  bool in_double = false;               // float32 does not tell the numbers apart
  // Of numbers, by add_statistics().
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

// Whether a row lacks the label: a word that may stand for a missing value is a label where it is a
// class of the plan.
bool is_without_label(const TablePlan& plan, const MissingWords& missing, std::string_view text);

// Which rows of a file are held out.
using HeldOut = std::function<bool(int64_t row)>;

// The part `fraction` of all rows, by a number that is drawn for each of them: a row stays where it
// is when others are added after it. With `fraction` = 0 none is.
HeldOut held_out(double fraction, uint64_t seed);

// Reads the file twice, for its labels and then all of it, except for the rows that are held out.
// Throws NotFound for a file that is not there; InvalidArgument for columns that the flags name and
// the table has not (with the nearest name), a label of one value, a number of classes that is too
// large, a task that the label does not fit, a --positive that is not a class, too few rows, and a
// table without a column that can be learned from; Corrupt for a damaged row.
TablePlan plan_table(const TrainFlags& flags, const TableFormat& format, const HeldOut& held_out);

nlohmann::json to_json(const TablePlan& plan);
// Throws Corrupt for what to_json() did not make. `where` names the file.
TablePlan plan_from_json(const std::string& text, const std::string& where);

}  // namespace muster::app

#include "apps/train/table_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "apps/train/column_profile.h"
#include "apps/train/decimals.h"
#include "apps/train/table_notes.h"
#include "muster/base/error.h"
#include "muster/base/json.h"
#include "muster/base/printable.h"
#include "muster/base/random.h"
#include "muster/base/strings.h"
#include "muster/base/unknown_name.h"

namespace muster::app {
namespace {

// A split of a tree asks for one of 255 categories; one is for all other texts.
constexpr size_t kMostWords = 254;
constexpr int64_t kMostClasses = 100;
// Whole numbers: fewer are classes (of a label), or categories too (of a column).
constexpr int64_t kFewClasses = 20, kFewNumbers = 12;
constexpr int64_t kLeastRows = 10;
constexpr int kFormatVersion = 2;  // of table.json
// With less rows nothing is said of what is in each of them once.
constexpr int64_t kRowsToJudge = 20;

// The columns of a list with commas; a column that is called so is one.
std::vector<std::string> columns_of(const TableFile& file, const std::string& list) {
  if (file.find(list)) return {list};
  std::vector<std::string> words;
  for (const std::string& word : split(list, ',')) {
    if (const auto name = trim(word); !name.empty()) words.emplace_back(name);
  }
  return words;
}

bool names_identifier(const std::string& name) {
  const std::string small = to_lower(name);
  for (const char* word : {"id", "uuid", "guid", "index", "key", "rowid", "row"}) {
    if (small == word) return true;
  }
  return small.ends_with("_id") || small.ends_with(" id") || small.ends_with("-id") ||
         name.ends_with("Id") || small.starts_with("unnamed") || name.starts_with("(column ");
}

// Why a column is left out; "" for one that is not.
std::string reason_to_leave_out(const std::string& name, const ColumnProfile& profile) {
  if (profile.values() == 0) return "has no values";
  if (profile.different() == 1 && profile.missing() == 0) return "has one value in all rows";
  const bool judged = profile.values() >= kRowsToJudge;
  if (profile.is_numeric()) {
    if (!judged || !profile.unique() || !profile.all_whole()) return "";
    const double span = profile.most() - profile.least() + 1;
    const bool numbered = static_cast<double>(profile.values()) >= 0.5 * span;
    return numbered || names_identifier(name) ? "identifies a row: each has another one" : "";
  }
  if (profile.are_dates()) return "holds dates; make numbers of them to learn from them";
  if (!judged) return "";
  if (profile.unique()) return "identifies a row: each has another one";
  if (profile.are_many() || profile.different() * 2 > profile.values())
    return fmt::format("has {} different texts in {} rows", profile.different(), profile.values());
  return "";
}

PlannedColumn planned(const std::string& name, const ColumnProfile& profile) {
  PlannedColumn column{.name = name, .missing = profile.missing()};
  if (profile.is_numeric()) {
    column.format = profile.format();
    column.in_double = !profile.fits_float();
    column.missing += profile.not_numbers();
    column.least = profile.least();
    column.most = profile.most();
    if (profile.all_whole() && profile.different() <= kFewNumbers + profile.not_numbers()) {
      for (const auto& [number, text] : profile.numbers()) column.steps.push_back(number);
    }
    if (!column.steps.empty() && static_cast<int64_t>(column.steps.size()) <= kFewNumbers) {
      column.kind = ColumnKind::kFew;
      column.different = static_cast<int64_t>(column.steps.size());
    } else {
      column.steps.clear();
    }
    return column;
  }
  column.kind = ColumnKind::kCategory;
  column.different = profile.different();
  // A missing value is a category like others.
  std::vector<std::pair<std::string, int64_t>> texts = profile.texts();
  if (profile.missing() > 0) {
    texts.emplace_back("", profile.missing());
    std::ranges::stable_sort(texts, std::ranges::greater(),
                             &std::pair<std::string, int64_t>::second);
  }
  // Of what is there once nothing is learned.
  const bool rare = static_cast<int64_t>(texts.size()) > profile.rows() / 20;
  for (const auto& [text, count] : texts) {
    if (column.words.size() == kMostWords || (rare && count == 1)) break;
    column.words.push_back(text);
  }
  if (column.words.empty()) column.words.push_back(texts.front().first);
  return column;
}

// What is kept next to the model, and told to its clients, is UTF-8.
void check_utf8(const std::string& column, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    if (is_utf8(text)) continue;
    throw invalid_argument(fmt::format("the column '{}' holds a text that is not UTF-8: '{}'",
                                       column, printable_beginning(text)),
                           "save the file as UTF-8, or leave the column out: --exclude");
  }
}

// Reads the classes, in their order: numbers ascend, texts are sorted.
std::vector<std::string> classes_of(const ColumnProfile& label) {
  std::vector<std::string> classes;
  if (label.is_numeric()) {
    for (const auto& [number, text] : label.numbers()) classes.push_back(text);
  } else {
    for (const auto& [text, count] : label.texts()) classes.push_back(text);
    std::ranges::sort(classes);
  }
  return classes;
}

bool is_class(const ColumnProfile& label, const TrainFlags& flags) {
  if (flags.task == "classification") return true;
  if (!label.is_numeric()) {
    if (flags.task != "regression") return true;
    throw invalid_argument(
        fmt::format("the label '{}' holds texts, such as '{}'; --task=regression needs numbers",
                    printable(flags.label), printable_beginning(label.texts().front().first)),
        "leave --task out, or name another label");
  }
  if (flags.task == "regression") return false;
  return label.all_whole() && label.different() <= kFewClasses &&
         label.different() * 5 <= label.values();
}

void check_classes(const ColumnProfile& label, const TrainFlags& flags) {
  if (label.different() <= kMostClasses && !label.are_many()) return;
  throw invalid_argument(
      fmt::format("the label '{}' has {}{} different values; at most {} classes are supported",
                  printable(flags.label), label.are_many() ? "more than " : "", label.different(),
                  kMostClasses),
      label.is_numeric() ? "predict the number itself: --task=regression"
                         : "name another column with --label, or join rare classes");
}

void put_positive_last(const std::string& positive, std::vector<std::string>& classes) {
  if (positive.empty()) return;
  if (classes.size() != 2) {
    throw invalid_argument(
        classes.empty()
            ? "--positive is given, and the label is a number"
            : fmt::format("--positive is given, and there are {} classes", classes.size()),
        "it chooses one of two classes; omit it");
  }
  const auto found = std::ranges::find(classes, positive);
  if (found == classes.end())
    throw unknown_name("the label", "class", positive, classes, "write it as the table does");
  std::iter_swap(found, classes.begin() + 1);
}

void require_column(const TableFile& file, const char* flag, const std::string& name) {
  if (file.find(name)) return;
  const bool comment = !file.names().empty() && file.names().front().starts_with('#');
  const Error unknown = unknown_name(
      file.path(), "column", name, file.names(),
      comment ? "the first line is a comment; delete the lines before the names of the columns"
              : "write the name as the first row of the file does");
  throw Error(unknown.kind(), fmt::format("--{}: {}", flag, unknown.message()), unknown.hint());
}

// Looks at the rows.
struct Scan {
  std::vector<ColumnProfile> profiles;
  int64_t rows = 0, without_label = 0, without_weight = 0;
  std::map<std::string, int64_t> no_labels = {};  // what stands where the label is missing

  // `has_label` is asked of the label's text.
  Scan(TableFile& file, size_t label, std::optional<size_t> weight, const MissingWords& missing,
       const HeldOut& held_out, const std::function<bool(std::string_view)>& has_label,
       bool label_alone) {
    profiles.resize(file.names().size());
    while (file.next()) {
      if (!has_label(file.field(label))) {
        ++without_label;
        if (!file.field(label).empty()) ++no_labels[std::string(file.field(label))];
        continue;
      }
      if (weight && missing.of(file.field(*weight)) != Missing::kNo) {
        ++without_weight;
        continue;
      }
      if (held_out(file.row())) continue;
      ++rows;
      for (size_t i = 0; i < profiles.size(); ++i) {
        if (label_alone && i != label && i != weight) continue;
        profiles[i].add(file.field(i), missing.of(file.field(i)));
      }
    }
  }
};

// Of a label that is texts: the words that stand for a missing one elsewhere and are too rare to be
// classes. As frequent as the rarest of the others, or one in 20, they are classes.
std::set<std::string> words_that_are_no_classes(const ColumnProfile& label) {
  std::set<std::string> rare;
  if (label.is_numeric() || label.words().empty()) return rare;
  int64_t others = 0, rarest = label.rows();
  for (const auto& [text, count] : label.texts()) {
    if (label.words().contains(text)) continue;
    ++others;
    rarest = std::min(rarest, count);
  }
  if (others < 2) return rare;
  for (const auto& [word, count] : label.words()) {
    if (count < rarest && count * 20 < label.values()) rare.insert(word);
  }
  return rare;
}

// ": 'nan' in 12, taken for missing; ..."; "" where all fields without a label are empty.
std::string what_stands_there(const std::map<std::string, int64_t>& no_labels) {
  if (no_labels.empty()) return "";
  std::vector<std::string> words;
  for (const auto& [word, count] : no_labels)
    words.push_back(fmt::format("'{}' in {}", printable(word), count));
  return fmt::format(": {}, which count as missing; with --missing=empty they are ordinary words",
                     join(words, ", "));
}

void check_rows(const TableFile& file, const Scan& scan, const std::string& label) {
  if (scan.rows + scan.without_label + scan.without_weight == 0) {
    throw invalid_argument(file.path() + " has no rows", "a table has rows after its first line");
  }
  if (scan.rows < kLeastRows) {
    throw invalid_argument(
        fmt::format("{} has {} row{} with the label '{}' to learn from; at least {} are needed",
                    file.path(), scan.rows, scan.rows == 1 ? "" : "s", printable(label),
                    kLeastRows),
        scan.without_label > 0 ? fmt::format("{} rows lack the label{}", scan.without_label,
                                             what_stands_there(scan.no_labels))
                               : "give a larger table, or a smaller --eval-fraction");
  }
}

}  // namespace

bool is_without_label(const TablePlan& plan, const MissingWords& missing, std::string_view text) {
  const Missing is = missing.of(text);
  return is == Missing::kYes ||
         (is == Missing::kWord && std::ranges::find(plan.classes, text) == plan.classes.end());
}

HeldOut held_out(double fraction, uint64_t seed) {
  if (fraction <= 0) return [](int64_t) { return false; };
  return [key = derive_key(seed, {id_of("held_out")}), fraction](int64_t row) {
    return Random(key.derive(static_cast<uint64_t>(row))).uniform() < fraction;
  };
}

TablePlan plan_table(const TrainFlags& flags, const TableFormat& format, const HeldOut& held_out) {
  TableFile file(flags.csv, format);
  require_column(file, "label", flags.label);
  const std::vector<std::string> excluded = columns_of(file, flags.exclude);
  for (const std::string& name : excluded) {
    require_column(file, "exclude", name);
    if (name == flags.label) {
      throw invalid_argument("--exclude and --label name the same column, '" + name + "'",
                             "the model never learns from the label: remove it from --exclude");
    }
  }
  if (!flags.weight.empty()) require_column(file, "weight", flags.weight);
  if (flags.weight == flags.label) {
    throw invalid_argument("--weight and --label name the same column",
                           "a weight says how much a row counts");
  }
  const size_t label = *file.find(flags.label);
  const auto weight = flags.weight.empty() ? std::nullopt : file.find(flags.weight);
  const MissingWords missing(missing_words_of(flags.missing));
  Decimals decimals(flags.decimal, file.delimiter());
  // First the labels, which say what is a row.
  Scan first(
      file, label, weight, missing, held_out,
      [&](std::string_view text) { return missing.of(text) != Missing::kYes; }, true);
  decimals.look_at(first.profiles[label]);
  decimals.settle(first.profiles[label]);
  const std::set<std::string> no_classes = words_that_are_no_classes(first.profiles[label]);
  const bool numbers = first.profiles[label].is_numeric();
  TableFile again(flags.csv, format);
  Scan scan(
      again, label, weight, missing, held_out,
      [&](std::string_view text) {
        const Missing is = missing.of(text);
        return is == Missing::kNo ||
               (is == Missing::kWord && !numbers && !no_classes.contains(std::string(text)));
      },
      false);
  check_rows(file, scan, flags.label);
  for (const ColumnProfile& profile : scan.profiles) decimals.look_at(profile);
  for (ColumnProfile& profile : scan.profiles) decimals.settle(profile);
  const ColumnProfile& labels = scan.profiles[label];
  TablePlan plan{.label = flags.label,
                 .label_is_number = labels.is_numeric(),
                 .weight = flags.weight,
                 .model = flags.model == "auto" ? "boosted_trees" : flags.model,
                 .label_format = labels.format(),
                 .missing = missing_words_of(flags.missing),
                 .rows = scan.rows,
                 .without_label = scan.without_label};
  if (weight) plan.weight_format = scan.profiles[*weight].format();
  if (labels.different() == 1) {
    throw invalid_argument(
        fmt::format("the label '{}' is '{}' in all {} rows", printable(flags.label),
                    printable_beginning(labels.texts().front().first), scan.rows),
        "there is nothing to predict; name another column with --label" +
            (scan.no_labels.empty() ? ""
                                    : "; rows without it" + what_stands_there(scan.no_labels)));
  }
  if (is_class(labels, flags)) {
    check_classes(labels, flags);
    plan.classes = classes_of(labels);
    check_utf8(plan.label, plan.classes);
  }
  put_positive_last(flags.positive, plan.classes);
  if (scan.without_label > 0)
    plan.notes.push_back(fmt::format("ignored {} rows without '{}'{}", scan.without_label,
                                     plan.label, what_stands_there(scan.no_labels)));
  if (scan.without_weight > 0)
    plan.notes.push_back(
        fmt::format("ignored {} rows without '{}'", scan.without_weight, plan.weight));
  TableNotes notes(decimals);
  notes.look_at_label(plan.label, first.profiles[label], no_classes);
  notes.look_at_spellings(plan.label, first.profiles[label]);
  notes.look_at_numbers(plan.label, labels);
  if (!plan.classifies()) notes.look_at_target(plan.label, labels);
  for (size_t i = 0; i < file.names().size(); ++i) {
    const std::string& name = file.names()[i];
    const ColumnProfile& profile = scan.profiles[i];
    if (i == label || (weight && i == *weight)) continue;
    const bool is_excluded = std::ranges::find(excluded, name) != excluded.end();
    const std::string why =
        is_excluded ? "is excluded by --exclude" : reason_to_leave_out(name, profile);
    if (!is_excluded) notes.look_at_texts(name, profile);
    if (!why.empty()) {
      plan.left_out.push_back({name, why});
      continue;
    }
    if (profile.is_numeric() && profile.not_numbers() > 0) {
      plan.notes.push_back(fmt::format("'{}': fields that are not numbers count as missing: {}",
                                       name, profile.not_numbers()));
    }
    notes.look_at(name, profile);
    notes.look_at_spellings(name, profile);
    plan.columns.push_back(planned(name, profile));
    check_utf8(name, plan.columns.back().words);
  }
  if (weight) notes.look_at_numbers(plan.weight, scan.profiles[*weight]);
  for (const std::string& note : notes.all()) plan.notes.push_back(note);
  if (plan.columns.empty()) {
    std::vector<std::string> reasons;
    for (const LeftOut& column : plan.left_out) reasons.push_back(column.name + " " + column.why);
    throw invalid_argument(
        fmt::format("{} has no column to learn '{}' from", file.path(), printable(plan.label)),
        join(reasons, "; "));
  }
  return plan;
}

namespace {

nlohmann::json to_json(const formats::NumberFormat& format) {
  return {{"decimal_comma", format.decimal_comma}, {"unit", format.unit}};
}
formats::NumberFormat format_from(const nlohmann::json& json) {
  return {json.at("decimal_comma").get<bool>(), json.at("unit").get<std::string>()};
}

}  // namespace

nlohmann::json to_json(const TablePlan& plan) {
  nlohmann::json columns = nlohmann::json::array(), left_out = nlohmann::json::array();
  for (const PlannedColumn& column : plan.columns) {
    columns.push_back({{"name", column.name},
                       {"kind", static_cast<int>(column.kind)},
                       {"missing", column.missing},
                       {"different", column.different},
                       {"least", column.least},
                       {"most", column.most},
                       {"words", column.words},
                       {"mean", column.mean},
                       {"deviation", column.deviation},
                       {"boundaries", column.boundaries},
                       {"steps", column.steps},
                       {"format", to_json(column.format)},
                       {"in_double", column.in_double}});
  }
  for (const LeftOut& column : plan.left_out)
    left_out.push_back({{"name", column.name}, {"why", column.why}});
  return {{"format_version", kFormatVersion},
          {"label", plan.label},
          {"classes", plan.classes},
          {"label_is_number", plan.label_is_number},
          {"weight", plan.weight},
          {"model", plan.model},
          {"label_format", to_json(plan.label_format)},
          {"weight_format", to_json(plan.weight_format)},
          {"missing", plan.missing ? nlohmann::json(*plan.missing) : nlohmann::json(nullptr)},
          {"label_mean", plan.label_mean},
          {"label_deviation", plan.label_deviation},
          {"columns", columns},
          {"left_out", left_out},
          {"rows", plan.rows},
          {"without_label", plan.without_label},
          {"notes", plan.notes}};
}

TablePlan plan_from_json(const std::string& text, const std::string& where) {
  const nlohmann::json all = parse_json(text, where, ErrorKind::kCorrupt).value();
  try {
    if (all.at("format_version") != kFormatVersion) {
      throw corrupt(where + " is of another version of muster train",
                    "train again in another --model-dir");
    }
    TablePlan plan{.label = all.at("label").get<std::string>(),
                   .classes = all.at("classes").get<std::vector<std::string>>(),
                   .label_is_number = all.at("label_is_number").get<bool>(),
                   .weight = all.at("weight").get<std::string>(),
                   .model = all.at("model").get<std::string>(),
                   .label_format = format_from(all.at("label_format")),
                   .weight_format = format_from(all.at("weight_format")),
                   .label_mean = all.at("label_mean").get<double>(),
                   .label_deviation = all.at("label_deviation").get<double>(),
                   .rows = all.at("rows").get<int64_t>(),
                   .without_label = all.at("without_label").get<int64_t>(),
                   .notes = all.at("notes").get<std::vector<std::string>>()};
    if (!all.at("missing").is_null())
      plan.missing = all.at("missing").get<std::vector<std::string>>();
    for (const auto& fields : all.at("columns")) {
      const int kind = fields.at("kind").get<int>();
      if (kind < 0 || kind > static_cast<int>(ColumnKind::kCategory))
        throw corrupt(fmt::format("{} has a column of the kind {}", where, kind));
      plan.columns.push_back({.name = fields.at("name").get<std::string>(),
                              .kind = static_cast<ColumnKind>(kind),
                              .missing = fields.at("missing").get<int64_t>(),
                              .different = fields.at("different").get<int64_t>(),
                              .least = fields.at("least").get<double>(),
                              .most = fields.at("most").get<double>(),
                              .words = fields.at("words").get<std::vector<std::string>>(),
                              .steps = fields.at("steps").get<std::vector<double>>(),
                              .format = format_from(fields.at("format")),
                              .in_double = fields.at("in_double").get<bool>(),
                              .mean = fields.at("mean").get<double>(),
                              .deviation = fields.at("deviation").get<double>(),
                              .boundaries = fields.at("boundaries").get<std::vector<double>>()});
    }
    for (const auto& fields : all.at("left_out")) {
      plan.left_out.push_back(
          {fields.at("name").get<std::string>(), fields.at("why").get<std::string>()});
    }
    return plan;
  } catch (const nlohmann::json::exception& error) {
    throw corrupt(fmt::format("{} does not say how a table is read: {}", where, error.what()),
                  "train again in another --model-dir");
  }
}

}  // namespace muster::app

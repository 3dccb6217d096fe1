#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "apps/muster/inspect.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/formats/example.h"
#include "muster/formats/tfrecord.h"

namespace muster::app {
namespace {

using formats::Feature;
using formats::FeatureKind;
using formats::MessageKind;
using formats::SequenceExample;
using formats::TfrecordReader;

// Lists that may be long are cut to these lengths in text.
constexpr size_t kShownDamages = 5;
constexpr size_t kShownText = 48;   // bytes of a string
constexpr size_t kShownValues = 8;  // of a feature
constexpr size_t kShownSteps = 4;   // of a feature list
constexpr size_t kShownBytes = 64;  // of a record of another kind

// The least and the greatest of the numbers that were added.
struct Range {
  double least = INFINITY;
  double most = -INFINITY;
  void add(double value) {
    least = std::min(least, value);
    most = std::max(most, value);
  }
  bool empty() const { return least > most; }
};

// Statistics of one feature, or one feature list, over all records of a file.
struct Column {
  std::array<int64_t, 4> kinds{};  // how often it was of each
  int64_t records = 0;
  Range steps;    // of a list
  Range values;   // how many a feature has
  Range numbers;  // the finite ones; of bytes how long they are
};

// The columns, in the order in which they were first seen.
class Columns {
 public:
  Column& operator[](const std::string& name) {
    const auto [place, fresh] = places_.emplace(name, columns_.size());
    if (fresh) columns_.emplace_back(name, Column());
    return columns_[place->second].second;
  }
  const std::vector<std::pair<std::string, Column>>& all() const { return columns_; }

 private:
  std::vector<std::pair<std::string, Column>> columns_;
  std::unordered_map<std::string, size_t> places_;
};

struct Record {
  int64_t number = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  MessageKind kind = MessageKind::kOther;
  SequenceExample content;
  std::string head{};  // of kOther
};

struct File {
  std::string path{};
  uint64_t bytes = 0;
  formats::Compression compression = formats::Compression::kNone;
  std::array<int64_t, 3> kinds{};  // records of each MessageKind
  Range sizes{};
  double total = 0;  // bytes of all records
  Columns features{};
  Columns feature_lists{};
  std::vector<Record> shown{};
  std::vector<Error> damages{};

  int64_t records() const { return kinds[0] + kinds[1] + kinds[2]; }
};

void add(const Feature& feature, Column& column) {
  ++column.kinds[feature.index()];
  column.values.add(static_cast<double>(formats::size_of(feature)));
  const auto numbers = [&](const auto& list) {
    for (const auto value : list) {
      const auto number = static_cast<double>(value);
      if (std::isfinite(number)) column.numbers.add(number);
    }
  };
  if (const auto* texts = std::get_if<std::vector<std::string>>(&feature)) {
    for (const std::string& text : *texts) column.numbers.add(static_cast<double>(text.size()));
  } else if (const auto* floats = std::get_if<std::vector<float>>(&feature)) {
    numbers(*floats);
  } else if (const auto* integers = std::get_if<std::vector<int64_t>>(&feature)) {
    numbers(*integers);
  }
}

void add(const SequenceExample& content, File& file) {
  for (const auto& [name, feature] : content.context) {
    Column& column = file.features[name];
    ++column.records;
    add(feature, column);
  }
  for (const auto& [name, steps] : content.feature_lists) {
    Column& column = file.feature_lists[name];
    ++column.records;
    column.steps.add(static_cast<double>(steps.size()));
    for (const Feature& step : steps) add(step, column);
  }
}

File read_records(FileSystem& files, const std::string& path, TfrecordReader reader,
                  const RecordsOptions& options) {
  File file{
      .path = path, .bytes = files.file_size(path).value(), .compression = reader.compression()};
  SequenceExample content;
  Bytes payload;
  while (true) {
    const uint64_t offset = reader.offset();
    const Result<bool> more = reader.read(&payload);
    if (!more.ok()) {
      if (more.error().kind() != ErrorKind::kCorrupt) throw more.error();
      file.damages.push_back(more.error());
      continue;
    }
    if (!more.value()) return file;
    // Damaged records are counted too.
    const int64_t number = file.records() + static_cast<int64_t>(file.damages.size());
    const MessageKind kind = decode_message(payload, &content);
    ++file.kinds[static_cast<size_t>(kind)];
    file.sizes.add(static_cast<double>(payload.size()));
    file.total += static_cast<double>(payload.size());
    if (kind != MessageKind::kOther) add(content, file);
    if (number < options.skip || number - options.skip >= options.limit) continue;
    Record& record = file.shown.emplace_back(Record{number, offset, payload.size(), kind, {}, {}});
    if (kind == MessageKind::kOther) {
      record.head = text_of(payload.first(std::min(payload.size(), kShownBytes)));
    } else {
      record.content = content;
    }
  }
}

// Whether a terminal shows the text unchanged: UTF-8 without control characters.
bool is_plain(std::string_view text) { return printable(text) == text; }

// Returns text unchanged, and other bytes as "<12 bytes: ff d8 ff …>".
std::string shown(std::string_view text, std::string_view quote) {
  if (!is_plain(text)) {
    constexpr size_t kHead = 8;
    return fmt::format("<{} bytes: {}{}>", with_commas(text.size()),
                       hex_bytes(bytes_of(text.substr(0, kHead))), text.size() > kHead ? " …" : "");
  }
  if (text.size() <= kShownText) return fmt::format("{}{}{}", quote, text, quote);
  size_t kept = kShownText;
  while (kept > 0 && (static_cast<unsigned char>(text[kept]) & 0xC0) == 0x80) --kept;  // UTF-8
  return fmt::format("{}{}…{} ({} bytes)", quote, text.substr(0, kept), quote,
                     with_commas(text.size()));
}
std::string shown(const std::string& text) { return shown(text, "\""); }
std::string shown(float value) { return fmt::format("{:.6g}", value); }
std::string shown(int64_t value) { return fmt::format("{}", value); }

// Returns text such as "0.5, 1, 2, …".
std::string values_text(const Feature& feature) {
  std::vector<std::string> parts;
  std::visit(
      [&](const auto& list) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(list)>, std::monostate>) {
          for (size_t i = 0; i < std::min(list.size(), kShownValues); ++i) {
            parts.push_back(shown(list[i]));
          }
          if (list.size() > kShownValues) parts.emplace_back("…");
        }
      },
      feature);
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string steps_text(const std::vector<Feature>& steps) {
  std::string text;
  for (size_t i = 0; i < std::min(steps.size(), kShownSteps); ++i) {
    text += fmt::format("{}[{}]", i == 0 ? "" : " ", values_text(steps[i]));
  }
  return text + (steps.size() > kShownSteps ? " …" : "");
}

// Returns text such as "784" and "0 to 12"; "" when nothing was added.
std::string range_text(const Range& range) {
  if (range.empty()) return "";
  const auto number = [](double value) {
    const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
    return whole ? fmt::format("{:.0f}", value) : fmt::format("{:.6g}", value);
  };
  if (range.least == range.most) return number(range.least);
  return number(range.least) + " to " + number(range.most);
}

// Returns "float", or "float, int64" when records do not agree. Features without a kind are missing
// values.
std::string kinds_text(const Column& column) {
  std::vector<std::string> kinds;
  for (size_t i = 1; i < column.kinds.size(); ++i) {
    if (column.kinds[i] > 0) kinds.emplace_back(to_string(static_cast<FeatureKind>(i)));
  }
  return kinds.empty() ? std::string(to_string(FeatureKind::kNone)) : join(kinds, ", ");
}

std::string content_range_text(const Column& column) {
  const bool bytes = column.kinds[static_cast<size_t>(FeatureKind::kBytes)] > 0;
  const std::string text = range_text(column.numbers);
  return text.empty() || !bytes ? text : text + " bytes";
}

std::string feature_table(const Columns& columns) {
  TextTable table({"feature", "kind", ">records", ">values", "range"});
  for (const auto& [name, column] : columns.all()) {
    table.add({shown(name, ""), kinds_text(column), with_commas(column.records),
               range_text(column.values), content_range_text(column)});
  }
  return table.text("  ");
}

std::string feature_list_table(const Columns& columns) {
  TextTable table({"feature list", "kind", ">records", ">steps", ">values a step", "range"});
  for (const auto& [name, column] : columns.all()) {
    table.add({shown(name, ""), kinds_text(column), with_commas(column.records),
               range_text(column.steps), range_text(column.values), content_range_text(column)});
  }
  return table.text("  ");
}

// Returns lines of 16 bytes each, as numbers and as letters.
std::string dump(const std::string& head) {
  std::string text;
  for (size_t at = 0; at < head.size(); at += 16) {
    const std::string line = head.substr(at, 16);
    std::string letters = line;
    for (char& letter : letters) {
      if (letter < 0x20 || letter == 0x7f) letter = '.';
    }
    text += fmt::format("    {:<47}  {}\n", hex_bytes(bytes_of(line)), letters);
  }
  return text;
}

std::string record_text(const Record& record) {
  std::string text =
      fmt::format("  record {}, {} bytes\n", record.number, with_commas(record.bytes));
  if (record.kind == MessageKind::kOther) return text + dump(record.head);
  size_t width = 0;
  for (const auto& [name, feature] : record.content.context) {
    width = std::max(width, shown(name, "").size());
  }
  for (const auto& [name, steps] : record.content.feature_lists) {
    width = std::max(width, shown(name, "").size());
  }
  const auto line = [&](const std::string& name, const std::string& what,
                        const std::string& values) {
    text += fmt::format("    {:<{}}  {}{}{}\n", shown(name, ""), width, what,
                        values.empty() ? "" : ": ", values);
  };
  for (const auto& [name, feature] : record.content.context) {
    const FeatureKind kind = formats::kind_of(feature);
    line(name,
         kind == FeatureKind::kNone
             ? "no values"
             : fmt::format("{}[{}]", to_string(kind), formats::size_of(feature)),
         values_text(feature));
  }
  for (const auto& [name, steps] : record.content.feature_lists) {
    line(name, fmt::format("{} steps", steps.size()), steps_text(steps));
  }
  return text;
}

// Returns "tf.Example", "tf.SequenceExample" or "bytes", and several when a file holds several.
std::vector<std::string> kinds_of(const File& file) {
  constexpr std::array<const char*, 3> kNames = {"tf.Example", "tf.SequenceExample", "bytes"};
  std::vector<std::string> kinds;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (file.kinds[i] > 0) kinds.emplace_back(kNames[i]);
  }
  return kinds;
}

std::string file_text(const File& file) {
  std::string text = file.path + "\n";
  text += fmt::format("  {} bytes, {}\n", with_commas(file.bytes),
                      file.compression == formats::Compression::kNone
                          ? "not compressed"
                          : fmt::format("compressed as {}", to_string(file.compression)));
  text += fmt::format("  {} record{}", with_commas(static_cast<uint64_t>(file.records())),
                      file.records() == 1 ? "" : "s");
  if (file.records() > 0) {
    text +=
        fmt::format(" of {}, {} bytes each", join(kinds_of(file), " and "), range_text(file.sizes));
  }
  text += "\n";
  if (!file.features.all().empty()) text += "\n" + feature_table(file.features);
  if (!file.feature_lists.all().empty()) text += "\n" + feature_list_table(file.feature_lists);
  for (const Record& record : file.shown) text += "\n" + record_text(record);
  return text;
}

nlohmann::json value_json(int64_t value) { return value; }
nlohmann::json value_json(float value) {
  // JSON has no NaN and no infinity, and null would hide which of them it was.
  if (!std::isfinite(value)) return fmt::format("{}", value);
  return value;
}
nlohmann::json value_json(const std::string& text) {
  if (is_utf8(text)) return text;
  return {{"hex", hex_bytes(bytes_of(text))}};
}

nlohmann::json feature_json(const Feature& feature) {
  nlohmann::json values = nlohmann::json::array();
  std::visit(
      [&](const auto& list) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(list)>, std::monostate>) {
          for (const auto& value : list) values.push_back(value_json(value));
        }
      },
      feature);
  return {{"kind", to_string(formats::kind_of(feature))}, {"values", std::move(values)}};
}

std::string key_json(const std::string& name) { return is_utf8(name) ? name : shown(name, ""); }

nlohmann::json range_json(const Range& range) {
  if (range.empty()) return nullptr;
  return {{"min", range.least}, {"max", range.most}};
}

nlohmann::json columns_json(const Columns& columns, bool lists) {
  nlohmann::json result = nlohmann::json::array();
  for (const auto& [name, column] : columns.all()) {
    nlohmann::json one = {{"name", key_json(name)},
                          {"kind", kinds_text(column)},
                          {"records", column.records},
                          {"values", range_json(column.values)},
                          {"range", range_json(column.numbers)}};
    if (lists) one["steps"] = range_json(column.steps);
    result.push_back(std::move(one));
  }
  return result;
}

nlohmann::json record_json(const Record& record) {
  nlohmann::json result = {
      {"record", record.number}, {"offset", record.offset}, {"bytes", record.bytes}};
  if (record.kind == MessageKind::kOther) {
    result["head"] = hex_bytes(bytes_of(record.head));
    return result;
  }
  result["features"] = nlohmann::json::object();
  for (const auto& [name, feature] : record.content.context) {
    result["features"][key_json(name)] = feature_json(feature);
  }
  for (const auto& [name, steps] : record.content.feature_lists) {
    nlohmann::json& list = result["feature_lists"][key_json(name)] = nlohmann::json::array();
    for (const Feature& step : steps) list.push_back(feature_json(step));
  }
  return result;
}

nlohmann::json file_json(const File& file) {
  nlohmann::json shown = nlohmann::json::array();
  for (const Record& record : file.shown) shown.push_back(record_json(record));
  nlohmann::json damage = nlohmann::json::array();
  for (const Error& error : file.damages) damage.push_back(error.message());
  return {{"path", file.path},
          {"bytes", file.bytes},
          {"compression", to_string(file.compression)},
          {"records", file.records()},
          {"kinds", kinds_of(file)},
          {"record_bytes", range_json(file.sizes)},
          {"total_record_bytes", file.total},
          {"features", columns_json(file.features, false)},
          {"feature_lists", columns_json(file.feature_lists, true)},
          {"shown", std::move(shown)},
          {"damage", std::move(damage)}};
}

}  // namespace

Inspection inspect_records(FileSystem& files, const std::vector<std::string>& paths,
                           const RecordsOptions& options, bool json) {
  // All of them are opened first: a wrong name is reported before anything long begins.
  std::vector<TfrecordReader> readers;
  for (const std::string& path : paths) {
    readers.push_back(TfrecordReader::open(files, path).value());
  }
  Inspection inspection;
  nlohmann::json document = {{"files", nlohmann::json::array()}};
  std::vector<Error> damages;
  for (size_t i = 0; i < paths.size(); ++i) {
    const File file = read_records(files, paths[i], std::move(readers[i]), options);
    if (json) {
      document["files"].push_back(file_json(file));
    } else {
      inspection.text += (i > 0 ? "\n" : "") + file_text(file);
    }
    damages.insert(damages.end(), file.damages.begin(), file.damages.end());
  }
  if (json) {
    inspection.text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  if (damages.empty()) return inspection;
  std::vector<std::string> messages;
  for (size_t i = 0; i < std::min(damages.size(), kShownDamages); ++i) {
    messages.push_back(damages[i].message());
  }
  if (damages.size() > kShownDamages) {
    messages.push_back(fmt::format("and {} more", damages.size() - kShownDamages));
  }
  inspection.damage =
      corrupt(join(messages, "; "),
              damages.size() == 1 ? damages.front().hint() : "the readable content is shown");
  return inspection;
}

}  // namespace muster::app

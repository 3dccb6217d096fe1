// tf.data.experimental.CsvDataset and make_csv_dataset: tools/peers/cases/csv.py.
#include <fmt/format.h>

#include <fstream>
#include <string>
#include <vector>

#include "muster/base/temp_directory.h"
#include "muster/data/csv.h"
#include "muster/data/dataset.h"
#include "muster/tensor/libtorch.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {
namespace {

using Json = nlohmann::json;

std::string csv_text(const Value& value, int digits = 0) {
  if (value.is_strings()) return fmt::format("\"{}\"", value.strings()[0]);
  const Tensor& number = value.tensor();
  if (!number.is_floating_point()) return std::to_string(number.item<int64_t>());
  if (digits == 0) digits = number.scalar_type() == kFloat32 ? 9 : 17;
  return fmt::format("{:.{}g}", number.item<double>(), digits);
}

data::CsvColumn column_of(const Json& given) {
  const std::string kind = given.at("kind");
  data::CsvColumn column{.name = std::to_string(given.at("index").get<int64_t>())};
  for (const auto one : {data::CsvKind::kFloat32, data::CsvKind::kFloat64, data::CsvKind::kInt64,
                         data::CsvKind::kString}) {
    if (to_string(one) == kind) column.kind = one;
  }
  if (given.contains("missing")) {
    const Json& missing = given.at("missing");
    if (missing.is_string()) {
      column.missing = missing.get<std::string>();
    } else if (missing.is_number_integer()) {
      column.missing = missing.get<int64_t>();
    } else {
      column.missing = missing.get<double>();
    }
  }
  return column;
}

// CsvDataset: columns by their number, of the kinds that the program says.
data::CsvOptions listed_columns(const Json& program, data::CsvOptions options) {
  for (const Json& column : program.at("columns")) options.columns.push_back(column_of(column));
  for (int64_t i = 0; i < program.at("count"); ++i)
    options.column_names.push_back(std::to_string(i));
  return options;
}

// make_csv_dataset: columns by their names, with kinds inferred from the first rows. Missing
// numbers are 0 there unless column_defaults say otherwise.
data::CsvOptions inferred_columns(const Json& program, const std::vector<std::string>& paths,
                                  data::CsvOptions options) {
  options.missing_number = 0;
  if (program.contains("names")) options.column_names = program.at("names");
  if (program.contains("rows")) options.infer_rows = program.at("rows");
  if (program.contains("label")) options.label = program.at("label");
  for (const Json& name : program.value("select", Json::array()))
    options.select_columns.emplace_back(name.get<std::string>());
  return infer_csv(paths, options);
}

std::string row_text(const Element& row, const Json& program) {
  std::vector<std::string> parts;
  if (program.contains("columns")) {
    for (const Json& column : program.at("columns"))
      parts.push_back(csv_text(row.at(std::to_string(column.at("index").get<int64_t>())).value()));
  } else {
    const bool label = program.contains("label");
    const Element features = label ? row.part(0) : row;
    for (const std::string& name : features.structure().keys)
      parts.push_back(name + "=" + csv_text(features.at(name).value(), 6));
    if (label) parts.push_back(csv_text(row.part(1).value(), 6));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

PeerArrays run_csv(const PeerCase& a_case) {
  const Json& program = a_case.program;
  const TempDirectory folder;
  std::vector<std::string> paths;
  for (const Json& file : program.at("files")) {
    paths.push_back(folder / (std::to_string(paths.size()) + ".csv"));
    std::ofstream(paths.back(), std::ios::binary) << file.get<std::string>();
  }
  data::CsvOptions options{.header = program.at("header"),
                           .delimiter = program.value("delimiter", std::string(","))[0],
                           .use_quotes = program.value("quotes", true),
                           .na_values = {"", program.value("na", std::string())}};
  options = program.contains("columns") ? listed_columns(program, options)
                                        : inferred_columns(program, paths, options);
  const auto iterator = Dataset::from_files(paths, csv_format(options)).iterator();
  std::vector<std::string> found;
  try {
    while (const auto row = iterator->next()) found.push_back(row_text(*row, program));
  } catch (const std::exception&) {
    found.emplace_back("error");
  }
  return {{"rows", PeerArray::of(found)}};
}

const PeerKind kCsv("csv", run_csv);

}  // namespace
}  // namespace muster::inline v0_1

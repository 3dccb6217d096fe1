#include "muster/estimator/explanation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "muster/base/printable.h"
#include "muster/base/text_table.h"
#include "muster/formats/csv.h"

namespace muster::inline v0_1 {
namespace {

// Longer texts would push the numbers off the screen.
constexpr size_t kWidestText = 44;

std::string shortened(const std::string& text) {
  const std::string clean = printable(text);
  if (letters_in(clean) <= kWidestText) return clean;
  size_t end = 0;
  for (size_t letters = 0; end < clean.size(); ++end) {
    letters += letters_in(std::string_view(clean).substr(end, 1));
    if (letters > kWidestText - 3) break;
  }
  return clean.substr(0, end) + "...";
}

std::string number_text(double number) {
  if (number == 0) return "0";
  if (number == std::trunc(number) && std::abs(number) < 1e15) return fmt::format("{:.0f}", number);
  return fmt::format("{:.4g}", number);
}

}  // namespace

void Explanation::sort_by_size(size_t measure) {
  const auto size_of = [measure](const Row& row) {
    const double size = std::abs(row.numbers.at(measure));
    return std::isnan(size) ? -1.0 : size;
  };
  std::ranges::stable_sort(rows, std::ranges::greater(), size_of);
}

std::string Explanation::to_table(size_t max_rows) const {
  const size_t shown = std::min(max_rows, rows.size());
  std::vector<std::string> titles;
  std::vector<std::string Row::*> texts;
  const auto add_texts = [&](const char* title, std::string Row::*part) {
    const bool used = std::ranges::any_of(rows, [&](const Row& row) { return row.*part != ""; });
    if (part != &Row::column && !used) return;
    titles.push_back(title);
    texts.push_back(part);
  };
  add_texts("column", &Row::column);
  add_texts("value", &Row::value);
  add_texts("class", &Row::output);
  for (const std::string& measure : measures) titles.push_back(">" + measure);
  TextTable table(titles);
  for (size_t i = 0; i < shown; ++i) {
    std::vector<std::string> cells;
    for (const auto part : texts) cells.push_back(shortened(rows[i].*part));
    for (const double number : rows[i].numbers) cells.push_back(number_text(number));
    table.add(std::move(cells));
  }
  std::string text = note.empty() ? "" : note + "\n";
  text += table.text("");
  if (shown < rows.size()) text += fmt::format("... and {} more\n", rows.size() - shown);
  return text;
}

std::string Explanation::to_csv() const {
  std::string text;
  std::vector<std::string> cells{"column", "value", "output"};
  cells.insert(cells.end(), measures.begin(), measures.end());
  const auto write = [&] {
    const std::vector<std::string_view> views(cells.begin(), cells.end());
    formats::append_csv_row(text, views);
  };
  write();
  for (const Row& row : rows) {
    cells = {row.column, row.value, row.output};
    for (const double number : row.numbers) cells.push_back(fmt::format("{}", number));
    write();
  }
  return text;
}

}  // namespace muster::inline v0_1

#include "apps/train/report.h"

#include <string_view>

#include "muster/base/printable.h"
#include "muster/base/text_table.h"
#include "muster/formats/csv.h"

namespace muster::app {
namespace {

bool is_right(const std::string& title) { return title.starts_with('>'); }
std::string name_of(const std::string& title) { return is_right(title) ? title.substr(1) : title; }

std::string text_of(const Report::Table& table) {
  TextTable text(table.titles);
  for (const auto& row : table.rows) {
    std::vector<std::string> cells;
    for (const std::string& cell : row) cells.push_back(printable(cell));
    text.add(std::move(cells));
  }
  return text.text("  ");
}

// Escapes the characters that have a meaning in Markdown.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char letter : printable(text)) {
    if (std::string_view("|*_`<>[]#\\").find(letter) != std::string_view::npos) result += '\\';
    result += letter;
  }
  return result;
}

std::string markdown_of(const Report::Table& table) {
  std::string head = "|", rule = "|";
  for (const std::string& title : table.titles) {
    head += " " + escaped(name_of(title)) + " |";
    rule += is_right(title) ? "---:|" : "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const auto& row : table.rows) {
    text += "|";
    for (const std::string& cell : row) text += " " + escaped(cell) + " |";
    text += "\n";
  }
  return text + "\n";
}

}  // namespace

void Report::section(std::string heading) {
  parts_.push_back({Kind::kSection, std::move(heading)});
}
void Report::line(std::string text) { parts_.push_back({Kind::kLine, std::move(text)}); }
void Report::command(std::string text) { parts_.push_back({Kind::kCommand, std::move(text)}); }
void Report::table(Table table) { parts_.push_back({Kind::kTable, {}, std::move(table)}); }

std::string Report::to_text() const {
  std::string text = title_ + "\n";
  for (const Part& part : parts_) {
    switch (part.kind) {
      case Kind::kSection:
        text += "\n" + part.text + "\n";
        break;
      case Kind::kLine:
      case Kind::kCommand:
        text += "  " + part.text + "\n";
        break;
      case Kind::kTable:
        text += text_of(part.table);
        break;
    }
  }
  return text;
}

std::string Report::to_markdown() const {
  std::string text = "# " + escaped(title_) + "\n\n";
  for (const Part& part : parts_) {
    switch (part.kind) {
      case Kind::kSection:
        text += "## " + escaped(part.text) + "\n\n";
        break;
      case Kind::kLine:
        text += escaped(part.text) + "\n\n";
        break;
      case Kind::kCommand:
        text += "    " + part.text + "\n\n";
        break;
      case Kind::kTable:
        text += markdown_of(part.table);
        break;
    }
  }
  return text;
}

std::string to_csv(const Report::Table& table) {
  std::string text;
  std::vector<std::string> titles;
  for (const std::string& title : table.titles) titles.push_back(name_of(title));
  const auto write = [&](const std::vector<std::string>& cells) {
    const std::vector<std::string_view> views(cells.begin(), cells.end());
    formats::append_csv_row(text, views);
  };
  write(titles);
  for (const auto& row : table.rows) write(row);
  return text;
}

}  // namespace muster::app

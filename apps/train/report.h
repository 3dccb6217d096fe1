// A report in sections of text and tables: for a terminal, and as Markdown. Thread safety: a value.
#pragma once

#include <string>
#include <vector>

namespace muster::app {

class Report {
 public:
  // A title that begins with '>' names a column that is set to the right.
  struct Table {
    std::vector<std::string> titles{};
    std::vector<std::vector<std::string>> rows{};
  };

  explicit Report(std::string title) : title_(std::move(title)) {}
  void section(std::string heading);
  // A line. In Markdown it is a paragraph.
  void line(std::string text);
  // A line that is a command to type.
  void command(std::string text);
  void table(Table table);

  std::string to_text() const;
  std::string to_markdown() const;

 private:
  enum class Kind { kSection, kLine, kCommand, kTable };
  struct Part {
    Kind kind{};
    std::string text{};
    Table table = {};
  };

  std::string title_;
  std::vector<Part> parts_;
};

// A table as CSV, under its titles.
std::string to_csv(const Report::Table& table);

}  // namespace muster::app

// Checks the claims of the documents: programs are quoted word for word from files that are built,
// links lead somewhere, and a promise names a test that exists.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "tests/docs/shown.h"

namespace muster {
namespace {

namespace fs = std::filesystem;
using docs::matches;

fs::path root() {
  const char* folder = std::getenv("MUSTER_SOURCE_DIR");
  return folder != nullptr ? folder : "";
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Every document of the project, by its path from the root.
std::vector<std::string> documents() {
  std::vector<std::string> found;
  for (const fs::path& folder : {fs::path("."), fs::path("docs")}) {
    if (!fs::is_directory(root() / folder)) continue;
    for (const auto& entry : fs::directory_iterator(root() / folder)) {
      if (entry.path().extension() == ".md")
        found.push_back((folder / entry.path().filename()).lexically_normal().string());
    }
  }
  return found;
}

// The text without ``` blocks, in which brackets are C++.
std::string prose(const std::string& text) {
  std::string kept;
  bool inside = false;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
    const std::string line = text.substr(begin, end - begin);
    if (line.starts_with("```")) {
      inside = !inside;
    } else if (!inside) {
      kept += line;
    }
    begin = end;
  }
  return kept;
}

// GitHub's name of a heading: "## How it runs" -> "how-it-runs".
std::set<std::string> anchors(const std::string& text) {
  std::set<std::string> found;
  for (const auto& heading : matches(prose(text), "(^|\n)#+ ([^\n]+)")) {
    std::string name;
    for (const unsigned char letter : heading[2]) {
      if (std::isalnum(letter) || letter == '-' || letter == '_')
        name += static_cast<char>(std::tolower(letter));
      else if (letter == ' ')
        name += '-';
    }
    found.insert(name);
  }
  return found;
}

TEST(DocsTest, TheDocumentsAreThere) {
  ASSERT_FALSE(root().empty()) << "run this test through ctest";
  for (const char* name :
       {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/tour.md",
        "docs/estimators.md", "docs/strategies.md", "docs/data.md", "docs/faq.md"}) {
    EXPECT_TRUE(fs::is_regular_file(root() / name)) << name;
  }
}

// A ```cpp block is a whole file, or a part of one, named in the line before it:
// <!-- quoted: examples/tour/line.cc -->
TEST(DocsTest, ProgramsAreQuotedWordForWord) {
  const std::string marker = "<!-- quoted: ";
  int quoted = 0;
  for (const std::string& name : documents()) {
    const std::string text = read(root() / name);
    for (size_t at = text.find("```cpp\n"); at != std::string::npos;
         at = text.find("```cpp\n", at + 1)) {
      const size_t line = at < 2 ? 0 : text.rfind('\n', at - 2) + 1;
      const std::string before = text.substr(line, at - line);
      const size_t close = before.find(" -->");
      if (!before.starts_with(marker) || close == std::string::npos) {
        ADD_FAILURE() << name
                      << ": a program is not marked as quoted from a file: " << text.substr(at, 80);
        continue;
      }
      const std::string source = before.substr(marker.size(), close - marker.size());
      const size_t begin = at + 7;
      const std::string program = text.substr(begin, text.find("```", begin) - begin);
      EXPECT_FALSE(program.empty()) << name;
      EXPECT_NE(read(root() / source).find(program), std::string::npos)
          << name << " does not quote " << source << " word for word:\n"
          << program;
      ++quoted;
    }
  }
  EXPECT_GE(quoted, 3);
}

TEST(DocsTest, LinksLeadSomewhere) {
  const char* const link = R"(\[([^\]\n]+)\]\(([^)\s]+)\))";
  for (const std::string& name : documents()) {
    const std::string text = read(root() / name);
    for (const auto& found : matches(prose(text), link)) {
      const std::string target = found[2];
      if (target.starts_with("http://") || target.starts_with("https://")) continue;
      const size_t hash = target.find('#');
      const fs::path path = hash == 0
                                ? root() / name
                                : root() / fs::path(name).parent_path() / target.substr(0, hash);
      EXPECT_TRUE(fs::exists(path)) << name << " links " << target << ", which is not there";
      if (hash != std::string::npos && path.extension() == ".md") {
        EXPECT_TRUE(anchors(read(path)).contains(target.substr(hash + 1)))
            << name << " links " << target << ": there is no such heading";
      }
    }
  }
}

// docs/site/mkdocs.yml names the pages of the site: every guide, and no page that is not there.
// Pages of the root have the names of docs/site/pages.py.
TEST(DocsTest, EveryGuideIsInTheNavigationOfTheSite) {
  const std::string site = read(root() / "docs/site/mkdocs.yml");
  ASSERT_NE(site.find("\nnav:"), std::string::npos);
  std::set<std::string> named;
  for (const auto& found : matches(site.substr(site.find("\nnav:")), R"((\w+\.md)\b)"))
    named.insert(found[1]);
  std::set<std::string> pages;
  for (const auto& found :
       matches(read(root() / "docs/site/pages.py"), R"re("\w+\.md": "(\w+\.md)")re"))
    pages.insert(found[1]);
  EXPECT_TRUE(pages.contains("index.md"));
  for (const std::string& name : documents()) {
    if (name.starts_with("docs/")) pages.insert(fs::path(name).filename().string());
  }
  EXPECT_EQ(named, pages);
}

// docs/gallery.md has a section for each program of examples/, and links its source.
TEST(DocsTest, EveryExampleIsInTheGallery) {
  const std::string gallery = read(root() / "docs/gallery.md");
  int programs = 0;
  for (const auto& entry : fs::recursive_directory_iterator(root() / "examples")) {
    if (entry.path().extension() != ".cc") continue;
    if (read(entry.path()).find("int main(") == std::string::npos) continue;
    const std::string name = entry.path().stem().string();
    EXPECT_NE(gallery.find("\n### " + name + "\n"), std::string::npos) << name;
    const std::string place = entry.path().lexically_relative(root()).generic_string();
    EXPECT_NE(gallery.find("(../" + place + ")"), std::string::npos) << place;
    ++programs;
  }
  EXPECT_GE(programs, 30);
}

// [Suite.Test](file_test.cc): the file has that test.
TEST(DocsTest, TestsThatAreNamedExist) {
  const char* const link = R"(\[`?(\w+)\.(\w+)`?\]\(([^)\s]+_test\.cc)\))";
  int named = 0;
  for (const std::string& name : documents()) {
    const std::string text = read(root() / name);
    for (const auto& found : matches(text, link)) {
      const std::string source = read(root() / fs::path(name).parent_path() / found[3]);
      const std::string test = "TEST(_[FP])?\\(" + found[1] + ",\\s*" + found[2] + "\\)";
      EXPECT_FALSE(matches(source, test).empty())
          << name << ": " << found[3] << " has no test " << found[1] << "." << found[2];
      ++named;
    }
  }
  EXPECT_GE(named, 6);
}

// docs/estimators.md has a row for each variable that programs read, and none for others.
TEST(DocsTest, EveryVariableOfTheEnvironmentIsListed) {
  const char* const reads =
      R"re((?:getenv|variable|from_environment|get|get_or|has)\("([A-Z][A-Z_]+)"|"(MUSTER_[A-Z_]+|LC_[A-Z]+|LANG)")re";
  std::set<std::string> read_somewhere;
  for (const char* folder : {"muster", "apps", "examples"}) {
    for (const auto& entry : fs::recursive_directory_iterator(root() / folder)) {
      const std::string name = entry.path().filename();
      const bool source = name.ends_with(".cc") || name.ends_with(".h");
      const std::string text = source && !name.ends_with("_test.cc") ? read(entry.path()) : "";
      // Variables for tests do not concern users.
      if (text.find("MUSTER_BIN_DIR") != std::string::npos) continue;
      for (const auto& found : matches(text, reads)) read_somewhere.insert(found[1] + found[2]);
    }
  }
  EXPECT_GE(read_somewhere.size(), 10u) << "the pattern finds nothing";

  const std::string guide = read(root() / "docs/estimators.md");
  const size_t begin = guide.find("\n## Environment variables\n");
  ASSERT_NE(begin, std::string::npos);
  const std::string section = guide.substr(begin, guide.find("\n## ", begin + 1) - begin);
  std::set<std::string> listed;
  for (const auto& row : matches(section, "\n\\| (`[^|]+`) \\|")) {
    for (const auto& name : matches(row[1], "`([A-Z_]+)`")) listed.insert(name[1]);
  }
  listed.insert("TF_CONFIG");  // has a section of its own
  for (const std::string& name : read_somewhere) {
    EXPECT_TRUE(listed.contains(name))
        << "docs/estimators.md, Environment variables: no row for " << name;
  }
  for (const std::string& name : listed) {
    EXPECT_TRUE(read_somewhere.contains(name))
        << "docs/estimators.md lists " << name << ", which nothing reads";
  }
}

// Files that a reader's commands make in the root of the project are ignored by git.
TEST(DocsTest, GitIgnoresWhatCommandsMake) {
  const std::string ignored = "\n" + read(root() / ".gitignore");
  std::set<std::string> made;
  for (const char* name : {"README.md", "docs/tour.md", "docs/estimators.md", "docs/strategies.md",
                           "docs/data.md", "docs/faq.md"}) {
    for (const docs::Block& block : docs::blocks(read(root() / name))) {
      if (!block.commands || !docs::argument(block, "not run: ").empty() ||
          docs::argument(block, "exit code ") == "2")
        continue;
      for (const auto& found :
           matches(block.text, R"((--model_dir=|--out[ =]|muster new )(\w+)(\s|$))"))
        made.insert(found[2]);
    }
  }
  EXPECT_GE(made.size(), 8u) << "the pattern finds nothing";
  for (const std::string& name : made) {
    EXPECT_NE(ignored.find("\n/" + name + "/\n"), std::string::npos)
        << ".gitignore has no line /" << name << "/";
  }
}

// Returns which blows to which processes have no row in a fault table.
std::vector<std::string> missing_faults(const std::string& text, const std::string& name,
                                        const std::vector<std::string>& victims) {
  const std::string begin = "<!-- fault table: " + name + " -->",
                    end = "<!-- end of fault table: " + name + " -->";
  const size_t from = text.find(begin), to = text.find(end);
  if (from == std::string::npos || to == std::string::npos || to < from) return {"the marks"};
  const std::string table = text.substr(from + begin.size(), to - from - begin.size());
  std::vector<std::string> missing;
  for (const std::string blow : {"SIGKILL", "SIGSTOP", "SIGTERM", "ten times slower"}) {
    for (const std::string& victim : victims) {
      const std::string row = "\n| " + blow + " | " + victim + " | ";
      if (table.find(row) == std::string::npos) missing.push_back(blow + " to " + victim);
    }
  }
  return missing;
}

TEST(DocsTest, TheFaultTablesAreFilled) {
  const std::string text = read(root() / "docs/faults.md");
  const std::vector<std::string> none;
  EXPECT_EQ(missing_faults(text, "tasks", {"worker", "chief", "launcher"}), none);
  EXPECT_EQ(missing_faults(text, "servers",
                           {"chief 0", "worker 0", "ps 0", "ps 1", "evaluator 0", "launcher"}),
            none);
  EXPECT_EQ(missing_faults(text, "machines", {"rendezvous", "launcher"}), none);
  EXPECT_EQ(missing_faults(text, "elastic", {"rendezvous", "launcher", "worker"}), none)
      << "run fault_table --doc=docs/faults.md";
}

TEST(DocsTest, AnEmptyFaultTableIsNoTable) {
  const std::string begin = "<!-- fault table: x -->\n", end = "<!-- end of fault table: x -->\n";
  const std::vector<std::string> victims = {"worker", "chief"};
  EXPECT_EQ(missing_faults("nothing", "x", victims).size(), 1u);
  EXPECT_EQ(missing_faults(begin + end, "x", victims).size(), 8u);
  EXPECT_EQ(missing_faults(begin + "| SIGKILL | chief | step | 2.6 |\n" + end, "x", victims).size(),
            7u);
}

TEST(DocsTest, NoPathOfAnyonesMachine) {
  const char* const absolute = R"((^|[\s"'`=(])/(home|work|root|tmp|Users)/\w)";
  for (const std::string& name : documents()) {
    for (const auto& found : matches(read(root() / name), absolute)) {
      ADD_FAILURE() << name << ": " << found[0];
    }
  }
}

}  // namespace
}  // namespace muster

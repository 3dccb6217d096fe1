// Follows the documents as a reader does: runs their commands, in order, in a folder that looks
// like the root of the project, and compares the printed text with the shown one. With
// MUSTER_REFRESH_DOCS set, it writes the printed text into the documents instead (./dev docs
// --refresh).
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "muster/base/error.h"
#include "muster/base/temp_directory.h"
#include "tests/docs/shown.h"
#include "tests/end_to_end/program.h"

namespace muster::docs {
namespace {

namespace fs = std::filesystem;
using testing::Program;
using testing::read_file;
using testing::write_file;

constexpr auto kPatience = std::chrono::seconds(180);

// Targets that are built stay built: these commands ensure that they exist, and leave everything
// else to the real ones.
constexpr const char* kNinja = R"sh(#!/bin/sh
if [ "$1 $2" != "-C build/release" ]; then exec "$REAL_NINJA" "$@"; fi
shift 2
[ "$1" != -j ] || shift 2
echo "ninja: Entering directory \`build/release'"
for target; do
  [ -x "build/release/bin/$target" ] || { echo "ninja: error: unknown target '$target'"; exit 1; }
done
echo "ninja: no work to do."
)sh";
// Other tests run the same programs: a reader's terminal has only the reader's. The arguments of
// this script contain the pattern, so pgrep leaves out its ancestors.
constexpr const char* kPgrep = R"sh(#!/bin/sh
for process in $("$REAL_PGREP" -A "$@"); do
  [ "$(readlink "/proc/$process/cwd")" != "$READER" ] || echo "$process"
done
)sh";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::string real(const std::string& program) {
  const testing::Ran ran = testing::run({"sh", "-c", "command -v " + program});
  return ran.code == 0 ? ran.output.substr(0, ran.output.find('\n')) : program;
}

// A reader with a document, a folder and two terminals.
class Reader {
 public:
  explicit Reader(const std::string& name)
      : path_(fs::path(variable("MUSTER_SOURCE_DIR")) / name), text_(read_file(path_)) {
    const fs::path root = variable("MUSTER_SOURCE_DIR");
    if (root.empty() || text_.empty())
      throw not_found("there is no " + path_.string(), "run this test through ctest");
    for (const auto& entry : fs::directory_iterator(root)) {
      const std::string here = entry.path().filename();
      if (here != "build" && here[0] != '.')
        fs::create_directory_symlink(entry.path(), fs::path(folder()) / here);
    }
    fs::create_directories(folder() + "/build");
    fs::create_directory_symlink(fs::path(variable("MUSTER_BIN_DIR")).parent_path(),
                                 folder() + "/build/release");
    for (const auto& [tool, script] : {std::pair("ninja", kNinja), std::pair("pgrep", kPgrep)}) {
      const std::string file = tools_ / tool;
      write_file(file, script);
      fs::permissions(file, fs::perms::owner_all);
    }
  }

  // Runs the document. Returns how many blocks of commands were run.
  int follow() {
    int ran = 0;
    bool skipped = true;  // output before the first commands belongs to no block
    Block commands;
    for (const Block& block : blocks(text_)) {
      SCOPED_TRACE(path_.filename().string() + ":" + std::to_string(block.line));
      if (block.commands) {
        skipped = !argument(block, "not run: ").empty();
        if (skipped) continue;
        commands = block;
        run(block);
        ++ran;
      } else if (block.directive == "no output" || skipped) {
        continue;
      } else {
        std::string printed = printed_;
        bool interrupted = !argument(commands, "Ctrl-C after: ").empty();
        if (block.directive == "run again") {
          Block again = commands;
          again.directive.clear();
          run(again);
          printed = printed_;
          interrupted = true;
        } else if (block.directive == "of the first terminal") {
          printed = end_of_first_terminal();
          interrupted = true;
        }
        compare(block, printed, {.interrupted = interrupted});
      }
      if (::testing::Test::HasFatalFailure()) return ran;
    }
    EXPECT_EQ(left_running_, nullptr)
        << "the document never shows how a program it left running ends";
    write_changes();
    return ran;
  }

  // The result of the last program that trained into `model_dir`: {"global_step":…}.
  std::string result_of(const std::string& model_dir) const {
    const auto found = results_.find(model_dir);
    return found != results_.end() ? found->second : "";
  }

 private:
  static bool refresh() { return !variable("MUSTER_REFRESH_DOCS").empty(); }
  const std::string& folder() const { return folder_.path(); }

  std::unique_ptr<Program> start(const Block& block) {
    const std::string script = tools_ / ("commands_" + std::to_string(++scripts_));
    write_file(script, "cd \"$READER\" || exit\nset -e\n" + block.text);
    const std::string path =
        tools_.path() + ":" + variable("MUSTER_BIN_DIR") + ":" + variable("PATH");
    return std::make_unique<Program>(testing::Words{"bash", script},
                                     testing::Variables{{"PATH", path},
                                                        {"READER", folder()},
                                                        {"REAL_NINJA", real("ninja")},
                                                        {"REAL_PGREP", real("pgrep")}});
  }

  void run(const Block& block) {
    const std::string left = argument(block, "stays after: ");
    const std::string code = argument(block, "exit code ");
    if (!argument(block, "Ctrl-C after: ").empty()) {
      testing::until_in_time([&] { return interrupt(block); });
      return;
    }
    std::unique_ptr<Program> program = start(block);
    const int expected = code.empty() ? 0 : std::stoi(code);
    if (!left.empty()) {
      ASSERT_EQ(left_running_, nullptr) << "there are only two terminals";
      program->wait_for(left, kPatience);
      left_running_ = std::move(program);
      left_code_ = expected;
      return;
    }
    end(block, *program, expected);
  }

  // Returns false when the run was over before it could be interrupted, as if it had not been.
  bool interrupt(const Block& block) {
    const std::unique_ptr<Program> program = start(block);
    program->wait_for(argument(block, "Ctrl-C after: "), kPatience);
    ::kill(-program->pid(), SIGINT);  // as a terminal does: to all of the foreground
    const std::string model_dir = model_dir_of(block);
    if (program->wait(kPatience) == 0 && !model_dir.empty()) {
      fs::remove_all(fs::path(folder()) / model_dir);
      return false;
    }
    end(block, *program, 130);
    return true;
  }

  void end(const Block& block, Program& program, int expected) {
    const int ended = program.wait(kPatience);
    printed_ = without_folder(program.output());
    remember(block, printed_);
    EXPECT_EQ(ended, expected) << block.text << printed_;
  }

  std::string end_of_first_terminal() {
    if (left_running_ == nullptr) {
      ADD_FAILURE() << "nothing was left running";
      return "";
    }
    EXPECT_EQ(left_running_->wait(kPatience), left_code_) << left_running_->output();
    const std::string printed = without_folder(left_running_->output());
    left_running_.reset();
    return printed;
  }

  // The reader's folder is called something else.
  std::string without_folder(std::string text) const {
    for (const std::string& path : {variable("MUSTER_BIN_DIR"), folder()}) {
      for (size_t at = 0; (at = text.find(path, at)) != std::string::npos;)
        text.replace(at, path.size(), "…");
    }
    return text;
  }

  // "" if the commands name none.
  static std::string model_dir_of(const Block& block) {
    const auto directories = matches(block.text, "--model_dir=(\\S+)");
    return directories.empty() ? "" : directories[0][1];
  }

  void remember(const Block& block, const std::string& printed) {
    const std::string directory = model_dir_of(block);
    const auto results = matches(printed, "result: (\\{.*\\})");
    if (!directory.empty() && !results.empty()) results_[directory] = results[0][1];
  }

  void compare(const Block& block, const std::string& printed, const CompareOptions& options) {
    const std::string differs = differences(block.text, printed, options);
    // Blocks of one interrupted run contain the same step: they are renewed together.
    if (differs.empty() && !(refresh() && options.interrupted)) return;
    if (!refresh()) {
      ADD_FAILURE() << differs << "./dev docs --refresh writes what is printed now";
      return;
    }
    try {
      changes_.emplace_back(block.text, refreshed(block.text, printed, options));
    } catch (const std::invalid_argument& error) {
      ADD_FAILURE() << error.what() << "; write this block anew by hand. Printed:\n" << printed;
    }
  }

  // Into the current document: it may have been edited meanwhile.
  void write_changes() const {
    if (changes_.empty()) return;
    std::string text = read_file(path_);
    for (const auto& [from, to] : changes_) {
      const std::string block = "```text\n" + from + "```\n";
      const size_t at = text.find(block);
      if (at == std::string::npos) {
        ADD_FAILURE() << "this block was changed while its commands ran:\n" << block;
        continue;
      }
      text.replace(at, block.size(), "```text\n" + to + "```\n");
    }
    write_file(path_, text);
  }

  fs::path path_;
  std::string text_;
  std::vector<std::pair<std::string, std::string>> changes_;  // the shown text, and the text to
                                                              // show
  TempDirectory folder_;
  TempDirectory tools_;
  int scripts_ = 0;
  std::string printed_;
  std::map<std::string, std::string> results_;
  std::unique_ptr<Program> left_running_;
  int left_code_ = 0;
};

TEST(TourTest, TheReadmeShowsWhatIsPrinted) {
  Reader reader("README.md");
  EXPECT_GE(reader.follow(), 2);
}

TEST(TourTest, TheTourShowsWhatIsPrinted) {
  Reader reader("docs/tour.md");
  EXPECT_GE(reader.follow(), 10);
  EXPECT_NE(reader.result_of("whole"), "");
  // "to the last digit", it says.
  EXPECT_EQ(reader.result_of("stopped"), reader.result_of("whole"));
}

TEST(TourTest, TheFaqShowsWhatIsPrinted) {
  Reader reader("docs/faq.md");
  EXPECT_GE(reader.follow(), 8);
}

TEST(TourTest, TheGuideToEstimatorsShowsWhatIsPrinted) {
  Reader reader("docs/estimators.md");
  EXPECT_GE(reader.follow(), 1);
}

TEST(TourTest, TheGuideToStrategiesShowsWhatIsPrinted) {
  Reader reader("docs/strategies.md");
  EXPECT_GE(reader.follow(), 2);
}

TEST(TourTest, TheGuideToDataShowsWhatIsPrinted) {
  Reader reader("docs/data.md");
  EXPECT_GE(reader.follow(), 2);
}

}  // namespace
}  // namespace muster::docs

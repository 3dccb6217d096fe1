#include "apps/muster/board_report.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "apps/muster/helper_program.h"
#include "muster/base/error.h"
#include "muster/base/log.h"
#include "muster/base/strings.h"
#include "muster/base/uri.h"
#include "muster/launch/run.h"
#include "muster/launch/subprocess.h"

namespace muster::app {
namespace {

constexpr const char* kBoard = "muster-board";

// Next to this program, or where the programs of `muster` are installed.
HelperProgram find_board() {
  std::error_code ignored;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return find_helper_program(self.parent_path().string(), kBoard);
}

}  // namespace

void check_board_report(const std::string& file) {
  const HelperProgram board = find_board();
  if (board.path.empty()) {
    throw not_found(
        fmt::format("--report needs {}, which is not in {}", kBoard, join(board.looked_in, " or ")),
        fmt::format("build it with ./dev build {0}, or install it (Debian: apt-get install {0})",
                    kBoard));
  }
  const auto folder = std::filesystem::path(file).parent_path();
  std::error_code ignored;
  if (is_remote(file) || folder.empty() || std::filesystem::is_directory(folder, ignored)) return;
  throw not_found(fmt::format("--report: there is no folder {}", folder.string()),
                  "create it, or name a file in another folder");
}

bool write_board_report(const std::string& directory, const std::string& file) {
  std::string why;
  try {
    const launch::ExitStatus status =
        launch::run_visibly({find_board().path, directory, "--report=" + file});
    if (status.ok()) return true;
    why = launch::explain(status);
  } catch (const Error& error) {
    why = error.message();
  }
  log::warning(
      fmt::format("the report {} was not written ({}); to try again: muster board {} "
                  "--report={}",
                  file, why, launch::shell_quoted(directory), launch::shell_quoted(file)));
  return false;
}

}  // namespace muster::app

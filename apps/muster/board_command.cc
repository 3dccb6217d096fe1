#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/board/board_flags.h"
#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"

namespace muster::app {

void add_board(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action) {
  auto* command = app.add_subcommand("board", kBoardDescription);
  auto flags = std::make_shared<BoardFlags>();
  add_board_flags(*command, *flags);
  // The flags live as long as the command line.
  command->callback([flags, &words, own_folder, &action] {
    action = [&words, own_folder] {
      return become_helper(
          {.name = "muster-board", .what = "which shows runs in a browser", .command = "board"},
          words, own_folder);
    };
  });
}

}  // namespace muster::app

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/train/train_flags.h"
#include "muster/command/command_line.h"
#include "muster/command/shared_flags.h"

namespace muster::app {
namespace {

// The variables of the command line.
struct Words {
  TrainFlags flags;
  std::string log_format;
};

}  // namespace

void add_train(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action) {
  auto* command = app.add_subcommand("train", kTrainDescription);
  auto given = std::make_shared<Words>();
  command::add_argument(*command, csv_argument(given->flags));
  for (const Flag& flag : train_flags(given->flags)) command::add_flag(*command, flag);
  Flag log_format = command::log_format_flag(given->log_format);
  log_format.name = "log-format";  // as the command's other flags are written
  command::add_flag(*command, log_format);
  command->footer(kTrainExamples);
  command->callback([given, &words, own_folder, &action] {
    action = [given, &words, own_folder] {
      check_flags(given->flags);  // before LibTorch is loaded
      return become_helper(
          {.name = "muster-train", .what = "which loads LibTorch and learns", .command = "train"},
          words, own_folder);
    };
  });
}

}  // namespace muster::app

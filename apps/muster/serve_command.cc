#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/serve/serve_flags.h"

namespace muster::app {
namespace {

int serve(const ServeFlags& flags, const std::vector<std::string>& words,
          const std::string& own_folder) {
  (void)model_name(flags);  // is checked before LibTorch is loaded
  return become_helper(
      {.name = "muster-serve", .what = "which loads LibTorch and the model", .command = "serve"},
      words, own_folder);
}

}  // namespace

void add_serve(CLI::App& app, const std::vector<std::string>& words, const std::string& own_folder,
               Action& action) {
  auto* command = app.add_subcommand("serve", "Serve an exported model over HTTP");
  auto flags = std::make_shared<ServeFlags>();
  add_serve_flags(*command, *flags);
  command->callback([flags, &words, own_folder, &action] {
    action = [flags, &words, own_folder] { return serve(*flags, words, own_folder); };
  });
}

}  // namespace muster::app

// muster-model, which `muster export onnx` and `muster inspect model` become: it links LibTorch and
// ONNX.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/model/inspect_model.h"
#include "apps/model/model_flags.h"
#include "apps/muster/command_main.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/onnx/onnx_model.h"

namespace muster::app {
namespace {

// The folder of a version: itself, or the newest in it.
std::string version_in(const std::string& directory) {
  const auto newest = newest_version(directory, &file_systems());
  return newest ? join_path(directory, std::to_string(*newest)) : directory;
}

int write_onnx_file(const ModelFlags& flags) {
  const std::string folder = version_in(flags.directory);
  const auto written = onnx::export_onnx(file_systems(), folder, flags.file);
  for (const std::string& name : written) {
    const std::string path = join_path(directory_of(flags.file), name);
    fmt::print("wrote {} ({} bytes) from {}\n", path,
               with_commas(file_systems().file_size(path).value()), folder);
  }
  return 0;
}

int show_model(const ModelFlags& flags) {
  const ModelFile model = read_model_file(file_systems(), flags.file);
  fputs((flags.json ? json_of(model, flags.file) : text_of(model, flags.file)).c_str(), stdout);
  return 0;
}

void add_commands(CLI::App& app, const CommandLine&, Action& action) {
  const auto flags = std::make_shared<ModelFlags>();
  CLI::App* exports = app.add_subcommand("export", "Convert an exported model");
  add_export_onnx(*exports, *flags)->callback([flags, &action] {
    action = [flags] { return write_onnx_file(*flags); };
  });
  CLI::App* inspect = app.add_subcommand("inspect", "Show a model");
  add_inspect_model(*inspect, *flags)->callback([flags, &action] {
    action = [flags] { return show_model(*flags); };
  });
}

}  // namespace
}  // namespace muster::app

int main(int argc, char** argv) {
  return muster::app::command_main(argc, argv, {.add = muster::app::add_commands});
}

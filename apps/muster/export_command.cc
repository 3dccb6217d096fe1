#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/muster/commands.h"
#include "apps/muster/inspect.h"
#include "muster/base/text_table.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"
#include "muster/formats/torch_export.h"

namespace muster::app {
namespace {

struct ExportFlags {
  std::string checkpoint{};
  std::string out{};
};

int export_for_torch(const ExportFlags& flags) {
  FileSystem& files = file_systems();
  const std::vector<std::string> found = checkpoint_files(files, flags.checkpoint);
  if (found.size() != 1) {
    throw invalid_argument(fmt::format("not supported: {} is a checkpoint of {} files",
                                       flags.checkpoint, found.size()),
                           "join its shards into one .safetensors file");
  }
  const auto exported = formats::export_torch(files, found.front(), flags.out).value();
  TextTable table({"name", "in PyTorch", "shape", ""});
  for (const formats::TorchExported& tensor : exported) {
    table.add({tensor.name, tensor.torch_name,
               tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, "x")),
               tensor.transposed ? "transposed" : ""});
  }
  fmt::print("{}\n{}wrote {} tensors to {}\n", found.front(), table.text("  "), exported.size(),
             flags.out);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("export", "Write what was trained for other programs");
  command->require_subcommand(1);
  command->footer("Examples:\n  muster export torch model weights.pt");
  auto flags = std::make_shared<ExportFlags>();
  auto* torch = command->add_subcommand(
      "torch", "The variables of a checkpoint as a state dict that torch.load() reads");
  command::add_argument(
      *torch, {"PATH", &flags->checkpoint, "A model_dir, a prefix, or a .safetensors file"})
      ->required();
  command::add_argument(*torch,
                        {"FILE", &flags->out, "The file to write; one that is there is replaced"})
      ->required();
  torch->footer(
      "\"net/fc/kernel\" becomes \"fc.weight\": a part that all names begin with is taken away,\n"
      "kernels are transposed to PyTorch's layout, and what optimizers keep is left out.\n"
      "\nExamples:\n"
      "  muster export torch model weights.pt\n"
      "  muster export torch model/model.ckpt-100 weights.pt");
  torch->callback([flags, &action] { action = [flags] { return export_for_torch(*flags); }; });
}

}  // namespace muster::app

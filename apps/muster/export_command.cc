#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "apps/model/model_flags.h"
#include "apps/muster/commands.h"
#include "apps/muster/helper_program.h"
#include "apps/muster/inspect.h"
#include "muster/base/text_table.h"
#include "muster/bundles/export_bundle.h"
#include "muster/command/command_line.h"
#include "muster/files/file_systems.h"
#include "muster/formats/torch_export.h"

namespace muster::app {
namespace {

struct ExportFlags {
  std::string checkpoint{};
  std::string out{};
  std::string like{};
};

// The one file of the checkpoint that `path` means.
std::string checkpoint_of(FileSystem& files, const std::string& path) {
  const std::vector<std::string> found = checkpoint_files(files, path);
  if (found.size() == 1) return found.front();
  throw invalid_argument(
      fmt::format("not supported: {} is a checkpoint of {} files", path, found.size()),
      "join its shards into one .safetensors file");
}

int export_for_torch(const ExportFlags& flags) {
  FileSystem& files = file_systems();
  const std::string file = checkpoint_of(files, flags.checkpoint);
  const auto exported = formats::export_torch(files, file, flags.out).value();
  TextTable table({"name", "in PyTorch", "shape", ""});
  for (const formats::TorchExported& tensor : exported) {
    table.add({tensor.name, tensor.torch_name,
               tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, "x")),
               tensor.transposed ? "transposed" : ""});
  }
  fmt::print("{}\n{}wrote {} tensors to {}\n", file, table.text("  "), exported.size(), flags.out);
  return 0;
}

int export_for_tensorflow(const ExportFlags& flags) {
  FileSystem& files = file_systems();
  const std::string file = checkpoint_of(files, flags.checkpoint);
  const auto exported = tensorflow::export_bundle(files, file, flags.out, {.like = flags.like});
  TextTable table({"name", "in TensorFlow", "shape"});
  for (const tensorflow::BundleExported& tensor : exported) {
    table.add({tensor.name.empty() ? "(copied)" : tensor.name, tensor.tensorflow_name,
               tensor.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(tensor.shape, "x"))});
  }
  fmt::print("{}\n{}wrote {} tensors to {}.index\n", file, table.text("  "), exported.size(),
             flags.out);
  return 0;
}

}  // namespace

void add_export(CLI::App& app, const std::vector<std::string>& all, const std::string& own_folder,
                Action& action) {
  auto* command = app.add_subcommand(
      "export",
      "Convert a checkpoint for PyTorch or TensorFlow, or an export to ONNX or a SavedModel");
  command->require_subcommand(1);
  command->footer(
      "Examples:\n  muster export torch model weights.pt\n"
      "  muster export tensorflow model theirs/model.ckpt-1000\n"
      "  muster export onnx model/export model.onnx\n"
      "  muster export saved_model model/export served/1");
  auto flags = std::make_shared<ExportFlags>();
  auto* torch = command->add_subcommand(
      "torch", "Write the variables of a checkpoint as a state dict that torch.load() reads");
  command::add_argument(
      *torch, {"PATH", &flags->checkpoint, "A model_dir, a prefix, or a .safetensors file"})
      ->required();
  command::add_argument(*torch,
                        {"FILE", &flags->out, "File to write; an existing file is replaced"})
      ->required();
  torch->footer(
      "\"net/fc/kernel\" becomes \"fc.weight\": a first part common to all names is removed, "
      "kernels\n"
      "are transposed to PyTorch's layout, and the state of optimizers is left out.\n"
      "\n"
      "Examples:\n"
      "  muster export torch model weights.pt\n"
      "  muster export torch model/model.ckpt-100 weights.pt");
  torch->callback([flags, &action] { action = [flags] { return export_for_torch(*flags); }; });
  auto* tensorflow =
      command->add_subcommand("tensorflow", "Write a checkpoint in TensorFlow's format");
  command::add_argument(
      *tensorflow, {"PATH", &flags->checkpoint, "A model_dir, a prefix, or a .safetensors file"})
      ->required();
  command::add_argument(
      *tensorflow,
      {"PREFIX", &flags->out, "Prefix of the files to write, such as theirs/model.ckpt-1000"})
      ->required();
  command::add_flag(*tensorflow, {"like", &flags->like,
                                  "Prefix of a checkpoint of the same model that TensorFlow wrote: "
                                  "its names and keys are used"});
  tensorflow->footer(
      "Without --like, variables keep their names and slots of optimizers get those of\n"
      "tf.compat.v1.train: tf.train.load_checkpoint and init_checkpoint read them. With --like,\n"
      "the Estimator or Keras model that wrote that checkpoint continues from the new one.\n"
      "\n"
      "Examples:\n"
      "  muster export tensorflow model theirs/model.ckpt-1000\n"
      "  muster export tensorflow model theirs/model.ckpt-1000 --like=theirs/model.ckpt-500");
  tensorflow->callback(
      [flags, &action] { action = [flags] { return export_for_tensorflow(*flags); }; });
  auto model_flags = std::make_shared<ModelFlags>();
  for (CLI::App* each :
       {add_export_onnx(*command, *model_flags), add_export_saved_model(*command, *model_flags)}) {
    each->callback([model_flags, &all, own_folder, &action] {
      action = [&all, own_folder]() -> int { become_program(kModelProgram, all, own_folder); };
    });
  }
}

}  // namespace muster::app

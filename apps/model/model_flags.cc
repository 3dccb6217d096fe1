#include "apps/model/model_flags.h"

#include <CLI/CLI.hpp>

#include "muster/base/strings.h"
#include "muster/command/command_line.h"

namespace muster::app {

namespace {

CLI::App* add_export_command(CLI::App& parent, ModelFlags& flags, const char* name,
                             const char* what) {
  CLI::App* command = parent.add_subcommand(name, what);
  command::add_argument(
      *command, {"EXPORT", &flags.directory,
                 "Folder of a version, or its parent folder, which means the newest version"})
      ->required();
  return command;
}

}  // namespace

CLI::App* add_export_onnx(CLI::App& parent, ModelFlags& flags) {
  CLI::App* command =
      add_export_command(parent, flags, "onnx", "Write an exported model as an ONNX file");
  command::add_argument(*command,
                        {"FILE", &flags.file, "File to write; an existing file is replaced"})
      ->required();
  command::add_flag(*command,
                    {.name = "weights",
                     .value = &flags.weights,
                     .help = "How weights are stored: int8 for each output of a layer, and "
                             "int8_dynamic with products of integers too",
                     .choices = {"float32", "float16", "bfloat16", "int8", "int8_dynamic"}});
  command::add_flag(*command,
                    {.name = "data",
                     .value = &flags.data,
                     .help = ".npz file with inputs and labels: shows the accuracy before "
                             "and after; default: random inputs",
                     .placeholder = "FILE"});
  command::add_flag(*command, {.name = "label",
                               .value = &flags.label,
                               .help = "Name of the array of --data with the labels",
                               .placeholder = "NAME"});
  command->footer(
      "The file takes the inputs and gives the outputs of the signature serving_default, for any\n"
      "number of rows. Feature columns in front of the model are not in it. Weights of 2 GB or "
      "more\n"
      "are in FILE.data, next to FILE.\n"
      "\n"
      "Examples:\n"
      "  muster export onnx model/export model.onnx\n"
      "  muster export onnx model/export/1732400000 model.onnx\n"
      "  muster export onnx model/export small.onnx --weights=int8 --data=test.npz --label=y");
  return command;
}

CLI::App* add_diff_command(CLI::App& app, DiffFlags& flags) {
  CLI::App* command = app.add_subcommand(
      "diff", "Find the first step at which two runs differ, or how far two models differ");
  command::add_argument(
      *command, {"A", &flags.a,
                 "A run: a model_dir or a checkpoint. Or a model: an export, .onnx, SavedModel"})
      ->required();
  command::add_argument(*command, {"B", &flags.b, "Another one of the same kind"})->required();
  command::add_flag(*command, {"json", &flags.json, "Print one JSON document, for programs"});
  command::add_flag(*command, {"input",
                               &flags.input,
                               "Of models: .npz file, or .safetensors file of Muster, with the "
                               "inputs by their names; default: random numbers",
                               {},
                               "FILE"});
  command::add_flag(*command, {"tolerance",
                               &flags.tolerance,
                               "Of models: numbers a and b are equal if |a - b| is at most this "
                               "times 1 + |a|",
                               {.at_least = 0}});
  command::add_flag(
      *command, {"seed", &flags.seed, "Of models: seed of the random numbers", {.at_least = 0}});
  command::add_flag(
      *command,
      {"rows", &flags.rows, "Of models: number of random rows", {.at_least = 1, .at_most = 1e6}});
  command->footer(
      "Runs: compares, bit by bit, the checkpoints of equal steps, the numbers of event files and\n"
      "the records of used examples. Rates are left out.\n"
      "Models: runs both on the same numbers, and shows the largest absolute and relative\n"
      "difference of each output of serving_default. A model is a version that export_model()\n"
      "wrote, its parent folder, which means the newest version, an ONNX file, or the folder of a\n"
      "SavedModel.\n"
      "Exit codes: 0 equal, 1 they differ, 2 they cannot be compared.\n"
      "\n"
      "Examples:\n"
      "  muster diff model_a model_b\n"
      "  muster diff model_a/model.ckpt-100 model_b/model.ckpt-100\n"
      "  muster diff model/export model.onnx\n"
      "  muster diff model/export/1732400000 model/export/1732500000 --input=rows.npz");
  return command;
}

bool is_model(FileSystem& files, const std::string& path) {
  if (path.ends_with(".onnx") || path.ends_with(".pt")) return true;
  const auto is_export = [&](const std::string& folder) {
    return files.exists(join_path(folder, "signatures.json")).value_or(false) ||
           files.exists(join_path(folder, "saved_model.pb")).value_or(false);
  };
  if (is_export(path)) return true;
  for (const std::string& name : files.list_directory(path).value_or({})) {
    if (parse_int(name) && is_export(join_path(path, name))) return true;
  }
  return false;
}

CLI::App* add_export_saved_model(CLI::App& parent, ModelFlags& flags) {
  CLI::App* command = add_export_command(parent, flags, "saved_model",
                                         "Write an exported model as a SavedModel of TensorFlow");
  command::add_argument(*command, {"FOLDER", &flags.file,
                                   "Folder to write; files of a SavedModel in it are replaced"})
      ->required();
  command->footer(
      "The folder has saved_model.pb and variables/, with the signatures of the export. "
      "TensorFlow\n"
      "Serving takes the parent of a folder whose name is a number.\n"
      "\n"
      "Examples:\n"
      "  muster export saved_model model/export served/1\n"
      "  muster export saved_model model/export/1732400000 served/1732400000");
  return command;
}

CLI::App* add_inspect_model(CLI::App& parent, ModelFlags& flags) {
  CLI::App* command =
      parent.add_subcommand("model", "Show inputs, outputs, operations and sizes of a model");
  command::add_argument(
      *command, {"FILE", &flags.file,
                 "ONNX (.onnx), TorchScript (.pt), SavedModel (its folder, or saved_model.pb) or "
                 "weights (.safetensors)"})
      ->required();
  command::add_flag(*command, {"json", &flags.json, "Print one JSON document, for programs"});
  command->footer(
      "Examples:\n"
      "  muster inspect model model.onnx\n"
      "  muster inspect model model/export/1732400000/model.pt --json");
  return command;
}

}  // namespace muster::app

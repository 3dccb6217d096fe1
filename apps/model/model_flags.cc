#include "apps/model/model_flags.h"

#include <CLI/CLI.hpp>

#include "muster/command/command_line.h"

namespace muster::app {

CLI::App* add_export_onnx(CLI::App& parent, ModelFlags& flags) {
  CLI::App* command = parent.add_subcommand("onnx", "Write an exported model as an ONNX file");
  command::add_argument(
      *command, {"EXPORT", &flags.directory,
                 "Folder of a version, or its parent folder, which means the newest version"})
      ->required();
  command::add_argument(*command,
                        {"FILE", &flags.file, "File to write; an existing file is replaced"})
      ->required();
  command->footer(
      "The file takes the inputs and gives the outputs of the signature serving_default, for any\n"
      "number of rows. Feature columns in front of the model are not in it. Weights of 2 GB or "
      "more\n"
      "are in FILE.data, next to FILE.\n"
      "\n"
      "Examples:\n"
      "  muster export onnx model/export model.onnx\n"
      "  muster export onnx model/export/1732400000 model.onnx");
  return command;
}

CLI::App* add_inspect_model(CLI::App& parent, ModelFlags& flags) {
  CLI::App* command = parent.add_subcommand(
      "model", "Show inputs, outputs, operations and sizes of a model in one file");
  command::add_argument(
      *command, {"FILE", &flags.file, "ONNX (.onnx), TorchScript (.pt) or weights (.safetensors)"})
      ->required();
  command::add_flag(*command, {"json", &flags.json, "Print one JSON document, for programs"});
  command->footer(
      "Examples:\n"
      "  muster inspect model model.onnx\n"
      "  muster inspect model model/export/1732400000/model.pt --json");
  return command;
}

}  // namespace muster::app

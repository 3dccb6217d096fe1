// muster-model, which `muster export onnx`, `muster export saved_model`, `muster inspect model` and
// `muster diff` of models become: it links LibTorch and ONNX.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "apps/model/inspect_model.h"
#include "apps/model/model_batch.h"
#include "apps/model/model_comparison.h"
#include "apps/model/model_flags.h"
#include "apps/muster/command_main.h"
#include "muster/base/error.h"
#include "muster/base/exit_code.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/export/servable.h"
#include "muster/files/file_systems.h"
#include "muster/onnx/onnx_model.h"
#include "muster/savedmodel/saved_model.h"

namespace muster::app {
namespace {

// The folder of a version: itself, or the newest in it.
std::string version_in(const std::string& directory) {
  const auto newest = newest_version(directory, &file_systems());
  return newest ? join_path(directory, std::to_string(*newest)) : directory;
}

// What changed with the storage of the weights.
std::string report_of(const Servable& before, const Servable& after, const ModelFlags& flags) {
  if (flags.data.empty()) {
    const ModelComparison compared =
        compare_models(before, after, random_batch({&before}, kServingDefault, {}), 0);
    return text_of_differences(compared);
  }
  Servable::Tensors inputs = read_batch(file_systems(), flags.data);
  const auto labels = inputs.find(flags.label);
  if (labels == inputs.end())
    throw invalid_argument(fmt::format("{} has no array \"{}\"", flags.data, flags.label));
  const Tensor expected = labels->second;
  inputs.erase(labels);
  return text_of_accuracy(before.run(kServingDefault, inputs), after.run(kServingDefault, inputs),
                          expected);
}

int print_written(const std::string& folder, const std::vector<std::string>& names,
                  const std::string& version) {
  for (const std::string& name : names) {
    const std::string path = join_path(folder, name);
    fmt::print("wrote {} ({} bytes) from {}\n", path,
               with_commas(file_systems().file_size(path).value()), version);
  }
  return 0;
}

int write_onnx_file(const ModelFlags& flags) {
  const std::string version = version_in(flags.directory);
  if (flags.data.empty() != flags.label.empty())
    throw invalid_argument("--data and --label belong together", "pass both, or none of them");
  (void)print_written(
      std::string(directory_of(flags.file)),
      onnx::export_onnx(file_systems(), version, flags.file, {.weights = flags.weights}), version);
  if (flags.weights != "float32" || !flags.data.empty())
    fputs(report_of(Servable(version), Servable(flags.file), flags).c_str(), stdout);
  return 0;
}

int write_saved_model_folder(const ModelFlags& flags) {
  const std::string version = version_in(flags.directory);
  return print_written(
      flags.file, saved_model::export_saved_model(file_systems(), version, flags.file), version);
}

int show_model(const ModelFlags& flags) {
  const ModelFile model = read_model_file(file_systems(), flags.file);
  fputs((flags.json ? json_of(model, flags.file) : text_of(model, flags.file)).c_str(), stdout);
  return 0;
}

// The folder of a version, or the file of a model.
std::string model_at(const std::string& path) {
  return path.ends_with(".pt")     ? directory_of(path)
         : path.ends_with(".onnx") ? path
                                   : version_in(path);
}

int diff_models(const DiffFlags& flags) {
  try {
    const Servable a(model_at(flags.a)), b(model_at(flags.b));
    check_same_inputs(a, b);
    const ModelComparison compared = compare_models(
        a, b,
        flags.input.empty()
            ? random_batch({&a}, kServingDefault,
                           {.seed = static_cast<uint64_t>(flags.seed), .rows = flags.rows})
            : read_batch(file_systems(), flags.input),
        flags.tolerance);
    fputs((flags.json ? json_of(compared) : text_of(compared)).c_str(), stdout);
    return compared.equal() ? 0 : kExitFailed;
  } catch (const Error& error) {
    // Exit code 1 says that the models differ.
    if (error.kind() != ErrorKind::kCorrupt) throw;
    throw Error(ErrorKind::kInvalidArgument, error.message(), error.hint());
  }
}

void add_commands(CLI::App& app, const CommandLine&, Action& action) {
  const auto compared = std::make_shared<DiffFlags>();
  add_diff_command(app, *compared)->callback([compared, &action] {
    action = [compared] { return diff_models(*compared); };
  });
  const auto flags = std::make_shared<ModelFlags>();
  CLI::App* exports = app.add_subcommand("export", "Convert an exported model");
  add_export_onnx(*exports, *flags)->callback([flags, &action] {
    action = [flags] { return write_onnx_file(*flags); };
  });
  add_export_saved_model(*exports, *flags)->callback([flags, &action] {
    action = [flags] { return write_saved_model_folder(*flags); };
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

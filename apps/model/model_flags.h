// The words of `muster export onnx`, `muster export saved_model`, `muster inspect model` and
// `muster diff`: the command checks them, and muster-model, which it becomes, reads them again.
// Thread safety: one thread.
#pragma once

#include <cstdint>
#include <string>

#include "muster/base/file_system.h"

namespace CLI {
class App;
}

namespace muster::app {

struct ModelFlags {
  std::string directory{};  // of `export`: an export
  std::string file{};       // the file or folder that is written, or shown
  std::string weights = "float32";
  std::string data{};   // rows to evaluate the file on
  std::string label{};  // the array of `data` with the labels
  bool json = false;
};

// Of `muster diff`.
struct DiffFlags {
  std::string a{};
  std::string b{};
  bool json = false;
  // For models.
  std::string input{};
  double tolerance = 1e-5;
  int64_t seed = 1;
  int64_t rows = 8;
};

// Adds `diff`, which compares runs or models. `muster` compares runs; it becomes muster-model for
// models.
CLI::App* add_diff_command(CLI::App& app, DiffFlags& flags);
// Whether the path is a model: a file that ends with .onnx or .pt, or an export of
// Estimator::export_model().
bool is_model(FileSystem& files, const std::string& path);

// Add the commands below `muster export`, and below `muster inspect`.
CLI::App* add_export_onnx(CLI::App& parent, ModelFlags& flags);
CLI::App* add_export_saved_model(CLI::App& parent, ModelFlags& flags);
CLI::App* add_inspect_model(CLI::App& parent, ModelFlags& flags);

}  // namespace muster::app

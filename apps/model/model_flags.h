// The words of `muster export onnx` and `muster inspect model`: the command checks them, and
// muster-model, which it becomes, reads them again. Thread safety: one thread.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace muster::app {

struct ModelFlags {
  std::string directory{};  // of `export onnx`: an export
  std::string file{};       // the file that is written, or shown
  bool json = false;
};

// Add the command below `muster export`, and below `muster inspect`.
CLI::App* add_export_onnx(CLI::App& parent, ModelFlags& flags);
CLI::App* add_inspect_model(CLI::App& parent, ModelFlags& flags);

}  // namespace muster::app

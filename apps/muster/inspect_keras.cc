#include "apps/muster/inspect_keras.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/hdf/keras_file.h"

namespace muster::app {

Inspection inspect_keras(FileSystem& files, const std::string& path, bool json) {
  const hdf::KerasFile file(files, path);
  const hdf::KerasNames& names = file.names();
  TextTable table{{"name", "dtype", "shape", ">bytes", "path in the file"}};
  nlohmann::json tensors = nlohmann::json::array();
  uint64_t total = 0;
  for (const auto& [name, place] : names.places) {
    const hdf::HdfArray& array = file.at(name);
    const std::string dtype(describe(array.dtype));
    const std::string shape =
        array.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(array.shape, "x"));
    table.add({printable(name), dtype, shape, with_commas(array.bytes), printable(array.path)});
    tensors.push_back({{"name", name},
                       {"path", array.path},
                       {"dtype", dtype},
                       {"shape", array.shape},
                       {"bytes", array.bytes}});
    total += array.bytes;
  }
  Inspection inspection;
  if (json) {
    const nlohmann::json document = {{"path", path},
                                     {"format", names.format},
                                     {"layers_by_class", names.by_class},
                                     {"optimizer_arrays", names.of_optimizer},
                                     {"other_arrays", names.of_others},
                                     {"tensors", tensors},
                                     {"total_bytes", total}};
    inspection.text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return inspection;
  }
  inspection.text = fmt::format("{}\n  format: {}\n", path, names.format);
  if (names.by_class)
    inspection.text += "  layers: by class and number, since the file has no names of layers\n";
  if (names.of_optimizer > 0)
    inspection.text += fmt::format("  optimizer: {} arrays, not shown\n", names.of_optimizer);
  if (names.of_others > 0)
    inspection.text += fmt::format("  metrics and seeds: {} arrays, not shown\n", names.of_others);
  inspection.text += "\n" + table.text("  ") +
                     fmt::format("\n  {} arrays, {} bytes\n", tensors.size(), with_commas(total));
  return inspection;
}

}  // namespace muster::app

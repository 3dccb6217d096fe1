#include "apps/muster/inspect_tensorflow.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "muster/base/bytes.h"
#include "muster/base/error.h"
#include "muster/base/printable.h"
#include "muster/base/strings.h"
#include "muster/base/text_table.h"
#include "muster/bundles/object_graph.h"
#include "muster/bundles/tensor_bundle.h"

namespace muster::app {
namespace {

using tensorflow::BundleDtype;
using tensorflow::BundleEntry;
using tensorflow::BundleReader;

constexpr uint64_t kWindow = uint64_t{4} << 20;  // bytes that are read at a time

// Whether the checksums of an entry hold.
bool is_whole(const BundleReader& bundle, const std::string& name, const BundleEntry& entry) {
  try {
    if (entry.dtype == BundleDtype::kString && entry.pieces.size() == 1) {
      (void)bundle.read_texts(name, entry);
      return true;
    }
    for (const auto& piece : entry.pieces) bundle.verify(name, piece, kWindow);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCorrupt) throw;
    return false;
  }
}

// The step that the checkpoint was saved at, if it says so.
nlohmann::json step_of(const BundleReader& bundle, const BundleEntry& entry) {
  if (entry.dtype != BundleDtype::kInt64 || !entry.shape.empty()) return nullptr;
  int64_t step = 0;
  bundle.read_range(entry.pieces.front(), 0, std::as_writable_bytes(std::span(&step, 1)));
  return step;
}

}  // namespace

Inspection inspect_tensorflow(FileSystem& files, const std::string& prefix, bool json) {
  const BundleReader bundle(files, prefix);
  TextTable table{{"name", "dtype", "shape", ">parts", ">bytes", "checksum"}};
  nlohmann::json tensors = nlohmann::json::array(), step;
  std::vector<std::string> damaged;
  uint64_t total = 0;
  for (const auto& [name, key] : keys_by_name(bundle)) {
    const BundleEntry& entry = bundle.entries().at(key);
    uint64_t bytes = 0;
    for (const auto& piece : entry.pieces) bytes += piece.bytes;
    const bool whole = is_whole(bundle, name, entry);
    if (!whole) damaged.push_back(name);
    if (name == "global_step") step = step_of(bundle, entry);
    const std::string dtype = describe(entry.dtype);
    const std::string shape =
        entry.shape.empty() ? "scalar" : fmt::format("{}", fmt::join(entry.shape, "x"));
    table.add({printable(name), dtype, shape, std::to_string(entry.pieces.size()),
               with_commas(bytes), whole ? "ok" : "DAMAGED"});
    tensors.push_back({{"name", name},
                       {"key", key},
                       {"dtype", dtype},
                       {"shape", entry.shape},
                       {"parts", entry.pieces.size()},
                       {"bytes", bytes},
                       {"checksum", whole ? "ok" : "damaged"}});
    total += bytes;
  }
  Inspection inspection;
  if (!damaged.empty()) {
    inspection.damage =
        corrupt(fmt::format("{}: {} of {} arrays do not match their checksum: {}", prefix,
                            damaged.size(), tensors.size(), fmt::join(damaged, ", ")),
                "use an older checkpoint, or another copy of this one");
  }
  if (json) {
    const nlohmann::json document = {{"path", prefix},
                                     {"format", "tensorflow"},
                                     {"global_step", step},
                                     {"tensors", tensors},
                                     {"total_bytes", total}};
    inspection.text = document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    return inspection;
  }
  inspection.text = prefix + "\n  format: TensorFlow, version 2\n";
  if (!step.is_null()) inspection.text += fmt::format("  global_step: {}\n", step.dump());
  inspection.text += "\n" + table.text("  ") +
                     fmt::format("\n  {} arrays, {} bytes\n", tensors.size(), with_commas(total));
  return inspection;
}

}  // namespace muster::app

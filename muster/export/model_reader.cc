#include "muster/export/model_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/export/internal/description.h"

namespace muster::inline v0_1 {
namespace {

// Models of a kind, and their name in a folder.
struct ModelKind {
  const char* suffix;
  const char* file;
  const char* name;
};
constexpr std::array kModelKinds = {ModelKind{".onnx", "model.onnx", "an ONNX model"},
                                    ModelKind{"saved_model.pb", "saved_model.pb", "a SavedModel"}};

struct ModelReaders {
  std::mutex mutex;
  std::map<std::string, ModelReader> by_suffix;
};

ModelReaders& model_readers() {
  static ModelReaders known;
  return known;
}

}  // namespace

void register_model_reader(ModelReader reader) {
  ModelReaders& known = model_readers();
  const std::lock_guard lock(known.mutex);
  std::string suffix = reader.suffix;
  known.by_suffix.insert_or_assign(std::move(suffix), std::move(reader));
}

std::string foreign_model(FileSystem& files, const std::string& path) {
  for (const ModelKind& kind : kModelKinds) {
    if (path.ends_with(kind.suffix)) return path;
  }
  if (files.exists(join_path(path, internal::kSignaturesFile)).value_or(true)) return "";
  for (const ModelKind& kind : kModelKinds) {
    std::string inside = join_path(path, kind.file);
    if (files.exists(inside).value_or(false)) return inside;
  }
  return "";
}

LoadedModel read_foreign_model(FileSystem& files, const std::string& path) {
  ModelReaders& known = model_readers();
  ModelReader reader;
  {
    const std::lock_guard lock(known.mutex);
    for (const auto& [suffix, each] : known.by_suffix) {
      if (path.ends_with(suffix)) reader = each;
    }
  }
  if (!reader.read) {
    const auto* kind = std::ranges::find_if(
        kModelKinds, [&](const ModelKind& each) { return path.ends_with(each.suffix); });
    throw invalid_argument(
        fmt::format("{} is {}, and its reader is in a part that this program is not linked with",
                    path, kind == kModelKinds.end() ? "a model" : kind->name),
        "link the part: find_package(muster COMPONENTS onnx) and target_link_libraries(... "
        "muster::onnx)");
  }
  return reader.read(files, path);
}

}  // namespace muster::inline v0_1

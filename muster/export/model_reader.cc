#include "muster/export/model_reader.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/export/internal/description.h"

namespace muster::inline v0_1 {
namespace {

constexpr const char* kOnnxSuffix = ".onnx";

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
  if (path.ends_with(kOnnxSuffix)) return path;
  if (files.exists(join_path(path, internal::kSignaturesFile)).value_or(true)) return "";
  std::string inside = join_path(path, std::string("model") + kOnnxSuffix);
  return files.exists(inside).value_or(false) ? inside : "";
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
    throw invalid_argument(
        fmt::format("{} is an ONNX model, and its reader is in a part that this program is not "
                    "linked with",
                    path),
        "link the part: find_package(muster COMPONENTS onnx) and target_link_libraries(... "
        "muster::onnx)");
  }
  return reader.read(files, path);
}

}  // namespace muster::inline v0_1

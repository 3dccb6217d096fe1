#include "muster/export/model_format.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "muster/base/error.h"
#include "muster/base/strings.h"
#include "muster/export/internal/description.h"
#include "muster/formats/file_digests.h"

namespace muster::inline v0_1 {
namespace {

struct ModelFormats {
  std::mutex mutex;
  std::map<std::string, ModelFormat> by_name;
};

ModelFormats& model_formats() {
  static ModelFormats known;
  return known;
}

}  // namespace

ExportedModel read_export(FileSystem& files, const std::string& folder) {
  const std::string path = join_path(folder, internal::kSignaturesFile);
  const Result<std::string> text = files.read_file(path);
  if (!text.ok() && text.error().kind() == ErrorKind::kNotFound) {
    throw not_found(folder + " holds no exported model: there is no " + path,
                    "name the folder of one version that export_model() wrote");
  }
  internal::ServableDescription description = internal::description_from_json(text.value(), path);
  for (const auto& [name, digest] : description.files.value_or(formats::FileDigests()))
    formats::check_digest(files, join_path(folder, name), digest).value();
  return {.module = files.read_file(join_path(folder, internal::kModuleFile)).value(),
          .arguments = std::move(description.arguments),
          .signatures = std::move(description.signatures),
          .outputs = std::move(description.keys),
          .global_step = description.global_step,
          .parsing = std::move(description.parsing),
          .columns = std::move(description.columns)};
}

void register_model_format(ModelFormat format) {
  ModelFormats& known = model_formats();
  const std::lock_guard lock(known.mutex);
  std::string name = format.name;
  known.by_name.insert_or_assign(std::move(name), std::move(format));
}

ModelFormat model_format(const std::string& name) {
  ModelFormats& known = model_formats();
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.by_name.find(name); found != known.by_name.end())
    return found->second;
  if (name == "onnx" || name == "saved_model") {
    throw invalid_argument(
        fmt::format(
            "export_model: the format \"{}\" is in a part that this program is not linked with",
            name),
        "link the part: find_package(muster COMPONENTS onnx) and target_link_libraries(... "
        "muster::onnx)");
  }
  throw invalid_argument(
      fmt::format("not supported: export_model: the format \"{}\"", name),
      "TorchScript is always written; \"onnx\" and \"saved_model\" are the other formats");
}

}  // namespace muster::inline v0_1

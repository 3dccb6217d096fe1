#include "muster/export/internal/write_formats.h"

#include "muster/export/model_format.h"

namespace muster::inline v0_1::internal {

void write_formats(FileSystem& files, const std::string& directory,
                   const std::vector<std::string>& formats, const std::string& module,
                   ServableDescription& description) {
  if (formats.empty()) return;
  const ExportedModel model{.module = module,
                            .arguments = description.arguments,
                            .signatures = description.signatures,
                            .outputs = description.keys,
                            .global_step = description.global_step,
                            .parsing = description.parsing,
                            .columns = description.columns};
  for (const std::string& name : formats) {
    const ModelFormat format = model_format(name);
    for (const std::string& file : format.write(files, model, join_path(directory, format.file))) {
      (*description.files)[file] =
          formats::digest_of_file(files, join_path(directory, file)).value();
    }
  }
}

}  // namespace muster::inline v0_1::internal

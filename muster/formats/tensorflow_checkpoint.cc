#include "muster/formats/tensorflow_checkpoint.h"

#include <fmt/format.h>

#include "muster/base/regular_expression.h"

namespace muster::inline v0_1::formats {

std::optional<std::string> tensorflow_checkpoint_of(const std::string& file) {
  static const RegularExpression kName(R"((.+)\.(index|data-\d{5}-of-\d{5}))");
  RegularExpression::Groups match;
  if (!kName.full_match(file, &match)) return std::nullopt;
  return match[1];
}

std::optional<Error> tensorflow_checkpoint_error(FileSystem& files, const std::string& prefix) {
  const std::string index = prefix + ".index";
  const auto found = files.exists(index);
  if (!found.ok() || !found.value()) return std::nullopt;
  return invalid_argument(
      fmt::format("not supported: '{}' is a checkpoint in TensorFlow's own format ('{}' is there)",
                  prefix, base_name(index)),
      "Muster reads .safetensors files: to look at its arrays, write them into one with "
      "TensorFlow's tf.train.load_checkpoint and Python's safetensors; to train, pass another "
      "model_dir");
}

}  // namespace muster::inline v0_1::formats

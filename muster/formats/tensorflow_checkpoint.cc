#include "muster/formats/tensorflow_checkpoint.h"

#include <fmt/format.h>

namespace muster::inline v0_1::formats {

std::optional<std::string> tensorflow_checkpoint_of(const std::string& file) {
  const size_t dot = file.rfind('.');
  if (dot == std::string::npos || dot == 0) return std::nullopt;
  std::string ending = file.substr(dot + 1);
  // Whatever the numbers are.
  for (char& letter : ending) letter = letter >= '0' && letter <= '9' ? '0' : letter;
  if (ending != "index" && ending != "data-00000-of-00000") return std::nullopt;
  return file.substr(0, dot);
}

std::optional<Error> tensorflow_checkpoint_error(FileSystem& files, const std::string& prefix) {
  const std::string index = prefix + ".index";
  const auto found = files.exists(index);
  if (!found.ok() || !found.value()) return std::nullopt;
  return invalid_argument(
      fmt::format("not supported: '{}' is a checkpoint in TensorFlow's own format ('{}' exists)",
                  prefix, base_name(index)),
      "link the part of Muster that reads these: muster::tensorflow in CMake, -lmuster-tensorflow; "
      "or write its arrays into a .safetensors file");
}

}  // namespace muster::inline v0_1::formats

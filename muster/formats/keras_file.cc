#include "muster/formats/keras_file.h"

#include <algorithm>
#include <cctype>

namespace muster::inline v0_1::formats {

bool is_keras_file(const std::string& path) {
  return std::ranges::any_of(kKerasEndings,
                             [&](std::string_view ending) { return path.ends_with(ending); });
}

std::optional<Error> keras_file_error(FileSystem& files, const std::string& path) {
  if (!is_keras_file(path)) return std::nullopt;
  const auto found = files.exists(path);
  if (!found.ok() || !found.value()) return std::nullopt;
  return invalid_argument(
      "not supported: '" + path + "' is a file of Keras",
      "link the part of Muster that reads these: muster::kerasfiles in CMake, -lmuster-kerasfiles; "
      "or write its arrays into a .safetensors file");
}

std::string keras_group(const std::string& class_name) {
  // As to_snake_case() of Keras 3: letters, digits and '_' alone, and a '_' before a capital letter
  // that follows a small one, or that begins a word.
  std::string letters;
  for (const char letter : class_name) {
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_') letters += letter;
  }
  std::string group;
  const auto at = [&](size_t i) {
    return i < letters.size() ? static_cast<unsigned char>(letters[i]) : 0;
  };
  for (size_t i = 0; i < letters.size(); ++i) {
    const bool capital = std::isupper(at(i)) != 0;
    const bool begins = capital && i > 0 && std::islower(at(i + 1)) != 0;
    const bool follows = capital && i > 0 && std::islower(at(i - 1)) != 0;
    if (begins || follows) group += '_';
    group += static_cast<char>(std::tolower(at(i)));
  }
  return group;
}

}  // namespace muster::inline v0_1::formats

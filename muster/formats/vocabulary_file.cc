#include "muster/formats/vocabulary_file.h"

#include <fmt/format.h>

#include <unordered_map>

#include "muster/base/log.h"
#include "muster/base/printable.h"
#include "muster/formats/input_stream.h"
#include "muster/formats/lines.h"

namespace muster::inline v0_1::formats {

Result<std::vector<std::string>> read_vocabulary_file(FileSystem& files, const std::string& path,
                                                      std::optional<int64_t> most) {
  auto opened = InputStream::open(files, path);
  if (!opened.ok()) return opened.error();
  LineReader lines(std::move(opened).value());
  std::vector<std::string> words;
  std::unordered_map<std::string, size_t> places;
  std::optional<size_t> blank;
  std::string_view line;
  while (!most || static_cast<int64_t>(words.size()) < *most) {
    const Result<bool> more = lines.next(&line);
    if (!more.ok()) return more.error();
    if (!more.value()) break;
    if (words.empty()) {
      if (line.starts_with("\xff\xfe") || line.starts_with("\xfe\xff")) {
        return invalid_argument(fmt::format("not supported: '{}' is text in UTF-16", path),
                                "save it as UTF-8");
      }
      constexpr std::string_view kMark = "\xef\xbb\xbf";
      if (line.starts_with(kMark)) line.remove_prefix(kMark.size());
    }
    const size_t number = words.size() + 1;
    if (line.find('\r') != std::string_view::npos) {
      return invalid_argument(
          fmt::format("'{}': line {} holds \\r, which is not an end of a line here", path, number),
          "save it with other line ends: tr '\\r' '\\n' <FILE >FILE.txt");
    }
    const auto [known, is_new] = places.try_emplace(std::string(line), number);
    if (!is_new && line.empty()) {
      return invalid_argument(
          fmt::format("'{}': the lines {} and {} are blank", path, known->second, number),
          "remove them: each line is a word, and its number is the word's id");
    }
    if (!is_new) {
      return invalid_argument(fmt::format("'{}' names \"{}\" twice, in lines {} and {}", path,
                                          printable(line), known->second, number),
                              "each word has one id: remove one of the lines");
    }
    if (line.empty()) blank = number;
    words.emplace_back(line);
  }
  if (blank) {
    log::warning_once(fmt::format(
        "'{}': line {} is blank and keeps its id {}; remove the line if it is not a word", path,
        *blank, *blank - 1));
  }
  return words;
}

}  // namespace muster::inline v0_1::formats

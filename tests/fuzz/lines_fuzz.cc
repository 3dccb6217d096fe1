// LineReader on anything: its lines and their ends are the file, and every position leads back.
#include "muster/formats/lines.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  return {"one\ntwo\r\n\nfour", "\n\r\n\r\r\n", std::string(300, 'x') + "\nlast\n", ""};
}

std::vector<std::string> seed_folders() { return {"sparse", "tabular/titanic"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  constexpr uint64_t kLongestLine = 200;
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const auto open = [&](uint64_t longest_line) {
    return formats::LineReader(
        formats::InputStream::open(memory_reader(bytes, "input"), formats::Compression::kNone)
            .value(),
        longest_line);
  };
  fuzz::metered(parse_memory_limit(size), [&] {
    formats::LineReader all = open(formats::kLongestLine);
    for (std::string_view each; all.next(&each).value();) {
    }
  });
  formats::LineReader reader = open(kLongestLine);
  uint64_t lines = 0;
  std::string_view line;
  while (true) {
    const uint64_t begin = reader.offset();
    const Result<bool> more = reader.next(&line);
    if (more.ok() && !more.value()) break;
    const std::string text(more.ok() ? line : "");  // line_number() may take the view away
    ++lines;
    const uint64_t end = reader.offset();
    fuzz::require(end > begin && end <= size, "positions ascend within the file");
    fuzz::require(reader.line_offset() == begin, "a line begins where the last one ended");
    fuzz::require(reader.line_number().value() == lines, "lines are counted");
    if (!more.ok()) continue;
    fuzz::require(text_of(bytes).substr(begin).starts_with(text), "a line is what the file has");
    fuzz::require(text.find('\n') == std::string::npos, "a line has no line end in it");
    // Each seek() makes the next line_number() a pass over the file.
    if (lines > 8 && lines % 64 != 0) continue;
    reader.seek(begin).value();
    fuzz::require(reader.next(&line).value() && line == text, "a position leads back to its line");
    fuzz::require(reader.offset() == end, "and goes on behind it");
  }
  fuzz::require(reader.offset() == size, "the end is the end of the file");
  return 0;
}

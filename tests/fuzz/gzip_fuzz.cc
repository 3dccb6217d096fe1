// gunzip() of anything; and the output of gzip() is read back.
#include "muster/formats/gzip.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  const std::string text = "one line\nanother line\nanother line still\n";
  const std::string zeros(5000, '\0');
  return {formats::gzip(bytes_of(text)), formats::gzip(bytes_of(zeros), 1), formats::gzip(Bytes()),
          formats::gzip(bytes_of(text)) + formats::gzip(bytes_of("more"))};
}

std::vector<std::string> seed_folders() { return {"npy", "tensorflow/records/gzip"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const Result<std::string> content =
      fuzz::metered(unpack_memory_limit(size), [&] { return formats::gunzip(bytes, "input"); });
  if (content.ok()) {
    fuzz::require(formats::is_gzip(bytes), "what unpacks begins as gzip does");
    fuzz::require(
        formats::gunzip(bytes_of(formats::gzip(bytes_of(content.value()))), "again").value() ==
            content.value(),
        "what was unpacked can be packed again");
  }
  fuzz::require(
      formats::gunzip(bytes_of(formats::gzip(bytes, 1)), "packed").value() == text_of(bytes),
      "anything comes back from gzip");
  return 0;
}

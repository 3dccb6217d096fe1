// ZipReader on anything: entries have the length and lie where the directory says.
#include "muster/formats/zip.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

// Archives come from the folders; the shortest there is has no entries.
std::vector<std::string> seeds() { return {std::string("PK\x05\x06", 4) + std::string(18, '\0')}; }

std::vector<std::string> seed_folders() { return {"npy"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Result<formats::ZipReader> archive =
      formats::ZipReader::open(memory_reader(fuzz::bytes_of_input(data, size), "input"));
  if (!archive.ok()) return 0;
  for (const formats::ZipEntry& entry : archive.value().entries()) {
    fuzz::require(entry.offset + entry.packed_bytes <= size, "entries lie within the file");
    const Result<std::string> content = archive.value().read(entry);
    if (content.ok()) fuzz::require(content.value().size() == entry.bytes, "lengths are right");
  }
  return 0;
}

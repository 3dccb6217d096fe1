// ZipReader on anything: entries have the length and lie where the directory says.
#include "muster/formats/gzip.h"
#include "muster/formats/zip.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

namespace {

std::string end_of(uint16_t entries, size_t directory_bytes, size_t begin) {
  std::string end("PK\x05\x06\0\0\0\0", 8);
  append_little_endian<uint16_t>(end, entries);
  append_little_endian<uint16_t>(end, entries);
  append_little_endian<uint32_t>(end, static_cast<uint32_t>(directory_bytes));
  append_little_endian<uint32_t>(end, static_cast<uint32_t>(begin));
  return end + std::string(2, '\0');
}

// Few bytes that are many unpacked, under as many names as there are entries.
std::string overlapping(uint16_t entries, uint32_t bytes) {
  const std::string packed = formats::gzip(bytes_of(std::string(bytes, '\0')));
  const std::string deflated = packed.substr(10, packed.size() - 18);
  const std::string archive = std::string("PK\x03\x04", 4) + std::string(26, '\0') + deflated;
  std::string directory;
  for (uint16_t i = 0; i < entries; ++i) {
    directory += std::string("PK\x01\x02\0\0\0\0\0\0\x08\0\0\0\0\0", 16);
    directory += packed.substr(packed.size() - 8, 4);  // the CRC-32
    append_little_endian<uint32_t>(directory, static_cast<uint32_t>(deflated.size()));
    append_little_endian<uint32_t>(directory, bytes);
    append_little_endian<uint16_t>(directory, 4);
    directory += std::string(16, '\0') + std::to_string(1000 + i);
  }
  return archive + directory + end_of(entries, directory.size(), archive.size());
}

}  // namespace

// Archives of others come from the folders; the shortest there is has no entries.
std::vector<std::string> seeds() { return {end_of(0, 0, 0), overlapping(1, 50'000)}; }

std::vector<std::string> attacks() { return {overlapping(1000, 1 << 20)}; }

std::vector<std::string> seed_folders() { return {"npy"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Result<formats::ZipReader> archive = fuzz::metered(parse_memory_limit(size), [&] {
    return formats::ZipReader::open(memory_reader(fuzz::bytes_of_input(data, size), "input"));
  });
  if (!archive.ok()) return 0;
  // All of them are held, as load_npz() holds them.
  fuzz::metered(unpack_memory_limit(size), [&] {
    std::vector<std::string> contents;
    for (const formats::ZipEntry& entry : archive.value().entries()) {
      Result<std::string> content = archive.value().read(entry);
      if (content.ok()) contents.push_back(std::move(content).value());
    }
  });
  for (const formats::ZipEntry& entry : archive.value().entries()) {
    fuzz::require(entry.offset + entry.packed_bytes <= size, "entries lie within the file");
    const Result<std::string> content = archive.value().read(entry);
    if (content.ok()) fuzz::require(content.value().size() == entry.bytes, "lengths are right");
  }
  return 0;
}

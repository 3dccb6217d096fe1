// TfrecordReader on anything, as it comes and with checksums made good, so that hostile lengths get
// past them.
#include <cstring>
#include <limits>

#include "muster/base/crc32c.h"
#include "muster/formats/tfrecord.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  std::vector<std::string> made(3);
  for (const char* payload : {"", "a", "some longer payload of a record"}) {
    formats::append_tfrecord(made[0], bytes_of(payload));
    formats::append_tfrecord(made[1], bytes_of(std::string(500, payload[0])));
  }
  formats::append_tfrecord(made[2], bytes_of(std::string(70000, 'x')));
  return made;
}

std::vector<std::string> seed_folders() { return {"tensorflow/records", "tensorflow/events"}; }

namespace {

formats::TfrecordReader open(Bytes bytes, formats::Compression compression) {
  return formats::TfrecordReader::open(memory_reader(bytes, "input"), compression).value();
}

// Reads to the end or the first error; the records, framed again.
std::string read_all(Bytes bytes) {
  formats::TfrecordReader reader = open(bytes, formats::Compression::kNone);
  std::string again;
  Bytes payload;
  while (true) {
    const uint64_t before = reader.offset();
    const Result<bool> more = reader.read(&payload);
    if (!more.ok()) return again;
    if (!more.value()) {
      require(before == bytes.size(), "a good end is the end of the file");
      return again;
    }
    require(reader.offset() == before + payload.size() + formats::kTfrecordOverhead,
            "the position moves by one record");
    formats::append_tfrecord(again, payload);
  }
}

// Whatever the compression: as many are passed over as are read, errors included.
void check_skip(Bytes bytes) {
  formats::TfrecordReader reader = open(bytes, formats::Compression::kAuto);
  Bytes payload;
  int64_t count = 0;
  while (true) {
    const Result<bool> more = reader.read(&payload);
    if (more.ok() && !more.value()) break;
    ++count;
  }
  formats::TfrecordReader again = open(bytes, formats::Compression::kAuto);
  int64_t places = 0;
  for (; places <= count; ++places) {
    const Result<int64_t> skipped = again.skip(1);
    if (skipped.ok() && skipped.value() == 0) break;
  }
  require(places == count, "skip() counts as read() does");
}

// The checksum of each length made right, as long as lengths lead to another one.
void mend(std::string& text) {
  size_t at = 0;
  while (text.size() - at >= 12) {
    const uint32_t crc = masked_crc32c(bytes_of(text).subspan(at, 8));
    std::memcpy(text.data() + at + 8, &crc, sizeof(crc));
    const auto length = load_little_endian<uint64_t>(text.data() + at);
    if (length > text.size() - at || text.size() - at - length < formats::kTfrecordOverhead) return;
    const uint32_t content = masked_crc32c(bytes_of(text).subspan(at + 12, length));
    std::memcpy(text.data() + at + 12 + length, &content, sizeof(content));
    at += length + formats::kTfrecordOverhead;
  }
}

}  // namespace
}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  fuzz::metered(parse_memory_limit(size), [&] {
    formats::TfrecordReader reader = fuzz::open(bytes, formats::Compression::kNone);
    Bytes payload;
    for (Result<bool> more = true; more.ok() && more.value();) more = reader.read(&payload);
  });
  const std::string again = fuzz::read_all(bytes);
  fuzz::require(text_of(bytes).starts_with(again), "records are written as they were read");
  std::string mended(text_of(bytes));
  fuzz::mend(mended);
  fuzz::require(std::string_view(mended).starts_with(fuzz::read_all(bytes_of(mended))),
                "mended records are written as they were read");
  fuzz::check_skip(bytes);
  fuzz::check_skip(bytes_of(mended));
  return 0;
}

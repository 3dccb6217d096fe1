// read_npy_header() and the functions after it, on anything: an accepted array is written and read
// again.
#include "muster/formats/npy.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {
namespace {

std::string with_dict(const std::string& dict, const std::string& data) {
  std::string file = std::string("\x93NUMPY\x01\x00", 8);
  append_little_endian(file, static_cast<uint16_t>(dict.size()));
  return file + dict + data;
}

}  // namespace

std::vector<std::string> seeds() {
  std::vector<std::string> made;
  for (const char* descr : {"<f8", ">i4", "|b1", ">c8", "<U2", "|S8"}) {
    for (const char* fortran : {"True", "False"}) {
      made.push_back(with_dict(std::string("{'descr': '") + descr +
                                   "', 'fortran_order': " + fortran + ", 'shape': (3, 2), }\n",
                               std::string(std::string_view(descr) == "<U2" || descr[2] == '8' ? 48
                                           : descr[2] == '4'                                   ? 24
                                                                                               : 6,
                                           'a')));
    }
  }
  made.push_back(with_dict("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", "x"));
  return made;
}

std::vector<std::string> seed_folders() { return {"npy"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  const auto file = memory_reader(bytes, "input");
  const uint64_t most = parse_memory_limit(size);
  const Result<formats::NpyHeader> header =
      fuzz::metered(most, [&] { return formats::read_npy_header(*file); });
  if (!header.ok()) return 0;
  fuzz::require(header.value().data_bytes() <= size, "an array is no larger than its file");
  if (header.value().is_text()) {
    const Result<formats::NpyTexts> texts =
        fuzz::metered(most, [&] { return formats::read_npy_texts(*file, header.value()); });
    if (!texts.ok()) return 0;
    fuzz::require(texts.value().offsets.size() == static_cast<size_t>(header.value().size()) + 1,
                  "there are as many texts as elements");
    fuzz::require(texts.value().offsets.back() == static_cast<int64_t>(texts.value().bytes.size()),
                  "the texts fill their bytes");
    return 0;
  }
  std::string array(header.value().data_bytes(), '\0');
  fuzz::metered(most, [&] {
    formats::read_npy_data(*file, header.value(), std::as_writable_bytes(std::span(array))).value();
  });
  fuzz::StringSink sink;
  formats::write_npy(sink, header.value(), bytes_of(array)).value();
  const auto written = memory_reader(bytes_of(sink.text), "written");
  const formats::NpyHeader again = formats::read_npy_header(*written).value();
  fuzz::require(again.dtype() == header.value().dtype() && again.shape == header.value().shape,
                "the header is written as it was read");
  std::string back(again.data_bytes(), '\0');
  formats::read_npy_data(*written, again, std::as_writable_bytes(std::span(back))).value();
  fuzz::require(back == array, "the array is written as it was read");
  return 0;
}

// SafetensorsReader on anything; all tensors of an opened file can be read. A file with parts in
// other files is read that far, and refused.
#include "muster/formats/safetensors.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace muster::fuzz {

std::vector<std::string> seeds() {
  const std::string numbers(48, 'n');
  const auto bytes = [&](size_t count) { return bytes_of(numbers).first(count); };
  const auto file = [](const std::vector<formats::TensorView>& tensors,
                       const formats::SafetensorsMetadata& metadata) {
    StringSink sink;
    formats::write_safetensors(sink, tensors, metadata).value();
    return sink.text;
  };
  formats::SafetensorsParts parts{.files = {{"a", 100}, {"b", 50}}};
  parts.tensors["table"] = {"F32", {3, 2}, {{0, 40, 16, 1}, {1, 42, 8, 2}}};
  return {file({}, {}), file({}, {{std::string(formats::kSafetensorsParts), parts.to_text()}}),
          file({{"a", "F32", {2, 3}, bytes(24)}}, {}),
          file({{"layer/kernel", "F32", {3, 4}, bytes(48)},
                {"layer/bias", "BF16", {4}, bytes(8)},
                {"step", "I64", {}, bytes(8)},
                {"none", "U8", {0, 5}, bytes(0)}},
               {{"format_version", "1"}, {"note", "\u00fc"}})};
}

// Headers that took 57 times their bytes, and time for each pair of tensors.
std::vector<std::string> attacks() {
  const auto with_header = [](const std::string& header) {
    std::string text;
    append_little_endian<uint64_t>(text, header.size());
    return text + header;
  };
  std::string many = "{", metadata = R"({"__metadata__":{)";
  for (int i = 0; i < 20'000; ++i) {
    const std::string name = (i == 0 ? "\"" : ",\"") + std::to_string(i);
    many += name + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]})";
    metadata += name + R"(":"")";
  }
  return {
      with_header("{\"a\":" + std::string(100'000, '[')),
      with_header(R"({"a":{"dtype":"U8","shape":[0],"data_offsets":[)" + std::string(100'000, '[')),
      with_header(many + "}"), with_header(metadata + "}}")};
}

std::vector<std::string> seed_folders() { return {"safetensors"}; }

}  // namespace muster::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace muster;  // NOLINT(google-build-using-namespace)
  const Bytes bytes = fuzz::bytes_of_input(data, size);
  // A third of the limit: headers are long.
  const Result<formats::SafetensorsReader> reader = fuzz::metered(
      kParseFixedBytes + 16 * size,
      [&] { return formats::SafetensorsReader::open(memory_reader(bytes, "input")); });
  if (!reader.ok()) return 0;
  for (const formats::TensorEntry& entry : reader.value().tensors()) {
    const Result<std::string> content = reader.value().read(entry.name);
    fuzz::require(content.ok(), "what the header names can be read");
    fuzz::require(content.value().size() == entry.bytes, "it has the bytes the header says");
    fuzz::require(content.value() == text_of(bytes).substr(entry.offset, entry.bytes),
                  "they are those of the file");
  }
  return 0;
}

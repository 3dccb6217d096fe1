// Makes the index of a TensorFlow checkpoint from any bytes: as a file, and as entries in a whole
// table, because checksums keep nearly all changed files from the code that reads entries. Each
// entry of an input is a byte with the length of its key, the key, a byte with the length of its
// value, and the value.
#include "muster/bundles/internal/slice_key.h"
#include "muster/bundles/internal/sorted_table.h"
#include "muster/bundles/object_graph.h"
#include "muster/bundles/tensor_bundle.h"
#include "muster/bundles/variable_names.h"
#include "muster/files/testing/memory_store.h"
#include "tests/fuzz/meter.h"
#include "tests/fuzz/target.h"

namespace {

using namespace muster;  // NOLINT(google-build-using-namespace)
using tensorflow::BundleDtype;
using tensorflow::BundleReader;
using tensorflow::internal::TableEntry;

constexpr size_t kDataBytes = 200;
const std::string kPrefix = "mem://bucket/model.ckpt-1";

std::string data_file() { return kPrefix + ".data-00000-of-00001"; }

std::string as_input(const std::vector<TableEntry>& table) {
  std::string input;
  for (const auto& [key, value] : table) {
    if (key.size() > 255 || value.size() > 255) continue;
    input += static_cast<char>(key.size());
    input += key;
    input += static_cast<char>(value.size());
    input += value;
  }
  return input;
}

std::vector<TableEntry> as_table(std::string_view input) {
  std::map<std::string, std::string> entries;
  const auto take = [&] {
    const size_t length = input.empty() ? 0 : static_cast<uint8_t>(input.front());
    if (!input.empty()) input.remove_prefix(1);
    std::string text(input.substr(0, length));
    input.remove_prefix(text.size());
    return text;
  };
  while (!input.empty()) {
    std::string key = take();
    entries[std::move(key)] = take();
  }
  return {entries.begin(), entries.end()};
}

void read(const std::string& index) {
  MemoryStore store;
  store.write_atomically(kPrefix + ".index", std::string_view(index)).value();
  store.write_atomically(data_file(), std::string(kDataBytes, 'd')).value();
  try {
    const BundleReader bundle(store, kPrefix);
    std::set<std::string> names;
    for (const auto& [name, key] : keys_by_name(bundle)) names.insert(name);
    (void)tensorflow::muster_names(names);
    for (const auto& [name, entry] : bundle.entries()) {
      uint64_t covered = 0;
      for (const auto& piece : entry.pieces) {
        fuzz::require(piece.offset + piece.bytes <= kDataBytes, "a piece lies in the file");
        fuzz::require(piece.begin.size() == entry.shape.size(), "a piece has a place");
        covered += piece.bytes;
        try {
          bundle.verify(name, piece, 64);
        } catch (const Error& error) {
          fuzz::require(error.kind() == ErrorKind::kCorrupt, "damage is Corrupt");
        }
      }
      const size_t each = element_bytes(entry.dtype);
      uint64_t elements = 1;
      for (const int64_t size : entry.shape) elements *= static_cast<uint64_t>(size);
      fuzz::require(each == 0 || elements * each == covered, "pieces are all of a tensor");
    }
  } catch (const Error& error) {
    fuzz::require(
        error.kind() == ErrorKind::kCorrupt || error.kind() == ErrorKind::kInvalidArgument,
        "what cannot be read is Corrupt, or not supported");
  }
}

std::string index_of_seed() {
  MemoryStore store;
  tensorflow::BundleWriter writer(store, kPrefix);
  const std::string numbers(24, '\0');
  writer.add("dense/kernel", BundleDtype::kFloat, {2, 3}, bytes_of(numbers));
  writer.add("dense/kernel/Adam", BundleDtype::kFloat, {2, 3}, bytes_of(numbers));
  writer.add_texts("words", {2}, {"one", "two"});
  writer.add_texts("_CHECKPOINTABLE_OBJECT_GRAPH", {},
                   {std::string("\x0a\x04\x12\x02\x1a\x00", 6)});
  writer.end();
  return store.read_file(kPrefix + ".index").value();
}

}  // namespace

std::vector<std::string> muster::fuzz::seeds() {
  const std::string index = index_of_seed();
  std::vector<TableEntry> table =
      tensorflow::internal::read_sorted_table(bytes_of(index), "a seed");
  std::vector<std::string> seeds{"0" + index, "1" + as_input(table)};
  // A variable in two parts: a shape of [4, 3], rows 0 to 1 and 2 to 3.
  const std::string part = table.at(2).second;
  table.emplace_back(tensorflow::internal::slice_key("cut", {{0, 2}, {0, -1}}), part);
  table.emplace_back(tensorflow::internal::slice_key("cut", {{2, 2}, {0, -1}}), part);
  const std::string cut(
      "\x08\x01\x12\x08\x12\x02\x08\x04\x12\x02\x08\x03"
      "\x3a\x08\x0a\x04\x08\x00\x10\x02\x0a\x00\x3a\x08\x0a\x04\x08\x02\x10\x02\x0a\x00",
      32);
  table.emplace_back("cut", cut);
  seeds.push_back("1" + as_input(table));
  return seeds;
}

std::vector<std::string> muster::fuzz::seed_folders() { return {}; }

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input = text_of(fuzz::bytes_of_input(data + 1, size - 1));
  if (data[0] % 2 == 0) {
    read(std::string(input));
  } else {
    read(tensorflow::internal::write_sorted_table(as_table(input)));
  }
  return 0;
}

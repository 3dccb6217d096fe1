#include "muster/savedmodel/internal/lookup_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "muster/base/bytes.h"
#include "muster/base/hash.h"

namespace muster::inline v0_1::saved_model::internal {
namespace {

// How TensorFlow reads a file of words: the key is the line, the value its number.
constexpr int64_t kWholeLine = -2, kLineNumber = -1;

bool fits_a_line(const std::string& word) {
  return !word.empty() && word.find_first_of("\r\n") == std::string::npos;
}

std::string file_name(const std::string& name) {
  std::string file = name.empty() ? "words" : name;
  for (char& c : file) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-') c = '_';
  }
  return file;
}

}  // namespace

std::string LookupTables::add(const std::string& name, const std::vector<std::string>& words) {
  const auto [found, is_new] = tables_.try_emplace(words, "");
  if (!is_new) return found->second;
  std::string all;
  for (const std::string& word : words) all += fmt::format("{}:{}", word.size(), word);
  graph_.set_label(file_name(name) + "_words");
  // A process may load many models: tables of one name are one table, and have the same words.
  const std::string table =
      graph_.add("HashTableV2", {},
                 {{"container", text_value("")},
                  {"shared_name", text_value(fmt::format("words_{:016x}", fingerprint64(all)))},
                  {"use_node_name_sharing", flag_value(false)},
                  {"key_dtype", type_value(BundleDtype::kString)},
                  {"value_dtype", type_value(BundleDtype::kInt64)}},
                 kResource);
  found->second = table;
  const auto count = static_cast<int64_t>(words.size());
  if (std::ranges::all_of(words, fits_a_line)) {
    filling_.push_back(graph_.add_outside(table + "/Initialize", "InitializeTableFromTextFileV2",
                                          {table, add_asset(name, words)},
                                          {{"key_index", integer_value(kWholeLine)},
                                           {"value_index", integer_value(kLineNumber)},
                                           {"vocab_size", integer_value(count)},
                                           {"delimiter", text_value("\t")}},
                                          {}));
    return table;
  }
  std::vector<int64_t> places;
  for (int64_t i = 0; i < count; ++i) places.push_back(i);
  const std::string keys = graph_.texts({count}, words), values = graph_.int64s(places);
  filling_.push_back(graph_.add_outside(
      table + "/Initialize", "LookupTableImportV2", {table, keys, values},
      {{"Tin", type_value(BundleDtype::kString)}, {"Tout", type_value(BundleDtype::kInt64)}}, {}));
  return table;
}

std::string LookupTables::add_asset(const std::string& name,
                                    const std::vector<std::string>& words) {
  std::string file = file_name(name) + ".txt";
  for (int i = 1; assets_.contains(file); ++i) file = fmt::format("{}_{}.txt", file_name(name), i);
  Asset& asset = assets_[file];
  for (const std::string& word : words) asset.bytes += word + "\n";
  asset.node = graph_.texts({}, {"assets/" + file});
  return asset.node;
}

std::string LookupTables::find(const std::string& table, const std::string& texts,
                               int64_t unknown) {
  std::string bytes;
  append_little_endian(bytes, unknown);
  return graph_.add(
      "LookupTableFindV2", {table, texts, graph_.constant(BundleDtype::kInt64, {}, bytes)},
      {{"Tin", type_value(BundleDtype::kString)}, {"Tout", type_value(BundleDtype::kInt64)}},
      BundleDtype::kInt64);
}

std::string LookupTables::add_initializer() {
  if (filling_.empty()) return {};
  std::vector<std::string> waited_for;
  for (const std::string& node : filling_) waited_for.push_back("^" + node);
  return graph_.add_outside("init_all_tables", "NoOp", waited_for, {}, {});
}

}  // namespace muster::inline v0_1::saved_model::internal

// What signatures.json says of an exported model. Thread safety: values and pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/base/file_system.h"
#include "muster/data/example.h"
#include "muster/export/free_axes.h"
#include "muster/export/request_columns.h"
#include "muster/export/signature.h"
#include "muster/formats/file_digests.h"

namespace muster::inline v0_1::internal {

inline constexpr const char* kModuleFile = "model.pt";
inline constexpr const char* kWeightsFile = "model.safetensors";
inline constexpr const char* kSignaturesFile = "signatures.json";

// The names of a directory that are decimal numbers, in rising order, whether these are whole
// exported models or not. Empty where there is no such directory.
std::vector<int64_t> numbered_folders(FileSystem& files, const std::string& directory);

// Which of the module's outputs an output of a signature is.
using OutputKeys = std::map<std::string, std::string>;

// The lengths that a model takes.
struct LengthRange {
  std::vector<FreeAxis> axes{};   // they have one length together
  int64_t least = 1;              // may be 0
  std::optional<int64_t> most{};  // unset: none is known
};

struct ServableDescription {
  int64_t global_step = 0;
  std::string checkpoint{};
  std::vector<std::string> arguments{};  // the features, in the order forward() takes them
  std::map<std::string, Signature> signatures{};
  std::map<std::string, OutputKeys> keys{};         // by signature
  std::map<std::string, TextInput> texts{};         // by input
  std::set<std::string> may_be_missing{};           // inputs
  std::vector<LengthRange> lengths{};               // empty: only the batch may vary
  std::optional<data::FeatureSpec> parsing{};       // FixedLenFeatures of numbers
  std::shared_ptr<const RequestColumns> columns{};  // in front of the model; unset: none
  // Checksums of the other files of the folder; missing in exports of an older Muster.
  std::optional<formats::FileDigests> files{};
};

std::string to_json(const ServableDescription& description);
// `what` is the name of the text in errors. Throws Corrupt where it is no such text or a byte of it
// has changed, and InvalidArgument where a newer Muster wrote it.
ServableDescription description_from_json(const std::string& text, const std::string& what);

}  // namespace muster::inline v0_1::internal

// The fields of a map of a configuration, each as the kind it must have. Thread safety: a value;
// its functions are pure.
//
//   const ConfigFields fields(file, value, {"workerCount", "workerType"});
//   pool.count = fields.whole("workerCount").value_or(0);
//
// Keys are asked for in camelCase; a file may write them so, or in snake_case. Numbers may be in
// quotes, as JSON writes numbers of 64 bits. Mistakes are noted in the file, and reading continues
// as if the key were missing: ConfigFile::throw_noted() reports all of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/jobs/config_file.h"

namespace muster::inline v0_1::jobs {

class ConfigFields {
 public:
  // Notes a `map` that is none, nor nothing at all, and each key that is none of `keys`, with the
  // nearest that is. The file and the map must outlive the object.
  ConfigFields(const ConfigFile& file, const ConfigValue& map,
               const std::vector<std::string>& keys);

  // The value of a key; nullptr if the key is absent or has no value.
  const ConfigValue* find(const std::string& key) const;

  // These return nothing if the key is missing, or has a value of another kind, which is noted.
  std::optional<std::string> text(const std::string& key) const;
  // A whole number of 0 or more, at most `most`.
  std::optional<int64_t> whole(const std::string& key, int64_t most = 1'000'000) const;
  std::optional<bool> truth(const std::string& key) const;
  std::optional<double> number(const std::string& key) const;
  // Seconds: "3600s", "3600".
  std::optional<int64_t> seconds(const std::string& key) const;
  // One of `names`, of which the index is returned. Capitals and small letters are the same.
  // `elsewhere` has words of other tools, and the name that each means, for the hint.
  std::optional<size_t> choice(const std::string& key, const std::vector<std::string>& names,
                               const std::map<std::string, std::string>& elsewhere = {}) const;
  std::vector<std::string> texts(const std::string& key) const;
  std::vector<double> numbers(const std::string& key) const;
  // A map from name to text, as of labels.
  std::vector<std::pair<std::string, std::string>> pairs(const std::string& key) const;
  // The values of a list.
  std::vector<const ConfigValue*> list(const std::string& key) const;
  // The fields of a map inside; of a missing one, no fields.
  ConfigFields fields(const std::string& key, const std::vector<std::string>& keys) const;
  // Whether the key is there and has a value.
  bool has(const std::string& key) const { return find(key) != nullptr; }

  // Notes a mistake of this map, or of a key in it if it exists. `also` has the other keys that the
  // mistake concerns.
  void note(const std::string& key, const std::string& message, const std::string& hint,
            const std::vector<std::string>& also = {}) const;
  // Whether a mistake was noted that concerns this key.
  bool is_spoken_of(const std::string& key) const { return file_.is_spoken_of(path_of(key)); }
  // "trainingInput.workerCount".
  std::string path(const std::string& key) const;
  const ConfigFile& file() const { return file_; }

 private:
  const ConfigMember* member(const std::string& key) const;
  void wrong(const ConfigValue& value, const std::string& wanted,
             const std::string& hint = {}) const;
  // By the names of keys here, however the file writes them.
  std::string path_of(const std::string& key) const { return map_.path + "." + key; }
  const ConfigValue* scalar(const std::string& key, const std::string& wanted) const;
  std::optional<double> to_number(const ConfigValue& value) const;

  const ConfigFile& file_;
  const ConfigValue& map_;
};

}  // namespace muster::inline v0_1::jobs

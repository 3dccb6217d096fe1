// A configuration file as a tree of values that know where they stand, so that every error can show
// the line. YAML, and JSON, which is a kind of YAML. Thread safety: values and pure functions.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs {

// A place in the file, both from 1; columns count bytes.
struct ConfigPlace {
  int line = 1;
  int column = 1;
};

struct ConfigMember;

// One value. A scalar keeps its text: whether it is a number is asked by who wants one, since
// configurations in the wild write numbers as texts.
struct ConfigValue {
  // What stands there.
  enum class Kind { kNull, kScalar, kList, kMap };
  Kind kind = Kind::kNull;
  std::string text = {};                   // of a scalar
  std::vector<ConfigValue> items = {};     // of a list
  std::vector<ConfigMember> members = {};  // of a map, in the order of the file
  std::string path = {};                   // "trainingInput.hyperparameters.params[0]"
  ConfigPlace place = {};

  // As errors call it: "a list", "'two'", "nothing".
  std::string shown() const;
};

// A key of a map, with its value.
struct ConfigMember {
  std::string key{};
  ConfigPlace place{};
  ConfigValue value{};
};

// A file that was read.
struct ConfigFile {
  std::string name{};  // as errors call it: its path
  std::string text{};
  std::vector<ConfigValue> documents{};  // most files have one; "---" begins another

  // A mistake in the file. `about` has the paths of the keys that it speaks of.
  struct Mistake {
    ConfigPlace place{};
    std::string message{};
    std::string hint{};
    std::vector<std::string> about{};
  };
  // Those that were noted, shared by copies of the file.
  std::shared_ptr<std::vector<Mistake>> mistakes = std::make_shared<std::vector<Mistake>>();

  // Returns InvalidArgument "job.yaml:7:16: message", with the line of the file and a caret below.
  Error error(ConfigPlace place, const std::string& message, const std::string& hint) const;
  // Notes a mistake, so that reading continues and finds the others. One that speaks of a key
  // of which another one speaks already is mostly what that one leads to, and is left out.
  void note(Mistake mistake) const;
  bool is_spoken_of(const std::string& path) const;
  // Throws what was noted, in the order of the file: InvalidArgument, one error() after another.
  void throw_noted() const;
};

// Throws InvalidArgument, with the place, for text that is not a YAML or JSON, for what is not text
// (a program, a picture), a key that occurs twice in a map, more than 1 MiB, and what has no end
// because a part of it stands for the whole.
ConfigFile parse_config_file(std::string text, std::string name);

}  // namespace muster::inline v0_1::jobs

#include "tests/house/rules.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "muster/files/regular_expression.h"

namespace muster::house {
namespace {

namespace fs = std::filesystem;

constexpr int kLongFile = 600;
// The part of LibTorch that sources include; other headers may not include it.
constexpr std::string_view kTorchForSources = "muster/tensor/libtorch.h";
// The opt-in header that adapts a user's torch::nn modules.
constexpr std::string_view kTorchAdapter = "muster/torch.h";
// Measures c10d's own collectives compared with ours.
constexpr std::string_view kPeerOfBenchmarks = "benchmarks/all_reduce/contestants.cc";
// The template of `muster new`: a root of its own.
constexpr std::string_view kNewProject = "apps/muster/new_project/";
// Sources and tests that are named after no header, and why.
constexpr std::string_view kNameExceptions = "tests/house/file_names.txt";
constexpr std::array<std::string_view, 6> kRooms = {"muster",     "apps",  "examples",
                                                    "benchmarks", "tests", "tools"};

struct Floor {
  int number = 0;
  bool tensor = false;
  std::string part;
};

struct Table {
  std::map<std::string, Floor> floors;
  std::map<std::string, std::set<std::string>>
      parts;  // each with the parts it knows, itself among them
};

Table read_floors(const std::string& root) {
  std::ifstream file(root + "/FLOORS");
  if (!file) throw std::runtime_error("no FLOORS in " + root);
  Table table;
  std::string line;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string word;
    if (line.starts_with("part ")) {
      std::string part;
      words >> word >> part;
      std::set<std::string>& knows = table.parts[part];
      knows.insert(part);
      while (words >> word) {
        if (!table.parts.contains(word)) {
          throw std::runtime_error("FLOORS: '" + line + "': no line above is of the part " + word);
        }
        knows.insert(word);
      }
      continue;
    }
    Floor floor;
    std::string folder;
    std::string storey;
    if (!(words >> floor.number >> folder >> storey >> floor.part) ||
        (storey != "ground" && storey != "tensor")) {
      throw std::runtime_error("FLOORS: cannot read '" + line + "'");
    }
    floor.tensor = storey == "tensor";
    table.floors[folder] = floor;
  }
  if (table.floors.empty()) throw std::runtime_error("FLOORS is empty");
  for (const auto& [folder, floor] : table.floors) {
    if (!table.parts.contains(floor.part)) {
      throw std::runtime_error("FLOORS: " + folder + " is of the part " + floor.part +
                               ", which has no line");
    }
  }
  return table;
}

// "namespace muster::inline v0_1" for a project of version 0.1.x.
std::string versioned_namespace(const std::string& root) {
  std::ifstream file(root + "/CMakeLists.txt");
  static const RegularExpression kProject("project\\(muster VERSION (\\d+)\\.(\\d+)");
  RegularExpression::Groups version;
  std::string line;
  while (std::getline(file, line)) {
    if (kProject.search(line, &version))
      return "namespace muster::inline v" + version[1] + "_" + version[2];
  }
  throw std::runtime_error("no project(muster VERSION ...) in " + root + "/CMakeLists.txt");
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> starts) {
  return std::any_of(starts.begin(), starts.end(),
                     [&](std::string_view start) { return text.starts_with(start); });
}

bool is_libtorch(std::string_view header) {
  return starts_with_any(header, {"torch/", "ATen/", "c10/", "c10d/", "caffe2/"});
}

bool is_heavy(std::string_view header) {
  return starts_with_any(header, {"gloo/", "nccl.h", "mpi.h"}) || header.ends_with(".pb.h");
}

// The folder of muster/ a path lies in: "plan" for "muster/plan/internal/a.h"; "" for others.
std::string folder_of(const std::string& path) {
  if (!path.starts_with("muster/")) return "";
  const std::size_t end = path.find('/', 7);
  return end == std::string::npos ? "" : path.substr(7, end - 7);
}

// The folder after whose nouns a file is named: its own, and the one around `internal` or
// `testing`.
std::string folder_of_names(const fs::path& file) {
  const fs::path folder = file.parent_path();
  const bool within = folder.filename() == "internal" || folder.filename() == "testing";
  return (within ? folder.parent_path() : folder).string();
}

// "noun", and "noun_" followed by more.
bool begins_with_noun(std::string_view name, std::string_view noun) {
  return name.starts_with(noun) && (name.size() == noun.size() || name[noun.size()] == '_');
}

// "noun", and more that ends with "_noun".
bool ends_with_noun(std::string_view name, std::string_view noun) {
  return name.ends_with(noun) &&
         (name.size() == noun.size() || name[name.size() - noun.size() - 1] == '_');
}

// The first words of the lines of the text file; without comments.
std::set<std::string> first_words(const std::string& path) {
  std::ifstream file(path);
  std::set<std::string> found;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    if (std::string word; words >> word && word[0] != '#') found.insert(word);
  }
  return found;
}

// Whether users may include it: not if it is internal to a folder, or shared by tests.
bool is_public(const std::string& header) {
  return header.find("/internal/") == std::string::npos &&
         header.find("/testing/") == std::string::npos;
}

class Checker {
 public:
  explicit Checker(const std::string& root) : Checker(root, read_floors(root)) {}
  Checker(const std::string& root, Table table)
      : root_(root),
        floors_(std::move(table.floors)),
        parts_(std::move(table.parts)),
        namespace_(versioned_namespace(root)) {}

  Report check() {
    check_folders();
    for (const std::string_view room : kRooms) {
      const fs::path start = fs::path(root_) / room;
      if (!fs::is_directory(start)) continue;
      for (const auto& entry : fs::recursive_directory_iterator(start)) {
        if (entry.is_regular_file()) files_.push_back(fs::relative(entry.path(), root_).string());
      }
    }
    std::sort(files_.begin(), files_.end());
    for (const std::string& file : files_) check_file(file);
    check_names();
    return std::move(report_);
  }

 private:
  void violate(const std::string& file, int line, std::string what) {
    report_.violations.push_back({file, line, std::move(what)});
  }

  void check_folders() {
    for (const auto& [folder, floor] : floors_) {
      if (!fs::is_directory(fs::path(root_) / "muster" / folder)) {
        violate("FLOORS", 0, "names muster/" + folder + ", which is not there");
      }
    }
    if (!fs::is_directory(fs::path(root_) / "muster")) return;
    for (const auto& entry : fs::directory_iterator(fs::path(root_) / "muster")) {
      const std::string name = entry.path().filename().string();
      if (entry.is_directory() && !floors_.contains(name)) {
        violate("muster/" + name, 0, "stands on no floor: add it to FLOORS");
      }
    }
  }

  void check_file(const std::string& file) {
    const bool header = file.ends_with(".h");
    const bool source = header || file.ends_with(".cc");
    // Code that tests share is in the same namespace as the test models of muster/.
    const bool versioned = starts_with_any(file, {"muster/", "tests/support/"});
    if (!source && !file.ends_with(".txt") && !file.ends_with(".sh") && !file.ends_with(".proto"))
      return;
    std::ifstream stream(root_ + "/" + file);
    // Spelled in two halves, or this file would break its own rule.
    static const RegularExpression kUnfinished(
        "\\b(TO"
        "DO|FIX"
        "ME|XX"
        "X|HA"
        "CK)\\b");
    static const RegularExpression kInclude("^\\s*#\\s*include\\s*([<\"])([^>\"]+)[>\"]");
    static const RegularExpression kOnce("^#pragma once");
    static const RegularExpression kVersionSwitch("^\\s*#\\s*(el)?if.*TORCH_VERSION");
    // Structs that programs fill by name: a compiler warns of each omitted field that has no
    // initializer.
    static const RegularExpression kOptions(
        "^( *)struct \\w*(Options|Spec|Config|Settings|Limits|Flag|Flags) \\{");
    static const RegularExpression kBareField("^ *[A-Za-z_][A-Za-z0-9_:<>,*& ()]*[ >*]\\w+;");
    static const RegularExpression kNoField(
        "^ *(using|static|friend|return|typedef) |\\) *(const)?;");
    const bool options_are_public = header && file.starts_with("muster/") && is_public(file);
    std::string options_end;  // of the struct that is being read; empty outside of one
    std::string line;
    int number = 0;
    bool once = false;
    while (std::getline(stream, line)) {
      ++number;
      if (options_are_public) {
        RegularExpression::Groups indent;
        if (options_end.empty() && kOptions.search(line, &indent)) {
          options_end = indent[1] + "};";
        } else if (line == options_end) {
          options_end.clear();
        } else if (!options_end.empty() && kBareField.search(line) && !kNoField.search(line)) {
          violate(file, number,
                  "give this field an initializer, such as {}, so that programs may leave it out");
        }
      }
      if (kUnfinished.search(line)) violate(file, number, "unfinished: " + line);
      if (!source) continue;
      if (number == 1 && header && !line.starts_with("//")) {
        violate(file, 1, "a header begins with a comment that says what it is");
      }
      once = once || kOnce.search(line);
      if (kVersionSwitch.search(line))
        violate(file, number, "asks for the version of LibTorch: use what all versions have");
      RegularExpression::Groups match;
      if (kInclude.search(line, &match)) check_include(file, number, match[1] == "\"", match[2]);
      if (versioned && line.starts_with("namespace muster") &&
          !line.starts_with(namespace_ + "::") && !line.starts_with(namespace_ + " ")) {
        violate(file, number, "open it as " + namespace_ + ", so that symbols carry the version");
      }
    }
    if (header && !once) violate(file, 0, "no #pragma once");
    if (number > kLongFile) {
      report_.warnings.push_back(
          {file, 0, std::to_string(number) + " lines: what two things is it?"});
    }
  }

  // A source and a test are named after a header of their folder; see CONTRIBUTING.md.
  void check_names() {
    std::map<std::string, std::set<std::string>> nouns, sources;  // by folder
    for (const std::string& file : files_) {
      const std::string name = fs::path(file).stem().string();
      if (file.ends_with(".h")) nouns[folder_of_names(file)].insert(name);
      if (file.ends_with(".cc") && !name.ends_with("_test"))
        sources[folder_of_names(file)].insert(name);
    }
    std::set<std::string> exceptions = first_words(root_ + "/" + std::string(kNameExceptions));
    for (const std::string& file : files_) {
      if (!file.ends_with(".cc") || !starts_with_any(file, {"muster/", "apps/"}) ||
          file.starts_with(kNewProject) || exceptions.erase(file) > 0)
        continue;
      const std::string folder = folder_of_names(file);
      const std::string name = fs::path(folder).filename().string();
      if (!is_named_after(file, name, nouns[folder], sources[folder])) {
        violate(file, 0,
                "no header of its folder gives it its name: noun.cc, noun_part.cc, kind_noun.cc; "
                "noun_test.cc, noun_aspect_test.cc, FOLDER_aspect_test.cc, aspect_law_test.cc");
      }
    }
    for (const std::string& file : exceptions)
      violate(std::string(kNameExceptions), 0, "names " + file + ", which is not there");
  }

  static bool is_named_after(const std::string& file, const std::string& folder,
                             const std::set<std::string>& nouns,
                             const std::set<std::string>& sources) {
    std::string name = fs::path(file).stem().string();
    const auto without_end = [&](std::string_view end) {
      const bool has = name.ends_with(end);
      if (has) name.resize(name.size() - end.size());
      return has;
    };
    const bool test = without_end("_test");
    if (!test) without_end("_fuzz");
    const auto begins = [&](const std::string& noun) { return begins_with_noun(name, noun); };
    const auto ends = [&](const std::string& noun) { return ends_with_noun(name, noun); };
    if (std::ranges::any_of(nouns, begins)) return true;
    if (test)
      return begins_with_noun(name, folder) || name.ends_with("_law") || sources.contains(name);
    return std::ranges::any_of(nouns, ends) || name == "main" || name.starts_with("without_") ||
           (name.ends_with("_command") && nouns.contains("commands"));
  }

  void check_include(const std::string& file, int line, bool quoted, const std::string& included) {
    const bool ours = std::any_of(kRooms.begin(), kRooms.end(), [&](std::string_view room) {
      return included.starts_with(std::string(room) + "/");
    });
    if (quoted && !ours && !file.starts_with(kNewProject)) {
      violate(file, line, "\"" + included + "\": include by the full path from the root");
    }
    const std::string folder = folder_of(file);
    const std::string target = folder_of(included);
    const bool test = file.ends_with("_test.cc") || file.ends_with("_fuzz.cc");
    if (file.starts_with("muster/") && ours && !included.starts_with("muster/") &&
        !(test && included.starts_with("tests/"))) {
      violate(file, line, included + ": muster/ does not know the roof");
    }
    if (included.find("/internal/") != std::string::npos && ours && folder != target) {
      violate(file, line, included + ": private to its folder");
    }
    if (!folder.empty() && !target.empty() && folder != target) {
      check_floors(file, line, folder, target);
      check_parts(file, line, folder, target);
    }
    check_umbrella(file, line, target);
    if (!folder.empty() && included.starts_with("muster/") && target.empty()) {
      violate(file, line, included + ": folders of muster/ do not include the headers above them");
    }
    if (included.starts_with("torch/csrc/distributed/") && file != kPeerOfBenchmarks)
      violate(file, line, included + ": c10d moves between versions of LibTorch");
    check_weight(file, line, folder, included);
  }

  void check_floors(const std::string& file, int line, const std::string& folder,
                    const std::string& target) {
    const auto from = floors_.find(folder);
    const auto to = floors_.find(target);
    if (from == floors_.end()) return;  // reported by check_folders
    if (to == floors_.end()) {
      violate(file, line, "includes muster/" + target + ", which is on no floor");
    } else if (to->second.number == from->second.number) {
      violate(file, line,
              folder + " and " + target + " share floor " + std::to_string(to->second.number) +
                  ": they do not know each other");
    } else if (to->second.number > from->second.number) {
      violate(file, line,
              folder + " (floor " + std::to_string(from->second.number) + ") includes " + target +
                  " (floor " + std::to_string(to->second.number) + ")");
    }
  }

  void check_parts(const std::string& file, int line, const std::string& folder,
                   const std::string& target) {
    const auto from = floors_.find(folder);
    const auto to = floors_.find(target);
    if (from == floors_.end() || to == floors_.end()) return;  // reported by check_floors
    const std::string& part = from->second.part;
    if (!parts_.at(part).contains(to->second.part)) {
      violate(file, line,
              folder + " (part " + part + ") includes " + target + " (part " + to->second.part +
                  "), which the part " + part + " does not know");
    }
  }

  // The header of a part, muster/PART.h, includes that part alone.
  void check_umbrella(const std::string& file, int line, const std::string& target) {
    const auto to = floors_.find(target);
    if (to == floors_.end() || !file.starts_with("muster/") || !file.ends_with(".h")) return;
    const std::string part = file.substr(7, file.size() - 9);
    if (parts_.contains(part) && to->second.part != part) {
      violate(file, line,
              target + " is of the part " + to->second.part + ", and this header of " + part);
    }
  }

  void check_weight(const std::string& file, int line, const std::string& folder,
                    const std::string& included) {
    if (!file.starts_with("muster/") || file == kTorchAdapter || file == kTorchForSources) return;
    const auto floor = floors_.find(folder);
    const bool ground = floor != floors_.end() && !floor->second.tensor;
    if (ground && is_libtorch(included)) {
      violate(file, line, included + ": the ground storey has no LibTorch");
      return;
    }
    const bool header = file.ends_with(".h");
    if (!header || !is_public(file)) return;
    if (is_heavy(included)) violate(file, line, included + ": heavy headers belong into .cc files");
    if (included == kTorchForSources ||
        (is_libtorch(included) && included != "ATen/core/Tensor.h")) {
      violate(file, line,
              included + ": public headers include no more of LibTorch than <ATen/core/Tensor.h>");
    }
    if (included == "nlohmann/json.hpp") {
      violate(file, line, included + ": in headers, <nlohmann/json_fwd.hpp>");
    }
  }

  const std::string root_;
  const std::map<std::string, Floor> floors_;
  const std::map<std::string, std::set<std::string>> parts_;
  const std::string namespace_;
  std::vector<std::string> files_;
  Report report_;
};

}  // namespace

std::string to_string(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    text += finding.file;
    if (finding.line > 0) text += ":" + std::to_string(finding.line);
    text += ": " + finding.what + "\n";
  }
  return text;
}

Report check_house(const std::string& root) { return Checker(root).check(); }

}  // namespace muster::house

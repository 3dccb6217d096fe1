#include "muster/train/internal/unmatched_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "muster/base/error.h"
#include "muster/base/nearest.h"
#include "muster/base/strings.h"

namespace muster::inline v0_1::internal {
namespace {

bool is_of_name(char letter) {
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' || letter == '/';
}

// The longest part of `pattern` that means itself, without slashes around it: "layer_norm/gamma" of
// "layer_norm/gamma$".
std::string literal_of(const std::string& pattern) {
  std::string longest, part;
  for (const char letter : pattern + "$") {
    if (is_of_name(letter)) {
      part += letter;
      continue;
    }
    if (part.size() > longest.size()) longest = part;
    part.clear();
  }
  const size_t begin = longest.find_first_not_of('/');
  if (begin == std::string::npos) return "";
  return longest.substr(begin, longest.find_last_not_of('/') - begin + 1);
}

// All parts of `names` of as many steps as `literal` has: "encoder/dense" and "dense/kernel" of
// "encoder/dense/kernel", for "encodr/dense".
std::vector<std::string> parts_like(const std::string& literal,
                                    const std::vector<std::string>& names) {
  const size_t steps = split(literal, '/').size();
  std::set<std::string> parts;
  for (const std::string& name : names) {
    const std::vector<std::string> words = split(name, '/');
    for (size_t begin = 0; begin + steps <= words.size(); ++begin) {
      const auto first = words.begin() + static_cast<std::ptrdiff_t>(begin);
      parts.insert(join({first, first + static_cast<std::ptrdiff_t>(steps)}, "/"));
    }
  }
  return {parts.begin(), parts.end()};
}

}  // namespace

std::vector<std::string> unmatched_patterns(const optim::TrainOp& train_op,
                                            const std::vector<std::string>& names) {
  constexpr size_t kShown = 8;
  std::vector<std::string> lines;
  for (const auto& entry : train_op.entries) {
    for (const auto& one : optim::unmatched(entry.optimizer.name_patterns(), names)) {
      const std::string literal = literal_of(one.pattern);
      const auto meant = nearest(literal, parts_like(literal, names));
      const std::string line = fmt::format(
          "{}: {} has \"{}\", which is in the name of no variable and does nothing{}; mend it or "
          "leave it out: the variables are {}",
          one.owner, one.field, one.pattern,
          meant ? fmt::format(" (did you mean '{}'?)", *meant) : std::string(),
          join_quoted(names, kShown));
      // Two entries may share an optimizer.
      if (std::ranges::find(lines, line) == lines.end()) lines.push_back(line);
    }
  }
  return lines;
}

void check_filters(const optim::TrainOp& train_op, const std::vector<VariableSpec>& trainable) {
  if (trainable.empty()) return;
  for (const auto& entry : train_op.entries) {
    if (!entry.asked || std::ranges::any_of(trainable, entry.asked)) continue;
    std::vector<std::string> names;
    for (const VariableSpec& spec : trainable) names.push_back(spec.name);
    constexpr size_t kMost = 20;
    const size_t more = names.size() > kMost ? names.size() - kMost : 0;
    names.resize(names.size() - more);
    throw invalid_argument(
        fmt::format("the filter that {} of the optimizer {} was given accepts no variable: there "
                    "are {}{}",
                    entry.rests ? "no_step()" : "minimize()", entry.optimizer.name(),
                    join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : ""),
        "it is asked for each of them, by VariableSpec::name; a layer or module gives them its "
        "name in front, and what trains nothing is left out");
  }
}

}  // namespace muster::inline v0_1::internal

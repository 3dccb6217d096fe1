#include "muster/optim/internal/name_patterns.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/files/regular_expression.h"

namespace muster::inline v0_1::optim::internal {

class NamePatterns::Pattern {
 public:
  explicit Pattern(const std::string& text) : expression_(text) {}

  const std::string& text() const { return expression_.pattern(); }
  bool match(const std::string& name) const {
    const std::lock_guard lock(mutex_);
    const auto [known, added] = matches_.try_emplace(name, false);
    if (added) known->second = expression_.search(name);
    return known->second;
  }
  // Throws InvalidArgument.
  static std::shared_ptr<const Pattern> of(const std::string& text) {
    static std::mutex mutex;
    static auto& known = *new std::map<std::string, std::shared_ptr<const Pattern>>;
    const std::lock_guard lock(mutex);
    const auto found = known.find(text);
    if (found != known.end()) return found->second;
    return known.emplace(text, std::make_shared<const Pattern>(text)).first->second;
  }

 private:
  const RegularExpression expression_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::string, bool> matches_;  // by the variable's name
};

NamePatterns::NamePatterns(const char* owner, const char* field,
                           const std::vector<std::string>& patterns)
    : owner_(owner), field_(field) {
  for (const std::string& pattern : patterns) {
    if (pattern.empty()) {
      throw invalid_argument(fmt::format("{}: {} has \"\"", owner, field),
                             "an empty expression is in every name; leave it out, or write \".*\"");
    }
    try {
      patterns_.push_back(Pattern::of(pattern));
    } catch (const Error& error) {
      throw invalid_argument(error.message(), "it must be a regular expression: " + error.hint())
          .with_context(fmt::format("{}: {} has \"{}\"", owner, field, pattern));
    }
  }
}

bool NamePatterns::match(const std::string& name) const {
  for (const auto& pattern : patterns_) {
    if (pattern->match(name)) return true;
  }
  return false;
}

WeightDecay NamePatterns::weight_decay(double weight_decay) const {
  if (weight_decay == 0) return WeightDecay::kNone;
  return empty() ? WeightDecay::kAll : WeightDecay::kSome;
}

std::string NamePatterns::describe() const {
  std::string text;
  for (const auto& pattern : patterns_) text += (text.empty() ? "" : ", ") + pattern->text();
  return "[" + text + "]";
}

std::vector<NamePattern> NamePatterns::list() const {
  std::vector<NamePattern> patterns;
  for (const auto& pattern : patterns_) patterns.push_back({owner_, field_, pattern->text()});
  return patterns;
}

}  // namespace muster::inline v0_1::optim::internal

namespace muster::inline v0_1::optim {

std::vector<NamePattern> unmatched(const std::vector<NamePattern>& patterns,
                                   const std::vector<std::string>& names) {
  std::vector<NamePattern> found;
  for (const NamePattern& one : patterns) {
    const RegularExpression expression(one.pattern);
    if (std::ranges::none_of(names, [&](const auto& name) { return expression.search(name); }))
      found.push_back(one);
  }
  return found;
}

}  // namespace muster::inline v0_1::optim

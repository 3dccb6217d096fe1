#include "muster/optim/internal/name_patterns.h"

#include <fmt/format.h>

#include <map>
#include <mutex>
#include <unordered_map>

#include "muster/base/error.h"
#include "muster/base/regular_expression.h"

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
                           const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
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

std::string NamePatterns::describe() const {
  std::string text;
  for (const auto& pattern : patterns_) text += (text.empty() ? "" : ", ") + pattern->text();
  return "[" + text + "]";
}

}  // namespace muster::inline v0_1::optim::internal

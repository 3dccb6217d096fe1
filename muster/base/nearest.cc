#include "muster/base/nearest.h"

#include <algorithm>

#include "muster/base/strings.h"

namespace muster::inline v0_1 {
namespace {

std::string plain(std::string_view word) {
  std::string text = to_lower(word);
  std::ranges::replace(text, '-', '_');
  return text;
}

// Returns how many letters must be left out, added, changed or swapped with a neighbour (optimal
// string alignment).
size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t change = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, change});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
      }
    }
  }
  return cost[a.size()][b.size()];
}

// Whether `word` is short for `candidate` by the number of the letters left out: "k8s" for
// "kubernetes".
bool counts_letters_of(std::string_view word, std::string_view candidate) {
  if (word.size() < 3 || candidate.size() < word.size()) return false;
  const auto count = parse_int(word.substr(1, word.size() - 2));
  return count && *count == static_cast<int64_t>(candidate.size()) - 2 &&
         word.front() == candidate.front() && word.back() == candidate.back();
}

}  // namespace

std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::string wanted = plain(word);
  if (wanted.empty()) return std::nullopt;
  const size_t most = std::max<size_t>(1, wanted.size() / 3);
  std::optional<std::string> found;
  size_t least = most + 1;
  for (const std::string& candidate : known) {
    // At least this many letters are added or left out. A word of megabytes therefore costs
    // nothing.
    const size_t longer = std::max(wanted.size(), candidate.size());
    if (longer - std::min(wanted.size(), candidate.size()) >= least) continue;
    const size_t apart = distance(wanted, plain(candidate));
    if (apart >= least) continue;
    least = apart;
    found = candidate;
  }
  if (found) return found;
  for (const std::string& candidate : known) {
    if (counts_letters_of(wanted, plain(candidate))) return candidate;
  }
  for (const std::string& candidate : known) {
    if (!plain(candidate).starts_with(wanted)) continue;
    if (found) return std::nullopt;
    found = candidate;
  }
  return found;
}

}  // namespace muster::inline v0_1

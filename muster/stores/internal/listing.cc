#include "muster/stores/internal/listing.h"

#include <fmt/format.h>

#include <string_view>
#include <unordered_set>
#include <utility>

#include "muster/base/log.h"
#include "muster/base/printable.h"

namespace muster::inline v0_1::stores::internal {
namespace {

// Services give empty pages where much was deleted, but not for ever.
constexpr size_t kMostIdlePages = 1000;
constexpr size_t kMostPages = 100'000;
constexpr size_t kMostNames = 10'000'000;
constexpr double kSecondsBetweenLines = 10;

Error wrong_list(const ObjectName& directory, const std::string& why) {
  return corrupt(
      "the list of '" + directory.uri() + "' " + why,
      "the service, or a proxy before it, has an error: compare with a list by its own tools");
}

// Returns the fault of a name in the list; "" if there is none. A prefix ends with a slash.
std::string fault_of(std::string_view name, const std::string& prefix, bool flat, bool is_prefix) {
  if (!name.starts_with(prefix)) return "does not lie in it";
  std::string_view rest = name.substr(prefix.size());
  if (is_prefix) {
    if (!rest.ends_with('/')) return "is not a folder";
    rest.remove_suffix(1);
  }
  if (!flat && rest.find('/') != std::string_view::npos) return "lies in a folder below";
  if (name.empty()) return "is empty";
  if (name.size() > kMostKey) return "is longer than a name can be";
  if (name.find('\0') != std::string_view::npos) return "holds a zero byte";
  return "";
}

Status check_names(const ListPage& page, const ObjectName& directory, bool flat) {
  const std::string prefix = directory.directory_prefix();
  const auto check = [&](const std::vector<std::string>& names, bool is_prefix) -> Status {
    for (const std::string& name : names) {
      if (const std::string fault = fault_of(name, prefix, flat, is_prefix); !fault.empty())
        return wrong_list(directory, "names '" + printable_beginning(name) + "', which " + fault);
    }
    return {};
  };
  if (Status keys = check(page.keys, false); !keys.ok()) return keys;
  return check(page.prefixes, true);
}

}  // namespace

Status list_pages(ObjectService& service, const ObjectName& directory, bool flat, int most,
                  Clock& clock, const std::function<Seen(ListPage&)>& take) {
  std::unordered_set<size_t> asked;  // hashes of the tokens that requested the pages
  std::string next;
  size_t pages = 0, idle = 0, names = 0;
  TimePoint said = clock.now();
  while (true) {
    Result<ListPage> page = service.list(directory, directory.directory_prefix(), flat, next, most);
    if (!page.ok()) return page.error();
    if (Status checked = check_names(page.value(), directory, flat); !checked.ok()) return checked;
    names += page.value().keys.size() + page.value().prefixes.size();
    next = page.value().next;
    const Seen seen = take(page.value());
    if (next.empty() || seen == Seen::kEnough) return {};
    if (!asked.insert(std::hash<std::string>()(next)).second)
      return wrong_list(directory, "makes no progress: its pages name each other");
    idle = seen == Seen::kNothingNew ? idle + 1 : 0;
    if (idle == kMostIdlePages) {
      return wrong_list(
          directory,
          fmt::format("makes no progress: {} pages in a row have no new names", kMostIdlePages));
    }
    if (++pages == kMostPages || names > kMostNames) {
      return wrong_list(directory, fmt::format("has no end: there are {} names on {} pages so far; "
                                               "a folder may have {}",
                                               names, pages, kMostNames));
    }
    if (clock.now() - said >= from_seconds(kSecondsBetweenLines)) {
      said = clock.now();
      log::info(
          fmt::format("listing '{}': {} names on {} pages so far", directory.uri(), names, pages));
    }
  }
}

Result<ListPage> first_page(ObjectService& service, const ObjectName& directory, bool flat,
                            int most, Clock& clock) {
  ListPage first;
  const Status listed = list_pages(service, directory, flat, most, clock, [&](ListPage& page) {
    first = std::move(page);
    return first.keys.empty() && first.prefixes.empty() ? Seen::kNothingNew : Seen::kEnough;
  });
  if (!listed.ok()) return listed.error();
  return first;
}

}  // namespace muster::inline v0_1::stores::internal

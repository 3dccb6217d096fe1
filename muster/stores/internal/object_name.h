// Names of objects in buckets, and how URLs write them. Thread safety: values and pure functions.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/base/result.h"

namespace muster::inline v0_1::stores::internal {

// Both services take no longer keys, in bytes.
inline constexpr size_t kMostKey = 1024;

// An object, or with an empty key its bucket.
struct ObjectName {
  std::string scheme;  // "s3"
  std::string bucket;
  std::string key;  // letter by letter; "/a" and "a//b" are names that are not "a" and "a/b"

  std::string uri() const { return scheme + "://" + bucket + (key.empty() ? "" : "/" + key); }
  // Another object of the same bucket.
  ObjectName with_key(std::string other) const { return {scheme, bucket, std::move(other)}; }
  // The prefix of keys inside of this directory: "a/b/", and "" for the bucket.
  std::string directory_prefix() const;
  // Whether a slash precedes the key, or follows another.
  bool has_empty_part() const;
  // The hint for such a missing name: it shows the name without the empty parts.
  std::string empty_part_hint() const;
};

// Reads "scheme://bucket/key". Slashes at the end are dropped, as they are of paths; all else is
// the object's name. Returns InvalidArgument when there is no bucket.
Result<ObjectName> parse_object_name(std::string_view scheme, const std::string& uri);

// Writes each byte except letters, digits, "-._~" (and "/" if it is kept) as "%2F".
std::string percent_encode(std::string_view text, bool keep_slashes = false);

// The parameters of a URL, in the order in which signatures want them.
class Query {
 public:
  Query() = default;
  Query(std::initializer_list<std::pair<std::string, std::string>> parameters);
  void add(std::string_view name, std::string_view value);
  // "a=1&b=" with everything encoded.
  std::string text() const;

 private:
  std::vector<std::pair<std::string, std::string>> encoded_;  // sorted
};

}  // namespace muster::inline v0_1::stores::internal

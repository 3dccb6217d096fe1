// Whether two names mean one file. Thread safety: a function of the disk as it is now.
#pragma once

#include <string>

namespace muster::inline v0_1 {

// Whether a write to `a` changes the content of `b`: the same path or URI, or a file of this
// machine by two names ("a" and "./a", links). False if one of the names does not exist.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace muster::inline v0_1

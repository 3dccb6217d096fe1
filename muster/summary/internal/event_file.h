// The common part of every event file: a name by which TensorBoard knows it, and a first record.
// Thread safety: free functions.
#pragma once

#include <cstdint>
#include <string>

namespace muster::inline v0_1::summary::internal {

// A number of this process that no call before has given.
int64_t next_event_file();

// "events.out.tfevents.<10 digits of seconds>.<host>.<pid>.<number><suffix>".
std::string event_file_name(int64_t seconds, const std::string& number, const std::string& suffix);

// The bytes of the first record.
std::string event_file_header(double wall_time);

}  // namespace muster::inline v0_1::summary::internal

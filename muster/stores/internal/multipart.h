// What uploads by parts have in common at Amazon and at Google, whose XML API is that of S3. Thread
// safety: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/result.h"
#include "muster/stores/internal/object_name.h"

namespace muster::inline v0_1::stores::internal {

// Returns the id of the upload that a service has begun, out of its answer. `variable` is the one
// that says where the service is, for the hint of an answer that names none.
Result<std::string> upload_id_of(const std::string& body, const ObjectName& object,
                                 const std::string& variable);

// Returns the bytes of part `number`, from 1 on, where the first has `first`. There are 10,000
// parts at most: those that double after each thousand reach 8 TiB, beyond the largest object there
// may be.
size_t bytes_of_part(size_t first, int number);

}  // namespace muster::inline v0_1::stores::internal

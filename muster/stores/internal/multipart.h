// The common part of uploads by parts at Amazon and at Google, whose XML API equals S3's. Thread
// safety: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "muster/base/result.h"
#include "muster/stores/internal/object_name.h"

namespace muster::inline v0_1::stores::internal {

// Returns the id of the upload that a service has begun, out of its answer. `variable` is the
// variable for the service's address, for the hint if the answer names no upload.
Result<std::string> upload_id_of(const std::string& body, const ObjectName& object,
                                 const std::string& variable);

// Returns the bytes of part `number`, from 1 on, if the first has `first`. There are 10,000 parts
// at most: sizes that double after each thousand reach 8 TiB, beyond the largest possible object.
size_t bytes_of_part(size_t first, int number);

}  // namespace muster::inline v0_1::stores::internal

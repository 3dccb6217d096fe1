// The part that the functions of image.h share. Thread safety: pure functions.
#pragma once

#include "muster/data/image.h"

namespace muster::inline v0_1::data::internal {

// Throws InvalidArgument for the first option that is out of range.
void check_image_options(const ImageOptions& options);

}  // namespace muster::inline v0_1::data::internal

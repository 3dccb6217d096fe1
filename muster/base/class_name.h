// How an object's class is called in what users read. Thread safety: a pure function.
#pragma once

#include <string>
#include <typeinfo>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Gives "RecordLoss" for typeid(object): without the names of what the class stands in. "" where
// the compiler's name for it cannot be read.
MUSTER_PART_EXPORT std::string class_name(const std::type_info& type);

}  // namespace muster::inline v0_1

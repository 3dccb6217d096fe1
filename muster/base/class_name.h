// The name of an object's class in texts for users. Thread safety: a pure function.
#pragma once

#include <string>
#include <typeinfo>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Returns "RecordLoss" for typeid(object): without the enclosing namespaces and classes. "" if the
// compiler's name for it cannot be read.
MUSTER_PART_EXPORT std::string class_name(const std::type_info& type);

}  // namespace muster::inline v0_1

// Which values of a metric are better, where only its name is known. Thread safety: pure functions.
#pragma once

#include <string_view>

#include "muster/base/export.h"

namespace muster::inline v0_1 {

// Whether higher or lower values are better; kUnknown where there is no telling.
enum class Better { kUnknown, kHigher, kLower };

// Which values of a metric of this name are better. It knows the words that metrics are called by
// wherever they stand in the name: "val_auc_pr", "my_accuracy", "f1" and "mean_iou" are better when
// they are higher, "loss", "rmse" and "kl_divergence" when they are lower. kUnknown for a name
// without such a word ("label/mean", "brier_score"), and for one with words of both kinds.
MUSTER_EXPORT Better better_by_name(std::string_view name);

// Says, once, that a program asks for the other direction than the name of the metric tells.
// `whose` begins the line: "stop_if_no_decrease". Nothing where the name tells nothing.
MUSTER_EXPORT void warn_of_direction(std::string_view whose, std::string_view name, Better asked);

}  // namespace muster::inline v0_1

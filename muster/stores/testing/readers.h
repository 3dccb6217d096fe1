// The readers of what stores answer and what their users name, for the fuzz target, which stands
// outside of this folder. Thread safety: pure functions.
#pragma once

#include "muster/stores/internal/answers.h"
#include "muster/stores/internal/aws_profile.h"
#include "muster/stores/internal/digest.h"
#include "muster/stores/internal/object_name.h"

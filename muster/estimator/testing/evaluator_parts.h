// The evaluator task and the chief's part of it, for simulations in other folders.
#pragma once

#include "muster/estimator/internal/evaluator_link.h"
#include "muster/estimator/internal/evaluator_task.h"

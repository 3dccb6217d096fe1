// `muster train`: a table becomes a model, a report and an export. Thread safety: one thread.
#pragma once

#include "apps/train/train_flags.h"

namespace muster::app {

// Trains, reports on standard output and into the model's directory, and exports; or predicts, with
// --predict. Throws InvalidArgument for flags and tables that do not fit, and a model's directory
// that holds a model of another table; NotFound for missing files; Cancelled after saving, when the
// process is asked to stop.
void train_table(const TrainFlags& flags);

}  // namespace muster::app

// Files of models, written by the chief while the others wait. Thread safety: as Model.
#pragma once

#include <string>

#include "muster/keras/model.h"
#include "muster/train/failed_saves.h"

namespace muster::inline v0_1::keras::internal {

// Implement Model::save() and Model::save_weights(). If `failures` are given a write may fail,
// unless `must` is set. Return whether it succeeded, the same on all processes.
bool save_model(Model& model, const std::string& path, FailedSaves* failures = nullptr,
                bool must = true);
bool save_weights(Model& model, const std::string& path, FailedSaves* failures = nullptr,
                  bool must = true);

// Writes the export of the model in this format as the file `path`, on the chief. Throws the errors
// of Model::export_model() and of the format.
void export_file(Model& model, const std::string& format, const std::string& path);

}  // namespace muster::inline v0_1::keras::internal

// Files of models, written by the chief while the others wait or make steps. Thread safety: as
// Model.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <string>

#include "muster/keras/model.h"
#include "muster/train/failed_saves.h"
#include "muster/train/state_copy.h"

namespace muster::inline v0_1::keras::internal {

// A file that a thread of the chief writes while fit() makes steps.
struct FileAside {
  StateCopy copy{};                           // on the chief: what is written
  std::optional<int64_t> step{};              // of the save in flight; the same on all processes
  std::shared_future<std::string> written{};  // on the chief, while one is in flight
  int64_t waits = 0;                          // how often settle_file() had to wait
};

// How a file is written; the same on all processes.
struct FileWay {
  FailedSaves* failures = nullptr;  // counts failures
  bool must = true;                 // it may not fail, although `failures` are given
  FileAside* aside = nullptr;       // has the memory for the copy that is written
  bool waits = true;                // false: a thread of `aside` writes it
};

// Implement Model::save() and Model::save_weights(). Return whether it is written, or a thread
// writes it, the same on all processes. REQUIRES: no save of FileWay::aside is in flight.
bool save_model(Model& model, const std::string& path, const FileWay& way = {});
bool save_weights(Model& model, const std::string& path, const FileWay& way = {});

// All processes together: waits for the save in flight, which may fail as `failures` say. Returns
// whether it is written. `waiter` is "the save of step 200".
bool settle_file(Model& model, FileAside& aside, FailedSaves& failures, const std::string& waiter);

// Whether the chief has written, as it says; all processes learn it together.
bool agree_on_written(const Model& model, bool written);

// Writes the export of the model in this format as the file `path`, on the chief. Throws the errors
// of Model::export_model() and of the format.
void export_file(Model& model, const std::string& format, const std::string& path);

}  // namespace muster::inline v0_1::keras::internal

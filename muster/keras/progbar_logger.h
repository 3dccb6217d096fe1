// Prints the progress of fit(): a bar during an epoch, and a line after it.
// Thread safety: as Callback.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "muster/base/clock.h"
#include "muster/base/export.h"
#include "muster/keras/callback.h"

namespace muster::inline v0_1::keras {

// What fit() prints. kAuto: a bar on a terminal, and a line for each epoch. kEpochs: only these
// lines.
enum class Verbose { kSilent, kAuto, kEpochs };

// fit() adds one after all other callbacks, with FitOptions::verbose, unless one of them shows the
// progress. If you add one, it shows what earlier callbacks add to the Logs. On a cluster only the
// chief prints.
class MUSTER_EXPORT ProgbarLogger : public Callback {
 public:
  // `clock` must outlive it.
  explicit ProgbarLogger(Verbose verbose = Verbose::kAuto, Clock& clock = system_clock());

  void on_train_begin(const FitInfo& info) override;
  void on_epoch_begin(int64_t epoch) override;
  void on_train_batch_end(const BatchInfo& info) override;
  void on_epoch_end(int64_t epoch, Logs& logs) override;
  CallbackNeeds needs() const override { return {.shows_progress = true}; }
  // Returns how much of the epoch is done.
  std::string name() const override { return "ProgbarLogger"; }
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

 private:
  const Verbose verbose_;
  Clock& clock_;
  bool lines_ = false, live_ = false, unicode_ = false;
  int64_t epochs_ = 1, steps_ = -1;
  int64_t epoch_ = 0;
  int64_t done_ = 0;             // steps of the epoch made by an earlier run
  int64_t made_ = 0, rows_ = 0;  // since then
  TimePoint begun_, shown_, trained_;
};

}  // namespace muster::inline v0_1::keras

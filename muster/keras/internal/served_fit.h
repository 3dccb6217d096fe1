// One call of Model::fit() whose weights live on parameter servers, and whose steps the chief
// schedules. Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "muster/keras/internal/fit.h"
#include "muster/keras/internal/served_steps.h"

namespace muster::inline v0_1::keras::internal {

class ServedFit final : public Fit {
 public:
  using Fit::Fit;

 private:
  // Begins the run, or continues with it; a worker or server has served it then until it was over.
  bool begin(const Dataset& data) override;
  void begin_epochs(const Dataset& data, bool resumed) override;
  bool train_epoch(int64_t epoch) override;
  BatchResult next(int64_t epoch) override;
  // Chief and servers that are started again tell by the last backup which epoch they are in.
  bool backs_up_epochs() const override { return true; }
  const std::map<std::string, std::string>& restored_notes() const override {
    return servers_->restored_notes();
  }
  // The servers hold what was made since the backup.
  void take_place(const nlohmann::json& note) override;
  int64_t epoch_began() const override { return place_.began; }
  std::optional<bool> save(int64_t epoch, int64_t step, int64_t may_fail, bool must) override;
  bool settle_save() override;
  bool await_save() noexcept override;
  // The model has the weights then.
  void end_steps() override;
  void end_saving() override {}

  // Batches there are for the rest of this epoch.
  int64_t left_of(int64_t epoch) const;

  std::optional<ServedSteps> servers_;
  // Where the run stands, and the step of the model at which its epoch began.
  struct Place {
    int64_t epoch = 0, step = 0, began = 0;
  } place_;
  int64_t batches_ = std::numeric_limits<int64_t>::max();  // that all epochs together may have
};

}  // namespace muster::inline v0_1::keras::internal

// One call of Model::fit() whose workers may be lost, and come, while it trains. A change of the
// workers is a restart from a backup, in the process and from memory: all workers of the next group
// take the state and the place of the one that was furthest, and what the chief's callbacks keep.
// Thread safety: belongs to the thread of the model.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/keras/internal/fit.h"

namespace muster::inline v0_1::keras::internal {

class ElasticFit final : public Fit {
 public:
  using Fit::Fit;

 private:
  // Continues with the others where they are, or as a fit() that is not elastic.
  bool begin(const Dataset& data) override;
  bool train_epoch(int64_t epoch) override;
  BatchResult next(int64_t epoch) override;
  nlohmann::json note_to_resume() const override;
  std::map<std::string, Tensor> tensors_to_resume() override;
  void note_update() override;
  void begin_epoch_end() override;
  void note_epoch_end(int64_t epoch, bool last) override;
  bool stop_if_told(int64_t epoch) override;
  bool goes_on_after(const Error& error) const override;
  bool regroup(const Dataset& data) override;
  void begin_epochs(const Dataset& data, bool resumed) override;

  // Where the run is, and the tally that belongs to it.
  struct Place {
    int64_t epoch = 0, step = 0;
    bool over = false;
  };
  // What belongs to a place, and changes while an epoch ends.
  struct Held {
    // On the chief: the states of callbacks and their tensors, and by key_of() what waits for a
    // thread and returns the state of one.
    nlohmann::json callbacks{};
    std::map<std::string, Tensor> tensors{};
    std::vector<std::pair<std::string, std::function<nlohmann::json()>>> settled{};
    History history{};
    double rate_factor = 1;
  };
  Held hold() const;
  // Waits for what threads of callbacks write.
  static void settle(Held& held);
  // For the workers of the next group, of the step of this worker's state.
  std::string note_of(const Held& held, int64_t step) const;
  // What its workers must have in common.
  nlohmann::json call_as_json() const;
  // Whether the group continues from the memory of a worker that was in this fit().
  bool has_memory() const;
  // Takes what the group continues from; all its workers together.
  void take_memory();
  // On the chief, where no other group comes: the backup of what it has in memory. One that fails
  // is a warning.
  void save_memory() const;
  // Back to where fit() begins.
  void reset();
  // No worker has made a step.
  bool begin_anew(const Dataset& data);
  // On the chief: what the others take of it.
  nlohmann::json chiefs_note(const nlohmann::json& note,
                             const std::vector<std::string>& sums) const;

  const Tally& tally_of_place() const { return noted_tally_ ? *noted_tally_ : tally_; }

  Place place_;
  int64_t noted_step_ = -1;           // of the model, at place_
  std::optional<Tally> noted_tally_;  // where batches wait for their update
  bool in_batch_ = false;             // a batch is trained
  std::optional<Held> held_;          // while an epoch ends, and until resume() has taken it
  bool lost_ = false;                 // it ended with a loss
  size_t workers_ = 0;                // that have trained together last, this one among them
  nlohmann::json memory_;             // what resume() takes
};

}  // namespace muster::inline v0_1::keras::internal

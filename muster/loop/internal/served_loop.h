// Loops written by hand on parameter servers, where each worker goes at its own pace: no call meets
// the others, and each ends when its data does. Thread safety: as Loop.
#pragma once

#include <functional>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "muster/distribute/shared_run.h"
#include "muster/loop/internal/loop.h"

namespace muster::inline v0_1::distribute {

class ServedLoop final : public Loop {
 public:
  using Loop::Loop;

  void begin() override;
  void run(const RunOptions& options, const std::function<void(size_t)>& body,
           const std::function<int64_t(size_t)>& rows,
           const std::function<const Batch*(size_t)>& batch) override;
  bool serve(const std::function<void(const Batch&)>& call) override;
  void end_training(bool by_program) override;
  void find_place() override;
  bool over() const override { return place_ == Place::kOver; }
  void assign(const std::map<std::string, Tensor>& values) override;
  Saved save(const std::string& model_dir, const SaveOptions& options,
             const BeforeSave& beside) override;
  bool restore(const std::string& model_dir) override;
  Tensor value(const Variable& variable) override;

 private:
  void before_run(bool training) override;
  // Servers learn the form of batches.
  void before_build(Member& member, const Batch* batch) override;
  // The run begins, or this worker joins it.
  void after_build(Member& member) override;
  // Claims the step of the call, or brings the weights here as they are.
  void before_call(Member& member, bool training) override;
  void leave_run(Replica& replica) override;
  nlohmann::json inputs_to_save() const override;
  void take_restored_inputs() override;
  void before_stop() override;
  std::string stopped_at() const override;
  bool goes_on_later() const override;

  static SharedRun& run_of(const Replica& replica) { return *replica.shared(); }
  // Whether this task is a server.
  bool serves() const { return start_.cluster.task.type == "ps"; }
  // Builds the model on zero rows of the form of the run's batches, where this process has none
  // left: of a run that it joined, or on the chief of a checkpoint of which others have some left.
  // Nothing where it is built, where there is no such run, or no function that serve() was given.
  void build_without_batch();
  // The form for that.
  std::optional<std::string> form_of_others();
  // Returns the other workers that had data left in the restored checkpoint.
  std::vector<int> unfinished_others() const;
  // Where the checkpoint that was found has the data of each worker.
  std::vector<std::string> positions_of_workers() const;
  // Whether the run has begun for this process.
  bool takes_part() const;
  // This worker makes no more steps.
  void end_steps(SharedRun::End end);
  // The chief saves what was made since the program saved last, where it does; one that had no
  // batch, where it restored from.
  void save_last();
  // The chief saves, if a server that was asked to stop waits for it.
  void save_for_servers();
  // Whether the chief knows of a directory for checkpoints: else servers that have to stop need not
  // wait for one.
  void tell_where_saves_go() const;
  // Throws InvalidArgument where what the workers have made, or have left, is lost. `has_read`:
  // whether the program has looked for batches.
  void refuse_to_lose(bool has_read) const;

  std::function<void(const Batch&)> served_;  // the function that serve() was given
  std::string form_;                          // of the batches
  std::string restore_dir_;                   // what restore() was called with
  struct LastSave {
    std::string model_dir{};
    SaveOptions options{};
  };
  std::optional<LastSave> last_save_;
  // As the program saved last; before it has saved, to the directory that the scope was given or
  // that it restored from. Nothing without one.
  std::optional<LastSave> how_to_save() const;
  // Where the run is, as find_place() has found it.
  enum class Place {
    kUnknown,
    kBegins,  // here
    kJoined,  // under way
    kOver     // ended when this process came
  };
  Place place_ = Place::kUnknown;
  bool ended_ = false;  // this process makes no more steps
};

}  // namespace muster::inline v0_1::distribute

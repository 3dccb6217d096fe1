// A worker's part in a run on parameter servers: places the weights, copies them here, sends the
// gradients there. Thread safety: belongs to the worker's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/distribute/flat_parameters.h"
#include "muster/distribute/shared_run.h"
#include "muster/distribute/variable_table.h"
#include "muster/ps/internal/background_task.h"
#include "muster/ps/internal/layout.h"
#include "muster/ps/internal/part_files.h"
#include "muster/ps/internal/served_cut.h"
#include "muster/ps/internal/server_connections.h"
#include "muster/ps/internal/transfer.h"

namespace muster::inline v0_1::ps {

class WorkerRun final : public distribute::SharedRun, public distribute::ServedState {
 public:
  explicit WorkerRun(std::shared_ptr<ServerConnections> connections)
      : kept_(std::move(connections)), connections_(*kept_) {}

  // --- the build --- The lines that tasks compare: one for each variable and optimizer.
  void set_model(std::vector<std::string> lines) { model_ = std::move(lines); }
  // The parameters lie where they stay. On the chief, the servers build the model, unless they have
  // the state of this run.
  void place(distribute::VariableTable& table, distribute::FlatParameters& parameters,
             const optim::TrainOp& train_op);

  // --- a step ---
  // Brings the gradients to the servers, where they wait until the step counts, and makes the step
  // that was begun count, and its gradients the weights'.
  struct Step {
    double weight = 1;                // compared with gradients of other workers
    bool mean = true;                 // else losses are added, and so are gradients
    int64_t rows = 0;                 // its examples
    std::optional<double> loss = {};  // where a learning rate follows it
  };
  // With ParameterServerOptions::overlap the commit is on its way when this returns, and the result
  // is an expectation.
  struct Committed {
    int64_t step = 0;      // its number
    bool dropped = false;  // it came too late, and does not count
    int64_t rows = 0;      // examples of all workers since this one's last step
  };
  Committed make_step(const distribute::FlatParameters::Prepared& gradients, const Step& step);
  // Gives it back.
  void abandon();
  // Waits for a step that is on its way; its result does not matter any more.
  void stop_push() noexcept;
  std::map<std::string, double> learning_rates() const { return learning_rates_; }
  // Updates so far, as this worker knows.
  int64_t step() const { return step_; }
  // Whether some weight on servers has a regularizer.
  bool has_penalties() const;

  void set_batch_form(const std::string& form) override { form_ = form; }
  bool live() const override { return live_; }
  distribute::ServedState& state() override { return *this; }
  std::map<std::string, TensorSpec> specs() override;
  void write(const std::map<std::string, Tensor>& tensors) override;
  void write_rows(const std::string& name, int64_t begin, const Tensor& rows) override;
  void begin_slots() override;
  void verify(const CheckpointReader& checkpoint, const std::string& prefix) override;
  void restore(const CheckpointReader& checkpoint, const std::string& prefix) override;
  Cut read() override;
  Cut read_for_checkpoint(bool later) override;
  Place begin(const Start& start) override;
  std::optional<Place> find_place() override;
  std::string batch_form() override;
  void set_position(std::function<std::string()> position) override {
    position_ = std::move(position);
  }
  bool begin_step(bool also_when_told) override;
  void read_weights() override;
  bool save_wanted() override;
  void set_saves(bool saves) override { connections_.set_saves(saves); }
  void saved() override {
    written_at_ = checkpoint_at_;
    connections_.note_saved({generation_, checkpoint_at_});
  }
  int64_t check() override;
  bool ended() override;
  int64_t end_steps(End end, const std::function<void(int64_t)>& others_go_on) override;
  void let_go() override;
  void wait_for_leaving() override;
  std::map<std::string, double> measures() override;

 private:
  template <typename Operation>
  net::AnswerTo<Operation> ask(size_t server, const Operation& asked,
                               std::span<const Tensor> tensors = {},
                               const Receive<Operation>& receive = {}) {
    return connections_.ask(server, generation_, asked, tensors, receive);
  }
  template <typename Operation>
  net::AnswerTo<Operation> ask_ledger(const Operation& asked) {
    return connections_.ask_ledger(generation_, asked);
  }
  void define();
  // The contents of servers and ledger.
  struct Found {
    int64_t generation = 0;  // the generation of all; 0 if they differ, or have none
    int64_t most = 0;        // the highest of one of them
  };
  Found look_for_state();
  // Takes part as soon as the chief has begun the run, and all servers are in its generation.
  Place join();
  // Throws PeerLost naming a server that has lost the weights of this run: a worker that waits only
  // for the ledger would not notice.
  void look_at_servers();
  void check_chief(const char* what) const;
  // All that is in this task by checkpoint name, as views.
  std::map<std::string, Tensor> here() const;
  // Sends the part of the state that no server has, as the chief has it, to the first server, and
  // back from there.
  void keep_own();
  void take_own();
  std::vector<HeldTensor> held_by(size_t server) const;
  // Writes values to a server under its `name`: rows from `first` on, or all.
  void write_to(size_t server, const std::string& name, std::optional<int64_t> first,
                const Tensor& values);
  // Has every server copy its contents after the same step, and lets the workers continue.
  // `in_parts`: the servers write the files of a checkpoint, else they send tensors. With `later`
  // the rest of the cut receives either, else this call does.
  Cut read(bool in_parts, bool later);
  // Pauses the workers while `copy` has every server copy its contents.
  Cut cut(const std::function<void(const net::ledger::Cut& paused)>& copy);
  // Whether servers can read the checkpoint at `prefix`.
  bool see(const std::string& prefix);
  // Whether all servers see the directory of checkpoints that the chief sees.
  bool see_model_dir();
  // Gradients as they travel, with their commit.
  struct Parcel {
    Transfer::Push push{};
    net::ledger::Commit commit{};
  };
  Parcel pack(const distribute::FlatParameters::Prepared& gradients, const Step& step);
  // The result of a step.
  struct Outcome {
    Committed committed{};
    int64_t ticket = 0;  // of the next one; 0: it is still to be claimed
    std::optional<std::map<std::string, double>> learning_rates{};
  };
  // Brings it to the servers, and makes it count.
  Outcome deliver(const Parcel& parcel);
  // `told` answers the commit, which is asked for again while it has to wait.
  Outcome settle(net::ledger::Committed told, const net::ledger::Commit& commit);
  Committed note(const Outcome& outcome);
  // Asks for a step until there is one; false if there is none to make. `round` is the argument of
  // Transfer::pull().
  bool claim(bool also_when_told, std::optional<Transfer::Round>* round);
  // Sends a step off while the next one is computed.
  Committed send_off(const distribute::FlatParameters::Prepared& gradients, const Step& step);
  // Waits for the step that is on its way, and takes its result.
  void await_push();
  void tell_staleness();
  // A line of the log now and then, while it waits.
  void tell_waiting(const std::string& for_whom);

  const std::shared_ptr<ServerConnections> kept_;
  ServerConnections& connections_;
  std::vector<std::string> model_;
  std::string form_;
  std::unique_ptr<Layout> layout_;
  std::unique_ptr<Transfer> transfer_;  // according to layout_
  distribute::VariableTable* table_ = nullptr;
  distribute::FlatParameters* parameters_ = nullptr;
  bool live_ = false;
  int64_t generation_ = 0;
  std::optional<int64_t> found_in_;  // the generation in which find_place() found it
  int64_t ticket_ = 0;               // of the step that is made, or of the next one
  int64_t step_ = 0;
  int64_t rows_ = 0;  // examples of all workers so far
  // How this worker claims its next step.
  enum class Steps {
    kClaimed,    // the ledger is asked before a step is computed
    kSentAhead,  // with overlap, after the first step: a step is computed, and claimed then
    kOver,       // the run makes no more steps
  };
  Steps steps_ = Steps::kClaimed;
  std::optional<Outcome> outcome_;  // of the step that push_task_ made, until it is noted
  int64_t rows_of_last_ = 0;
  std::function<std::string()> position_;
  std::map<std::string, double> learning_rates_;
  std::optional<TimePoint> told_waiting_;
  uint64_t saves_ = 0;
  int64_t cut_at_ = 0;                 // the commits of the last cut,
  int64_t checkpoint_at_ = 0;          // of the last one for a checkpoint,
  int64_t written_at_ = -1;            // and of the last checkpoint that is written; -1: none
  std::optional<bool> see_model_dir_;  // once it is known
  // [server]: its names for its contents; on the chief.
  std::vector<std::map<std::string, TensorSpec>> held_;
  std::unique_ptr<BackgroundTask> push_task_;  // with overlap; it ends before the objects it uses
};

}  // namespace muster::inline v0_1::ps

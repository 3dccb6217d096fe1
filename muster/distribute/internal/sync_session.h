// Replicas that train in step over a communicator: what is the same whether they are threads or
// processes. Where they meet outside of collectives (texts, barriers, who failed) is left to the
// classes below it. Thread safety: as Session.
#pragma once

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

class SyncSession : public Session {
 public:
  // `bytes_per_pack`, `wire_dtype`: see CommunicationOptions.
  SyncSession(uint64_t seed, int64_t bytes_per_pack, DType wire_dtype)
      : Session(seed), bytes_per_pack_(bytes_per_pack), wire_dtype_(wire_dtype) {}

  void finish_build(const optim::TrainOp& train_op) override;
  std::string share_state(const std::string& note) override;
  std::map<std::string, Tensor> checkpoint_state() override;
  Tensor reduce(ReduceOp op, const Tensor& value) override;
  std::vector<Tensor> gather(const Tensor& value, int64_t axis) override;

 protected:
  void check_step(const StepInput& input, double loss, Turn turn) override;
  void add_gradients(const optim::TrainOp& train_op, double seed, Turn turn) override;
  StepResult update(const optim::TrainOp& train_op, const Group& group) override;
  // Throws InvalidArgument on every replica when one built another model; the lines say what it is
  // made of.
  virtual void declare_model(const std::vector<std::string>& signature) = 0;
  // The chief's `note`, given to all.
  virtual std::string share_text(const std::string& note) = 0;
  // Waits, for a bounded time, until it is known which replica failed first, and throws that; when
  // none did, it returns.
  virtual void await_failure() = 0;

  // What breaks because of another replica's failure is told with that failure.
  template <typename Fn>
  std::invoke_result_t<Fn> guarded(Fn fn) {
    try {
      return fn();
    } catch (const Error& error) {
      throw explain(error);
    }
  }

  // Made by the class below before finish_build().
  std::unique_ptr<Communicator> communicator_;

 private:
  void share_replica_values();
  void note_versions();
  void check_versions() const;

  const int64_t bytes_per_pack_;
  const DType wire_dtype_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<std::pair<const Variable*, int64_t>> versions_;  // after the last step
};

}  // namespace muster::inline v0_1::distribute

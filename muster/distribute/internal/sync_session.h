// Replicas that train in step over a communicator: what is the same whether they are threads or
// processes. Where they meet outside of collectives (texts, barriers, who failed) is left to the
// classes below it. Thread safety: as Session.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "muster/collectives/communicator.h"
#include "muster/distribute/reducer.h"
#include "muster/distribute/session.h"

namespace muster::inline v0_1::distribute {

// How gradients travel; see CommunicationOptions.
struct WireOptions {
  std::optional<int64_t> bytes_per_pack;
  DType wire_dtype = kFloat32;
};

class SyncSession : public Session {
 public:
  SyncSession(uint64_t seed, Device device, const WireOptions& wire)
      : Session(seed, device), wire_(wire) {}

  void finish_build(const optim::TrainOp& train_op) override;
  std::string share_state(const std::string& note) override;
  std::map<std::string, Tensor> checkpoint_state() override;
  Tensor reduce(ReduceOp op, const Tensor& value) override;
  std::vector<Tensor> gather(const Tensor& value, int64_t axis) override;
  void broadcast(const std::vector<Tensor>& values) override;
  void end_of_function() override;

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
  // What the replicas bring to a reduction or a gathering: [replicas, ...], each its dtype, the
  // number of its axes, and their sizes.
  class Forms;
  // Replicas that are in different collectives: `where` says where this one is.
  template <typename Fn>
  void together(const std::string& where, Fn fn) const;
  void share_replica_values();
  void note_versions();
  void check_versions() const;

  // The size of the buckets for the parameters there are.
  plan::BucketOptions bucket_options();

  const WireOptions wire_;
  std::unique_ptr<Reducer> reducer_;
  std::vector<std::pair<const Variable*, int64_t>> versions_;  // after the last step
};

}  // namespace muster::inline v0_1::distribute

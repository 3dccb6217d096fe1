// A replica among others: threads of this process, which meet in a LocalGroup, and those of other
// processes, where there are any, which meet through a ProcessGroup. The first replica here speaks
// for all of its process.
// Thread safety: as Session.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "muster/distribute/internal/local_group.h"
#include "muster/distribute/internal/process_group.h"
#include "muster/distribute/internal/sync_session.h"

namespace muster::inline v0_1::distribute {

// Where a replica stands. Replicas are numbered process by process.
struct ReplicaPlace {
  int process = 0;
  int processes = 1;
  int local = 0;  // in its process
  int locals = 1;
  bool in_chief_process = true;
  Device device = at::kCPU;

  int replica() const { return process * locals + local; }
  int replicas() const { return processes * locals; }
};

class ReplicaSession : public SyncSession {
 public:
  // `processes` is nullptr when there are no others. `title` begins describe().
  ReplicaSession(const ReplicaPlace& place, std::string title, std::shared_ptr<LocalGroup> group,
                 std::shared_ptr<ProcessGroup> processes,
                 std::unique_ptr<Communicator> communicator, uint64_t seed,
                 const WireOptions& wire);
  ~ReplicaSession() override;

  int num_replicas_in_sync() const override { return place_.replicas(); }
  int replica_id() const override { return place_.replica(); }
  int num_local_replicas() const override { return place_.locals; }
  int local_replica() const override { return place_.local; }
  bool is_chief() const override { return place_.in_chief_process && place_.local == 0; }
  std::string describe() const override;

  std::vector<std::string> gather_text(const std::string& name, const std::string& text) override;
  void report(Phase phase, int64_t step) override;
  void barrier(const std::string& name) override;
  void finish() override;
  void check_failure() override;
  void fail(const Error& error) noexcept override;
  Error explain(const Error& error) override;

 protected:
  void declare_model(const std::vector<std::string>& signature) override;
  std::string share_text(const std::string& note) override;
  void await_failure() override;

 private:
  // When all replicas of this process have come for `what`, each with `mine`: the first of them
  // meets the other processes in `fn`, which is given what all brought; its result goes to all.
  std::string together(const std::string& what, const std::string& mine,
                       const std::function<std::string(const std::vector<std::string>&)>& fn);

  const ReplicaPlace place_;
  const std::string title_;
  const std::shared_ptr<LocalGroup> group_;
  const std::shared_ptr<ProcessGroup> processes_;
  const std::string transport_;
  // What ends a collective from outside; callbacks that use it may outlive this.
  struct Interrupt {
    std::mutex mutex;
    Communicator* communicator = nullptr;
  };
  const std::shared_ptr<Interrupt> interrupt_ = std::make_shared<Interrupt>();
  bool finished_ = false;
};

// The communicators of this process's replicas: `connect` is called for each at the same time, for
// each waits for all others. Throws what the first to fail threw, which `failed` is told at once:
// who waits for that replica may be told too.
std::vector<std::unique_ptr<Communicator>> connect_replicas(
    int locals, const std::function<std::unique_ptr<Communicator>(int local)>& connect,
    const std::function<void(const Error& error)>& failed = {});

}  // namespace muster::inline v0_1::distribute

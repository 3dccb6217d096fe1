// Notices of clouds that they will take or stop this machine soon, from the metadata server of the
// machine: Google Compute Engine, AWS EC2 and Azure. Thread safety: any threads.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "muster/base/clock.h"
#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

// The clouds that the functions below know: "gce", "aws", "azure".
const std::vector<std::string>& notifying_clouds();

// Asks the metadata server of one cloud.
class PreemptionNotice {
 public:
  // `cloud` is one of notifying_clouds(). Variables of the environment name another metadata
  // server, as for the libraries of the clouds: GCE_METADATA_HOST (HOST or HOST:PORT),
  // AWS_EC2_METADATA_SERVICE_ENDPOINT (a URL) and AZURE_POD_IDENTITY_AUTHORITY_HOST (a URL).
  // Throws InvalidArgument for another cloud.
  PreemptionNotice(const std::string& cloud, const Environment& environment,
                   const StoreOptions& options = {});
  ~PreemptionNotice();
  PreemptionNotice(const PreemptionNotice&) = delete;
  PreemptionNotice& operator=(const PreemptionNotice&) = delete;

  // Asks once, and waits for the answer for a few seconds, on Azure for up to two minutes. Returns
  // the notice: "instance/preempted is TRUE". Returns "" without one, and also for an event that
  // the machine survives: a live migration, a pause. Returns the error of a request that failed.
  Result<std::string> look();
  // Ends a look() of another thread, and all later ones, with an error.
  void cancel();
  // The time between two looks: 5 s on AWS, 1 s on the others, as these clouds recommend.
  Seconds interval() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Asks again and again, in a thread of its own that takes no signals, until there is a notice.
class PreemptionWatch {
 public:
  // Calls `on_notice` once, with the notice, from its own thread. The first failed request of a
  // series is a warning of the log; later ones are silent, and never end anything. Throws as
  // PreemptionNotice.
  PreemptionWatch(const std::string& cloud, const Environment& environment,
                  std::function<void(const std::string& notice)> on_notice,
                  const StoreOptions& options = {});
  // Ends the thread within about a second.
  ~PreemptionWatch();
  PreemptionWatch(const PreemptionWatch&) = delete;
  PreemptionWatch& operator=(const PreemptionWatch&) = delete;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::stores

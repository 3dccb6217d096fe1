// Calls of Google's JSON services, with the credentials that its own libraries would find: the file
// of GOOGLE_APPLICATION_CREDENTIALS, the one that `gcloud auth application-default login` writes,
// or the metadata service of Google's machines. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "muster/base/environment.h"
#include "muster/base/result.h"
#include "muster/stores/store_options.h"

namespace muster::inline v0_1::stores {

class GoogleApi {
 public:
  explicit GoogleApi(const Environment& environment, const StoreOptions& options = {});
  ~GoogleApi();
  GoogleApi(const GoogleApi&) = delete;
  GoogleApi& operator=(const GoogleApi&) = delete;

  // One call. `what` is "create the job 'a'", for errors.
  struct Call {
    std::string what{};
    std::string method = "GET";
    std::string url{};
    std::string body = {};  // JSON; empty: none
  };
  // Sends it with a token, and returns the body of the answer. Only GET is tried again after a
  // failure: other requests may have been done. Returns InvalidArgument, and sends nothing, if
  // there are no credentials; otherwise NotFound for 404, InvalidArgument for a refused request,
  // Unavailable for a failure that may pass, with the service's own words.
  Result<std::string> send(const Call& call);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::inline v0_1::stores

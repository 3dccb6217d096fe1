// An exported model as the server asks for it: arrays in, arrays out.
// Thread safety: any thread.
#pragma once

#include <map>
#include <string>

#include "muster/export/servable.h"
#include "muster/serve/model.h"

namespace muster::app {

class ServableModel : public serve::Model {
 public:
  // Loads a version's folder, and answers one batch of each signature once, because TorchScript
  // compiles on first use. Throws the errors of Servable; InvalidArgument for a dtype that JSON
  // cannot hold.
  explicit ServableModel(const std::string& folder);

  const std::map<std::string, serve::Signature>& signatures() const override { return signatures_; }
  serve::Arrays run(const std::string& signature, const serve::Arrays& inputs) override;

 private:
  void warm_up();

  const Servable servable_;
  std::map<std::string, serve::Signature> signatures_;
};

}  // namespace muster::app

// An answer in JSON of another system's tool or service, read without trust: it may be cut, be a
// proxy's page instead, or lack fields. Thread safety: a value.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "muster/base/error.h"

namespace muster::inline v0_1::jobs::internal {

class Answer {
 public:
  // `what` is the failed request ("cannot ask Kubernetes for the job 'a'"), `asked` the command or
  // the service ("kubectl get pods"), `text` its answer. Throws Unavailable if that is not JSON:
  // another try may return more.
  Answer(std::string what, std::string asked, std::string_view text);

  const nlohmann::json& json() const { return json_; }
  // The text at a JSON pointer, "/metadata/uid". Throws Unavailable when there is none.
  std::string text(const std::string& pointer) const;
  // The list there. Throws Unavailable when there is none.
  const nlohmann::json& list(const std::string& pointer) const;

 private:
  const nlohmann::json& at(const std::string& pointer, const char* kind,
                           bool (*is)(const nlohmann::json&)) const;

  std::string what_, asked_, said_;
  nlohmann::json json_;
};

// "cannot do x: kubectl get pods answered '<html>...', where JSON belongs", for answers of any
// form.
Error unexpected_answer(const std::string& what, const std::string& asked, std::string_view said,
                        const std::string& why);

// The resource names, "/name", of a list of resources; resources without one are left out.
std::vector<std::string> names_in(const nlohmann::json& resources);

// The text at a JSON pointer of a part of an answer that may lack it; "" then.
std::string text_or_nothing(const nlohmann::json& value, const std::string& pointer);

}  // namespace muster::inline v0_1::jobs::internal

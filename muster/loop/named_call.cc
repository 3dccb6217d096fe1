#include "muster/loop/named_call.h"

#include <vector>

namespace muster::inline v0_1::distribute {
namespace {

thread_local std::vector<const char*> named_calls;

}  // namespace

NamedCall::NamedCall(const char* name) { named_calls.push_back(name); }
NamedCall::~NamedCall() { named_calls.pop_back(); }

std::string NamedCall::current(const char* own) {
  if (named_calls.empty()) return own;
  const std::string outermost = named_calls.front();
  return named_calls.size() == 1 ? outermost : std::string(named_calls.back()) + " in " + outermost;
}

}  // namespace muster::inline v0_1::distribute

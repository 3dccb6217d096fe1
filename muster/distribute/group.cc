#include "muster/distribute/group.h"

#include "muster/plan/activity.h"

namespace muster::inline v0_1::distribute {
namespace {

class LoneGroup final : public Group {
 public:
  std::vector<std::string> gather_text(const std::string&, const std::string& text) override {
    return {text};
  }
  void declare_model(const std::vector<std::string>&) override {}
  void barrier(const std::string&) override {}
  void finish() override {}
  void report(Phase phase, int64_t step) override { plan::this_activity().report(phase, step); }
  void fail(const Error&) noexcept override {}
  void check_failure() override {}
  void await_failure() override {}
  Error explain(const Error& error) override { return error; }
};

}  // namespace

std::unique_ptr<Group> make_lone_group() { return std::make_unique<LoneGroup>(); }

}  // namespace muster::inline v0_1::distribute

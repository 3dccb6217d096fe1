#include <utility>

#include "muster/base/error.h"
#include "muster/train/hooks.h"

namespace muster::inline v0_1::hooks {
namespace {

class FinalOps : public Hook {
 public:
  explicit FinalOps(std::function<void(int64_t)> fn) : fn_(std::move(fn)) {}
  void end(int64_t global_step) override { fn_(global_step); }

 private:
  const std::function<void(int64_t)> fn_;
};

}  // namespace

std::shared_ptr<Hook> final_ops(std::function<void(int64_t global_step)> fn) {
  if (!fn) throw invalid_argument("hooks::final_ops got an empty function");
  return std::make_shared<FinalOps>(std::move(fn));
}

}  // namespace muster::inline v0_1::hooks

#include "muster/collectives/internal/work_state.h"

#include <memory>

namespace muster::inline v0_1 {

void Work::wait() const {
  if (!state_) return;
  if (!state_->is_finished()) state_->help(/*block=*/true);
  state_->finished.wait(0, std::memory_order_acquire);
  if (state_->error) throw Error(*state_->error);
}

bool Work::done() const {
  if (!state_ || state_->is_finished()) return true;
  state_->help(/*block=*/false);
  return state_->is_finished();
}

void Work::note_end() const {
  if (state_) state_->notes_end.store(true, std::memory_order_relaxed);
}

std::optional<std::chrono::steady_clock::time_point> Work::ended() const {
  if (!state_ || !state_->is_finished()) return {};
  return state_->ended;
}

Work internal::failed_work(const Error& error) {
  auto state = std::make_shared<Work::State>();
  state->finish(error);
  return Work(std::move(state));
}

}  // namespace muster::inline v0_1

#include "muster/loop/session.h"

#include <fmt/format.h>

#include <exception>
#include <utility>

#include "muster/base/error.h"
#include "muster/loop/internal/loop.h"

namespace muster::inline v0_1::distribute {

StrategyPtr entered_strategy() {
  const Loop* const entered = Loop::current();
  return entered == nullptr ? nullptr : entered->strategy().shared_from_this();
}

Session::Session(StrategyPtr strategy, const ScopeOptions& options, const ElasticSession& elastic)
    : strategy_(std::move(strategy)), exceptions_(std::uncaught_exceptions()) {
  Loop* const entered = Loop::current();
  shares_scope_ = entered != nullptr && &entered->strategy() == strategy_.get();
  if (shares_scope_ && entered->kept()) {
    if (strategy_->multi_worker()) {
      throw invalid_argument(
          fmt::format("not supported: two models in one scope of {}", strategy_->name()),
          "train them in a loop by hand (docs/strategies.md), or one after the other, each in its "
          "own scope");
    }
    shares_scope_ = false;
  }
  loop_ = shares_scope_ ? entered->shared_from_this() : Loop::make(strategy_, options, elastic);
  if (!loop_->first().place().in_sync) {
    throw invalid_argument(
        fmt::format("not supported: fit() in a scope of {}, where workers go at their own pace",
                    strategy_->name()),
        "give keras::Model the strategy outside of a scope: fit() then schedules its steps");
  }
  if (!shares_scope_) loop_->fix_model();
  loop_->keep();
}

Session::~Session() { loop_->release(std::uncaught_exceptions() > exceptions_); }

void Session::show_in(const std::string& folder) const { loop_->show_in(folder); }

void Session::show_last_step(int64_t step) const { loop_->show_last_step(step); }

Scope Session::scope() const { return Scope(loop_); }

void Session::begin_saving(const std::string& model_dir) const { loop_->begin_saving(model_dir); }

std::optional<bool> Session::save(const std::string& model_dir, const SaveOptions& options,
                                  const BeforeSave& beside) const {
  const bool saved = loop_->save(model_dir, options, beside).saved;
  if (loop_->is_saving()) return std::nullopt;
  return saved;
}

bool Session::settle_save() const { return loop_->settle_save(); }
bool Session::await_save() const noexcept { return loop_->await_save(); }

bool Session::in_memory() const { return loop_->in_memory(); }
bool Session::goes_on_after(const Error& error) const { return loop_->goes_on_after(error); }
void Session::note_place() const { loop_->note_place(); }
muster::internal::NextStep Session::agree_on_next() const { return loop_->agree_on_next(); }
void Session::regroup(const std::string& call, const NotesOf& notes, bool together) const {
  loop_->regroup(call, notes, together);
}
std::shared_ptr<const Checkpoint> Session::memory() const { return loop_->memory(); }
std::string Session::save_memory(const std::string& model_dir,
                                 const std::map<std::string, std::string>& notes) const {
  return loop_->save_memory(model_dir, notes);
}
std::vector<std::string> Session::gather_text(const std::function<std::string()>& text) const {
  return loop_->gather_text(text);
}
void Session::check_alike(const Settings& settings) const { loop_->check_alike(settings); }

Checkpoint Session::state(const CopyOfState& copy) const { return loop_->state(copy); }

void Session::build(const std::function<void()>& function, const Batch& batch) const {
  loop_->build_by([&](size_t) { function(); }, &batch);
}

void Session::begin_again(const Checkpoint& state, int64_t accumulate_steps) const {
  loop_->begin_again(state, accumulate_steps);
}

}  // namespace muster::inline v0_1::distribute

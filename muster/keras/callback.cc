#include "muster/keras/callback.h"

#include <nlohmann/json.hpp>

#include "muster/base/error.h"

namespace muster::inline v0_1::keras {

nlohmann::json Callback::state() const { return nullptr; }
std::function<nlohmann::json()> Callback::settled_state() const { return nullptr; }
void Callback::restore(const nlohmann::json& /*state*/) {}

Model& Callback::model() const {
  if (model_ != nullptr) return *model_;
  throw invalid_argument(
      "a callback asked for its model outside of fit(), evaluate() and predict()",
      "ask in on_train_begin() or later");
}

}  // namespace muster::inline v0_1::keras

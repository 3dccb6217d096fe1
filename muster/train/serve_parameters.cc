#include "muster/train/serve_parameters.h"

#include "muster/distribute/strategy.h"
#include "muster/tensor/element_spec.h"
#include "muster/train/model_call.h"
#include "muster/train/model_context.h"
#include "muster/train/model_steps.h"
#include "muster/train/task_watch.h"

namespace muster::inline v0_1 {

void serve_parameters(const ModelFn& model_fn, const TrainerOptions& options) {
  serve_in_view(
      *options.strategy, options.start,
      [&](VariableStore& variables, const std::string& batch_form) {
        ModelContext context(Mode::kTrain, variables, options.start.seed, *options.params);
        internal::begin_step(context, 0, 0);
        return call_model(model_fn, to_batch(zero_rows(batch_form)), Mode::kTrain, context,
                          {.where = "while the model was built"})
            .train_op;
      },
      options.model_dir);
}

}  // namespace muster::inline v0_1

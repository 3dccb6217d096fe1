// muster-train, which `muster train` becomes: it links LibTorch, reads the table and learns.
#include "apps/train/own_words.h"
#include "apps/train/train_flags.h"
#include "apps/train/train_table.h"
#include "muster/program/run_main.h"

int main(int argc, char** argv) {
  muster::app::TrainFlags flags;
  return muster::run_main(argc, argv,
                          [&](const muster::Flags&) {
                            try {
                              muster::app::train_table(flags);
                            } catch (const muster::Error& error) {
                              // If nothing has to change, the error is rethrown, never sliced.
                              const muster::Error own = muster::app::in_own_words(error);
                              if (own.hint() == error.hint()) throw;
                              throw own;
                            }
                          },
                          {.description = muster::app::kTrainDescription,
                           .examples = muster::app::kTrainExamples,
                           .shared_flags = false,
                           .name = "muster train",
                           .arguments = {muster::app::csv_argument(flags)},
                           .flags = muster::app::train_flags(flags)});
}

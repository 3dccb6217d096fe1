// muster-train, which `muster train` becomes: it links LibTorch, reads the table and learns.
#include "apps/train/train_flags.h"
#include "apps/train/train_table.h"
#include "muster/program/run_main.h"

int main(int argc, char** argv) {
  muster::app::TrainFlags flags;
  return muster::run_main(argc, argv,
                          [&](const muster::Flags&) { muster::app::train_table(flags); },
                          {.description = muster::app::kTrainDescription,
                           .examples = muster::app::kTrainExamples,
                           .shared_flags = false,
                           .name = "muster train",
                           .arguments = {muster::app::csv_argument(flags)},
                           .flags = muster::app::train_flags(flags)});
}

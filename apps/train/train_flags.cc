#include "apps/train/train_flags.h"

#include <filesystem>

#include "muster/base/error.h"

namespace muster::app {

const char* const kTrainDescription = "Trains a model on a CSV file, and says what it is worth.";

const char* const kTrainExamples =
    "The columns are looked at first: numbers, categories, and what is of no use (identifiers,\n"
    "constants, dates). A part of the rows is held out, and the report is about these. It stands "
    "in\n"
    "report/ of the model's directory too, the model that `muster serve` takes in export/. The "
    "same\n"
    "command again goes on where it was stopped, and trains nothing twice.\n"
    "\nExit codes: 0 done, 1 a damaged file, 2 a wrong argument or something not found, 130 "
    "stopped\n"
    "by Ctrl-C, after saving.\n"
    "\nExamples:\n"
    "  muster train people.csv --label=income\n"
    "  muster train people.csv --label=income --eval=test.csv --model=wide_and_deep\n"
    "  muster train cars.csv --label=mpg --exclude=name,origin --trees=500\n"
    "  muster train --model-dir=people_model --predict=new.csv --out=predictions.csv\n"
    "  muster run --workers=2 -- muster train people.csv --label=income";

Flag csv_argument(TrainFlags& flags) {
  return {"CSV", &flags.csv, "The table: a CSV file whose first row names the columns"};
}

std::vector<Flag> train_flags(TrainFlags& flags) {
  return {
      {"label", &flags.label, "The column to predict", {}, "COLUMN"},
      {"eval", &flags.eval, "A file of rows that the report is about", {}, "FILE"},
      {"eval-fraction",
       &flags.eval_fraction,
       "Without --eval: the part of the rows that is held out for the report",
       {.more_than = 0, .at_most = 0.9}},
      {"model",
       &flags.model,
       "What learns: boosted_trees, wide_and_deep, linear; auto: boosted_trees",
       {},
       {},
       {"auto", "boosted_trees", "wide_and_deep", "linear"}},
      {"task",
       &flags.task,
       "What the label needs: classification, regression; auto: classes for texts and few whole "
       "numbers",
       {},
       {},
       {"auto", "classification", "regression"}},
      {"exclude", &flags.exclude, "Columns to leave out, with commas between", {}, "COLUMN,..."},
      {"weight", &flags.weight, "The column with the weights of the rows", {}, "COLUMN"},
      {"positive", &flags.positive, "Of two classes, the one whose probability is told"},
      {"model-dir",
       &flags.model_dir,
       "Where the model and its report go; default: the table's name and _model",
       {},
       "DIR"},
      {"predict", &flags.predict, "New rows: writes predictions, trains nothing", {}, "FILE"},
      {"out",
       &flags.out,
       "Where predictions go; default: predictions.csv in the model's directory",
       {},
       "FILE"},
      {"trees", &flags.trees, "Of boosted_trees: how many", {.at_least = 1, .at_most = 100000}},
      {"epochs",
       &flags.epochs,
       "Of the others: passes over the rows",
       {.at_least = 1, .at_most = 1e6}},
      {"seed", &flags.seed, "Decides what is held out, and the order of the rows"},
      {"strategy", &flags.strategy, "one_device, mirrored:N or multi_worker"},
      {"delimiter", &flags.delimiter, "Between two fields: a character, tab, or auto"},
      {"header", &flags.header, "Whether the first row names the columns; else they are 0, 1, ..."},
      {"quotes", &flags.quotes, "Whether fields may stand in quotes"},
      {"missing",
       &flags.missing,
       "The words that stand for a missing value, with commas between; empty: none; auto: NA, "
       "none, "
       "- and others among numbers, ? and NaN everywhere",
       {},
       "WORD,..."},
      {"decimal",
       &flags.decimal,
       "Between a number and its fraction: . or , ; auto: as the numbers of each column say",
       {},
       {},
       {"auto", ".", ","}},
  };
}

void check_flags(const TrainFlags& flags) {
  if (flags.delimiter != "auto" && flags.delimiter != "tab" && flags.delimiter.size() != 1) {
    throw invalid_argument("--delimiter is '" + flags.delimiter + "'",
                           "it is one character, tab, or auto");
  }
  if (!flags.predict.empty()) {
    if (flags.csv.empty() && flags.model_dir.empty()) {
      throw invalid_argument("--predict does not say which model predicts",
                             "give --model-dir=DIR, or the table it was trained on");
    }
    return;
  }
  if (flags.csv.empty())
    throw invalid_argument("muster train needs a table", "muster train FILE.csv --label=COLUMN");
  if (flags.label.empty()) {
    throw invalid_argument("muster train does not know what to predict",
                           "name a column: --label=COLUMN");
  }
  if (!flags.out.empty())
    throw invalid_argument("--out is for --predict", "leave it out, or give --predict=FILE");
}

std::string model_dir_of(const TrainFlags& flags) {
  if (!flags.model_dir.empty()) return flags.model_dir;
  std::filesystem::path name = std::filesystem::path(flags.csv).filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.stem().string() + "_model";
}

}  // namespace muster::app

#include "apps/train/train_flags.h"

#include <filesystem>

#include "muster/base/error.h"

namespace muster::app {

const char* const kTrainDescription = "Trains a model on a CSV file and reports how good it is.";

const char* const kTrainExamples =
    "The command first classifies the columns: numbers, categories, and columns it cannot use\n"
    "(identifiers, constants, dates). It holds out a part of the rows and evaluates the model on "
    "them.\n"
    "The report is also in report/ of the model's directory, and the model for `muster serve` in\n"
    "export/. Run the same command again to continue a stopped run; nothing is trained twice.\n"
    "\n"
    "Exit codes: 0 done, 1 a damaged file, 2 a wrong argument or something not found, 130 stopped\n"
    "by Ctrl-C, after saving.\n"
    "\n"
    "Examples:\n"
    "  muster train people.csv --label=income\n"
    "  muster train people.csv --label=income --eval=test.csv --model=wide_and_deep\n"
    "  muster train cars.csv --label=mpg --exclude=name,origin --trees=500\n"
    "  muster train --model-dir=people_model --predict=new.csv --out=predictions.csv\n"
    "  muster run --workers=2 -- muster train people.csv --label=income";

Flag csv_argument(TrainFlags& flags) {
  return {"CSV", &flags.csv, "CSV file whose first row names the columns"};
}

std::vector<Flag> train_flags(TrainFlags& flags) {
  return {
      {"label", &flags.label, "Column to predict", {}, "COLUMN"},
      {"eval", &flags.eval, "CSV file of rows to evaluate the model on", {}, "FILE"},
      {"eval-fraction",
       &flags.eval_fraction,
       "Without --eval: fraction of the rows that is held out for evaluation",
       {.more_than = 0, .at_most = 0.9}},
      {"model",
       &flags.model,
       "Kind of model: boosted_trees, wide_and_deep, linear; auto: boosted_trees",
       {},
       {},
       {"auto", "boosted_trees", "wide_and_deep", "linear"}},
      {"task",
       &flags.task,
       "Kind of prediction: classification, regression; auto: classification for texts and few "
       "whole numbers",
       {},
       {},
       {"auto", "classification", "regression"}},
      {"exclude", &flags.exclude, "Columns to ignore, separated by commas", {}, "COLUMN,..."},
      {"weight", &flags.weight, "Column with the weights of the rows", {}, "COLUMN"},
      {"positive", &flags.positive, "For two classes: the class whose probability is reported"},
      {"model-dir",
       &flags.model_dir,
       "Folder for the model and its report; default: the table's name and _model",
       {},
       "DIR"},
      {"predict",
       &flags.predict,
       "CSV file of new rows to predict; nothing is trained",
       {},
       "FILE"},
      {"out",
       &flags.out,
       "File for predictions; default: predictions.csv in the model's directory",
       {},
       "FILE"},
      {"report",
       &flags.report,
       "HTML file to write too: the report with curves, in one file that needs no network",
       {},
       "FILE"},
      {"trees",
       &flags.trees,
       "For boosted_trees: number of trees",
       {.at_least = 1, .at_most = 100000}},
      {"epochs",
       &flags.epochs,
       "For other models: number of passes over the rows",
       {.at_least = 1, .at_most = 1e6}},
      {"seed", &flags.seed, "Seed of the choice of held-out rows and of the order of the rows"},
      {"strategy", &flags.strategy, "How to train: one_device, mirrored:N or multi_worker"},
      {"delimiter", &flags.delimiter, "Separator of fields: a character, tab, or auto"},
      {"header", &flags.header,
       "Whether the first row names the columns; if not, the names are 0, 1, ..."},
      {"quotes", &flags.quotes, "Whether fields may be quoted"},
      {"missing",
       &flags.missing,
       "Words that mean a missing value, separated by commas; empty: none; auto: NA, none, - and "
       "others among numbers, ? and NaN everywhere",
       {},
       "WORD,..."},
      {"decimal",
       &flags.decimal,
       "Decimal mark: . or , ; auto: detected from the numbers of each column",
       {},
       {},
       {"auto", ".", ","}},
  };
}

void check_flags(const TrainFlags& flags) {
  if (flags.delimiter != "auto" && flags.delimiter != "tab" && flags.delimiter.size() != 1) {
    throw invalid_argument("--delimiter is '" + flags.delimiter + "'",
                           "use one character, tab, or auto");
  }
  if (!flags.predict.empty()) {
    if (!flags.report.empty())
      throw invalid_argument("--report is for training", "omit it, or omit --predict");
    if (flags.csv.empty() && flags.model_dir.empty()) {
      throw invalid_argument("--predict needs a model",
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
    throw invalid_argument("--out is for --predict", "omit it, or give --predict=FILE");
}

std::string model_dir_of(const TrainFlags& flags) {
  if (!flags.model_dir.empty()) return flags.model_dir;
  std::filesystem::path name = std::filesystem::path(flags.csv).filename();
  if (name.extension() == ".gz") name = name.stem();
  return name.stem().string() + "_model";
}

}  // namespace muster::app

// Exports of all kinds of models, with the numbers that they compute, for tests of other formats.
// Thread safety: free functions; one thread.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/export/write_servable.h"

namespace muster::inline v0_1 {

// A model to export, under a name that is a file name. The source's function lives as long as it.
struct ExportedCase {
  std::string name{};
  ServableSource source{};
};

// The layers of the cases in a folder, made by tools/peers/compare.py, with initial weights and
// without training. Cases of training alone (constraints, regularizers) are left out.
std::vector<ExportedCase> layer_cases(const std::string& folder);

// LSTM and GRU of LibTorch, of several layers and directions.
std::vector<ExportedCase> libtorch_cases();

// The numbers that an export computes: "<folder>/<rows>.safetensors" for batches of 1, 2 and 7
// rows, with the tensors "in/<input>" and "out/<signature>/<output>". `rows` has the inputs of 7
// rows; without it they are random.
void write_batches(const std::string& folder, const ServableSource::Tensors& rows = {});

// The models of exported_models.cc: small networks of each application, canned Estimators, boosted
// trees.
std::vector<std::string> exported_models();
// Exports one to the folder, and returns the path of its version.
std::string export_one_model(const std::string& name, const std::string& folder);

// Boosted trees of the census in `census`, a folder with adult_train.csv and adult_test.csv.
struct CensusTrees {
  std::string folder{};            // of the version
  ServableSource::Tensors rows{};  // the first 7 rows of adult_test.csv
};
CensusTrees export_census_trees(const std::string& census, const std::string& folder);

}  // namespace muster::inline v0_1

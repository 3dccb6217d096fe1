// What the cases of estimators have in common: labels, and the arrays of predictions and exports.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/estimator/estimator.h"
#include "muster/features/feature_column.h"
#include "muster/heads/head.h"
#include "muster/tensor/element.h"
#include "tests/peers/peer_case.h"

namespace muster::inline v0_1 {

// Labels as tools/peers/cases/estimators.py describes them; for a MultiHead, by the names of heads.
Element peer_labels(const nlohmann::json& labels);

// Adds "prediction <key>" for each key, with all rows. A head by the prefix of its keys, "" or
// "name/", adds "classes" and "all_classes" if it has classes.
void add_predictions(Estimator& estimator, const InputFn& input, PeerArrays& got,
                     const std::map<std::string, Head>& heads);

// Exports the model and adds "signatures", and "signature <name>/<output>" for the answers to
// serialized tf.Examples, which are hexadecimal digits.
void add_signatures(Estimator& estimator, const std::vector<FeatureColumn>& columns,
                    const std::vector<std::string>& examples, PeerArrays& got);

}  // namespace muster::inline v0_1

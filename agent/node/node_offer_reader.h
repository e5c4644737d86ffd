// SPDX-License-Identifier: Apache-2.0
// NodeOfferReader: what the node offers, read every ten seconds.
#pragma once

#include "agent/node/last_reading.h"
#include "agent/pod/admit/node_offer.h"

namespace holdfast::agent {

using NodeOfferReader = LastReading<NodeOffer>;

}  // namespace holdfast::agent

// SPDX-License-Identifier: Apache-2.0
// Whether this agent does its work.
#pragma once

#include <string>

namespace holdfast::agent {

class PodTable;

// "", or the reason why a restart would help. Not whether state can be written: with a disk that is
// full a restart helps nobody, and this agent shows, logs and makes room.
std::string UnhealthyBecause(const PodTable& pods);

}  // namespace holdfast::agent

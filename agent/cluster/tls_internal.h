// SPDX-License-Identifier: Apache-2.0
// What a connection to the API server is encrypted and proven with. Thread-safe.
#pragma once

#include <utility>  // before asio.hpp: Boost 1.74 uses std::exchange without including it

#include <boost/asio/ssl/context.hpp>

#include "agent/cluster/kubeconfig.h"
#include "holdfast/base/result.h"

namespace holdfast::agent {

// TLS 1.2 or newer, the server verified; reads the files again each time. Errors name the field.
Result<boost::asio::ssl::context> MakeTlsContext(const KubeConfig& config);

}  // namespace holdfast::agent

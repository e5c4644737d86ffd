// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1.Health/Check as bytes: one question, one answer, each in a gRPC frame. Pure.
// Source: grpc/doc/PROTOCOL-HTTP2.md, grpc/health/v1/health.proto; Kubernetes' probe/grpc/grpc.go.
#pragma once

#include <string>
#include <string_view>

#include "agent/probe/check.h"
#include "runtime/http/message.h"

namespace holdfast::agent {

inline constexpr char kHealthPath[] = "/grpc.health.v1.Health/Check";

// What is asked about `service`, framed.
std::string HealthQuestion(const std::string& service);

// What a whole answer means, in a kubelet's words. `fields`: the trailers, or the head's headers of
// an answer that has nothing else.
CheckOutcome HealthOutcome(int http_status, const runtime::http::Headers& fields,
                           std::string_view body);

}  // namespace holdfast::agent

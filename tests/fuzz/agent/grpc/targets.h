// SPDX-License-Identifier: Apache-2.0
// What a client of the gRPC API sends, before gRPC gets it.
#pragma once

#include <string_view>

namespace holdfast::fuzz {

void FuzzHttp2(std::string_view input);  // frames behind the preface

}  // namespace holdfast::fuzz

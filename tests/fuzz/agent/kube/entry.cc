// SPDX-License-Identifier: Apache-2.0
// The fuzzer engine's entry; FUZZ_TARGET names one function of targets.h.
#include "tests/fuzz/agent/kube/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::agent::kube::fuzz::FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}

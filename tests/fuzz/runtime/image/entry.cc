// SPDX-License-Identifier: Apache-2.0
// The fuzzer engine's entry; FUZZ_TARGET names one function of targets.h.
#include "tests/fuzz/runtime/image/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  holdfast::runtime::fuzz::FUZZ_TARGET({data, size});
  return 0;
}

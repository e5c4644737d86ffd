// SPDX-License-Identifier: Apache-2.0
// The fuzzer engine's entry; FUZZ_TARGET is a function of FUZZ_HEADER.
#include <cstddef>
#include <cstdint>

#include FUZZ_HEADER

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}

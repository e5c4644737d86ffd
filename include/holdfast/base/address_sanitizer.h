// SPDX-License-Identifier: Apache-2.0
// HOLDFAST_ADDRESS_SANITIZER: 1 where AddressSanitizer is compiled in (its shadow memory takes terabytes of addresses,
// and what was freed stays for a while), else 0. g++ and clang say it in different ways.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define HOLDFAST_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HOLDFAST_ADDRESS_SANITIZER 1
#endif
#endif

#ifndef HOLDFAST_ADDRESS_SANITIZER
#define HOLDFAST_ADDRESS_SANITIZER 0
#endif

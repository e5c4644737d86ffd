// SPDX-License-Identifier: Apache-2.0
// Services in IPVS: our back end, which also binds the services' addresses and writes its rules, beside `ipvsadm -R`, which
// does neither. Only on a kernel that has IPVS. Each in network namespaces of its own, by turns. Single-threaded.
#pragma once

#include "tests/bench/services/report.h"
#include "tests/bench/services/shape.h"

namespace holdfast::bench {

bool HasIpvs();
// Rows services.ipvs.load and .replace of that shape.
void MeasureIpvs(const Shape& shape, Report& report);
// Microseconds for all services of the shape into a fresh network namespace; negative: the program failed.
double LoadByIpvsadm(const Shape& shape);

}  // namespace holdfast::bench

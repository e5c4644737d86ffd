// SPDX-License-Identifier: Apache-2.0
// Parts that both back ends use. Thread-safe: no state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/base/result.h"
#include "runtime/cgroup/backend.h"

namespace holdfast::runtime {

std::unique_ptr<CgroupBackend> MakeCgroupV1(CgroupLayout layout);
std::unique_ptr<CgroupBackend> MakeCgroupV2(CgroupLayout layout);

// A file with one number ("max" and v1's huge "no limit" values are returned as UINT64_MAX).
Result<uint64_t> ReadNumber(int dir, const char* file);
// As a limit: "max" and v1's huge value, the pages that a long can count, are kUnlimited.
int64_t LimitOr(uint64_t value);
// What a quota per `period_us` is per kCpuPeriodMicros.
int64_t QuotaPerPeriod(int64_t quota_us, int64_t period_us);
// "hugetlb.2MB.limit_in_bytes" or "hugetlb.2MB.max", by what comes after the size.
Result<std::vector<uint64_t>> ListHugePageSizes(int dir, std::string_view suffix);
Result<void> ApplyHugePages(int dir, const CgroupLimits& limits, std::string_view suffix);
// The number behind `key` in a file of "key value" lines; 0 when the key is not there.
Result<uint64_t> ReadKeyed(int dir, const char* file, std::string_view key);
Result<void> WriteNumber(int dir, const char* file, int64_t value);
// One pass of SIGKILL over `cgroup`, safe against reused process ids. Returns how many were hit.
Result<size_t> SignalEveryProcess(const Cgroup& cgroup, int signal);
// Attaches a device filter (BPF, cgroup v2) to the cgroup's directory: the standard devices and `more`.
Result<void> AttachDeviceFilter(int dir, const std::vector<DeviceRule>& more);

// Source: the OCI runtime specification's default devices, plus mknod without use.
inline constexpr DeviceRule kStandardDevices[] = {
    {'c', -1, -1, false, false, true},  // nodes may be made, not opened
    {'b', -1, -1, false, false, true}, {'c', 1, 3, true, true, true},  // null
    {'c', 1, 5, true, true, true},                                     // zero
    {'c', 1, 7, true, true, true},                                     // full
    {'c', 1, 8, true, true, true},                                     // random
    {'c', 1, 9, true, true, true},                                     // urandom
    {'c', 5, 0, true, true, true},                                     // tty
    {'c', 5, 2, true, true, true},                                     // ptmx
    {'c', 136, -1, true, true, true},                                  // pts/*
};

}  // namespace holdfast::runtime

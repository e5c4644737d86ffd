// SPDX-License-Identifier: Apache-2.0
// cgroup v2 has no devices controller: access is decided by a BPF program on the cgroup. Ours is
// assembled here from kStandardDevices and what the container has beside them. Source: bpf(2), linux/bpf.h (struct bpf_cgroup_dev_ctx).
#include <fcntl.h>
#include <linux/bpf.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "runtime/cgroup/backend_internal.h"

namespace holdfast::runtime {
namespace {

// Registers: 2 type, 3 access wanted, 4 major, 5 minor, 6 scratch.
constexpr uint8_t kType = 2, kAccess = 3, kMajor = 4, kMinor = 5, kScratch = 6;

bpf_insn Insn(int code, uint8_t dst, uint8_t src, int16_t off, int32_t imm) {
  bpf_insn insn{};
  insn.code = static_cast<uint8_t>(code);
  insn.dst_reg = dst & 15u;
  insn.src_reg = src & 15u;
  insn.off = off;
  insn.imm = imm;
  return insn;
}

bpf_insn LoadWord(uint8_t dst, size_t offset) {
  return Insn(BPF_LDX | BPF_W | BPF_MEM, dst, 1, static_cast<int16_t>(offset), 0);
}

void AppendReturn(std::vector<bpf_insn>& program, int32_t value) {
  program.push_back(Insn(BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, 0, value));
  program.push_back(Insn(BPF_JMP | BPF_EXIT, 0, 0, 0, 0));
}

// "if everything of the row fits, return 1"; each test jumps behind the row when it does not.
void AppendRule(std::vector<bpf_insn>& program, const DeviceRule& rule) {
  std::vector<bpf_insn> row;
  const int32_t type = rule.type == 'b' ? BPF_DEVCG_DEV_BLOCK : BPF_DEVCG_DEV_CHAR;
  const int32_t access = (rule.read ? BPF_DEVCG_ACC_READ : 0) |
                         (rule.write ? BPF_DEVCG_ACC_WRITE : 0) |
                         (rule.mknod ? BPF_DEVCG_ACC_MKNOD : 0);
  row.push_back(Insn(BPF_JMP | BPF_JNE | BPF_K, kType, 0, 0, type));
  row.push_back(Insn(BPF_ALU64 | BPF_MOV | BPF_X, kScratch, kAccess, 0, 0));
  row.push_back(Insn(BPF_ALU64 | BPF_AND | BPF_K, kScratch, 0, 0, ~access));
  row.push_back(Insn(BPF_JMP | BPF_JNE | BPF_K, kScratch, 0, 0, 0));
  if (rule.major >= 0) row.push_back(Insn(BPF_JMP | BPF_JNE | BPF_K, kMajor, 0, 0, rule.major));
  if (rule.minor >= 0) row.push_back(Insn(BPF_JMP | BPF_JNE | BPF_K, kMinor, 0, 0, rule.minor));
  AppendReturn(row, 1);
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i].code == (BPF_JMP | BPF_JNE | BPF_K)) {
      row[i].off = static_cast<int16_t>(row.size() - i - 1);
    }
  }
  program.insert(program.end(), row.begin(), row.end());
}

std::vector<bpf_insn> Program(const std::vector<DeviceRule>& more) {
  std::vector<bpf_insn> program;
  // access_type holds the access in its upper and the type in its lower half.
  program.push_back(LoadWord(kType, offsetof(bpf_cgroup_dev_ctx, access_type)));
  program.push_back(Insn(BPF_ALU64 | BPF_MOV | BPF_X, kAccess, kType, 0, 0));
  program.push_back(Insn(BPF_ALU64 | BPF_RSH | BPF_K, kAccess, 0, 0, 16));
  program.push_back(Insn(BPF_ALU64 | BPF_AND | BPF_K, kType, 0, 0, 0xffff));
  program.push_back(LoadWord(kMajor, offsetof(bpf_cgroup_dev_ctx, major)));
  program.push_back(LoadWord(kMinor, offsetof(bpf_cgroup_dev_ctx, minor)));
  for (const DeviceRule& rule : kStandardDevices) AppendRule(program, rule);
  for (const DeviceRule& rule : more) AppendRule(program, rule);
  AppendReturn(program, 0);
  return program;
}

Result<UniqueFd> LoadProgram(const std::vector<DeviceRule>& more) {
  const std::vector<bpf_insn> program = Program(more);
  static constexpr char kLicense[] = "Apache-2.0";
  bpf_attr attr{};
  attr.prog_type = BPF_PROG_TYPE_CGROUP_DEVICE;
  attr.insns = reinterpret_cast<uint64_t>(program.data());
  attr.insn_cnt = static_cast<uint32_t>(program.size());
  attr.license = reinterpret_cast<uint64_t>(kLicense);
  UniqueFd fd(static_cast<int>(::syscall(SYS_bpf, BPF_PROG_LOAD, &attr, sizeof attr)));
  if (!fd) return Error::FromErrno(errno, "bpf load device filter");
  return fd;
}

// Of the cgroup itself, not of those above it.
bool IsAttached(int cgroup, uint32_t program) {
  std::array<uint32_t, 64> attached{};  // as many as a cgroup may have
  bpf_attr attr{};
  attr.query.target_fd = static_cast<uint32_t>(cgroup);
  attr.query.attach_type = BPF_CGROUP_DEVICE;
  attr.query.prog_ids = reinterpret_cast<uint64_t>(attached.data());
  attr.query.prog_cnt = attached.size();
  if (::syscall(SYS_bpf, BPF_PROG_QUERY, &attr, sizeof attr) != 0) return false;
  return std::ranges::count(std::span(attached).first(attr.query.prog_cnt), program) > 0;
}

std::optional<uint32_t> IdOf(int program) {
  bpf_prog_info info{};
  bpf_attr attr{};
  attr.info.bpf_fd = static_cast<uint32_t>(program);
  attr.info.info_len = sizeof info;
  attr.info.info = reinterpret_cast<uint64_t>(&info);
  if (::syscall(SYS_bpf, BPF_OBJ_GET_INFO_BY_FD, &attr, sizeof attr) != 0) return std::nullopt;
  return info.id;
}

Result<void> AttachProgram(int dir, int program) {
  // bpf(2) wants a readable descriptor of the directory; ours is O_PATH.
  UniqueFd readable(::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!readable) return Error::FromErrno(errno, "open cgroup for its device filter");
  bpf_attr attr{};
  attr.target_fd = static_cast<uint32_t>(readable.get());
  attr.attach_bpf_fd = static_cast<uint32_t>(program);
  attr.attach_type = BPF_CGROUP_DEVICE;
  attr.attach_flags = BPF_F_ALLOW_MULTI;
  if (::syscall(SYS_bpf, BPF_PROG_ATTACH, &attr, sizeof attr) == 0) return {};
  const int failed = errno;
  // The kernel refuses what is there already, as in a sandbox's cgroup when its processes begin anew.
  if (const auto id = IdOf(program); failed == EINVAL && id && IsAttached(readable.get(), *id)) {
    return {};
  }
  return Error::FromErrno(failed, "bpf attach device filter");
}

}  // namespace

Result<void> AttachDeviceFilter(int dir, const std::vector<DeviceRule>& more) {
  if (!more.empty()) {
    ASSIGN_OR_RETURN(const UniqueFd program, LoadProgram(more));
    return AttachProgram(dir, program.get());
  }
  // The program is the same for every other container, so it is loaded once per process.
  static const Result<UniqueFd> standard = LoadProgram({});
  if (!standard) return Error(standard.error());
  return AttachProgram(dir, standard->get());
}

}  // namespace holdfast::runtime

// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan/bpf_tree.h"

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <iterator>
#include <utility>

namespace holdfast::runtime {
namespace {

constexpr size_t kMaxShortJump = 255;

struct Range {
  uint32_t first;
  const SyscallVerdict* verdict;
};

// Neighbours with the same verdict become one range.
std::vector<Range> Merge(const SyscallRanges& ranges) {
  std::vector<Range> merged;
  for (const auto& [first, verdict] : ranges) {
    if (!merged.empty() && *merged.back().verdict == verdict) continue;
    merged.push_back({first, &verdict});
  }
  return merged;
}

void Append(BpfProgram& program, const BpfProgram& more) {
  program.insert(program.end(), more.begin(), more.end());
}

// `taken` follows when the test holds, `otherwise` when not.
BpfProgram Branch(uint16_t test, uint32_t value, const BpfProgram& taken,
                  const BpfProgram& otherwise) {
  BpfProgram program;
  if (otherwise.size() <= kMaxShortJump) {
    program.push_back({test, static_cast<uint8_t>(otherwise.size()), 0, value});
  } else {
    // A conditional jump reaches 255 instructions, an unconditional one any distance.
    program.push_back({test, 0, 1, value});
    program.push_back({BPF_JMP | BPF_JA, 0, 0, static_cast<uint32_t>(otherwise.size())});
  }
  Append(program, otherwise);
  Append(program, taken);
  return program;
}

BpfProgram Tree(const std::vector<Range>& ranges, size_t begin, size_t end) {
  if (end - begin == 1) {
    const SyscallVerdict& verdict = *ranges[begin].verdict;
    return verdict.block.empty() ? BpfProgram{BpfReturn(verdict.action)} : verdict.block;
  }
  const size_t middle = begin + (end - begin) / 2;
  return Branch(BPF_JMP | BPF_JGE | BPF_K, ranges[middle].first, Tree(ranges, middle, end),
                Tree(ranges, begin, middle));
}

model::BpfInstruction Load(size_t offset) {
  return {BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<uint32_t>(offset)};
}

// The same tree with one copy of each verdict behind it, which halves the program; possible as long
// as every jump is short.
class SharedLeaves {
 public:
  explicit SharedLeaves(const std::vector<Range>& ranges) : ranges_(ranges) {}

  // Empty when a jump would be too long.
  BpfProgram Write() {
    (void)Lay(0, ranges_.size());
    std::vector<size_t> places;  // of the verdicts
    size_t end = nodes_.size();
    for (const SyscallVerdict* verdict : verdicts_) {
      places.push_back(end);
      end += verdict->block.empty() ? 1 : verdict->block.size();
    }
    BpfProgram program;
    for (size_t at = 0; at < nodes_.size(); ++at) {
      const size_t taken = Place(nodes_[at].taken, places) - at - 1;
      const size_t otherwise = Place(nodes_[at].otherwise, places) - at - 1;
      if (taken > kMaxShortJump || otherwise > kMaxShortJump) return {};
      program.push_back({BPF_JMP | BPF_JGE | BPF_K, static_cast<uint8_t>(taken),
                         static_cast<uint8_t>(otherwise), nodes_[at].first});
    }
    for (const SyscallVerdict* verdict : verdicts_) {
      Append(program,
             verdict->block.empty() ? BpfProgram{BpfReturn(verdict->action)} : verdict->block);
    }
    return program;
  }

 private:
  // A comparison or, as the end of a path, a verdict.
  struct Target {
    bool is_verdict;
    size_t index;
  };
  struct Node {
    uint32_t first;
    Target taken;
    Target otherwise;
  };

  static size_t Place(const Target& target, const std::vector<size_t>& places) {
    return target.is_verdict ? places[target.index] : target.index;
  }

  Target Lay(size_t begin, size_t end) {
    if (end - begin == 1) return {true, VerdictIndex(*ranges_[begin].verdict)};
    const size_t middle = begin + (end - begin) / 2;
    const size_t node = nodes_.size();
    nodes_.push_back({ranges_[middle].first, {}, {}});
    const Target otherwise = Lay(begin, middle);
    const Target taken = Lay(middle, end);
    nodes_[node].otherwise = otherwise;
    nodes_[node].taken = taken;
    return {false, node};
  }

  size_t VerdictIndex(const SyscallVerdict& verdict) {
    for (size_t i = 0; i < verdicts_.size(); ++i) {
      if (*verdicts_[i] == verdict) return i;
    }
    verdicts_.push_back(&verdict);
    return verdicts_.size() - 1;
  }

  const std::vector<Range>& ranges_;
  std::vector<Node> nodes_;
  std::vector<const SyscallVerdict*> verdicts_;
};

BpfProgram TreeOf(const SyscallRanges& all) {
  const std::vector<Range> ranges = Merge(all);
  BpfProgram program = SharedLeaves(ranges).Write();
  return program.empty() ? Tree(ranges, 0, ranges.size()) : program;
}

}  // namespace

void SetVerdict(SyscallRanges& ranges, uint32_t number, const SyscallVerdict& verdict) {
  // What held for number + 1 goes on holding there.
  const auto after = std::prev(ranges.upper_bound(number + 1));
  const SyscallVerdict rest = after->second;
  ranges[number] = verdict;
  ranges[number + 1] = rest;
}

BpfProgram WriteSeccompProgram(const std::vector<ArchitectureRules>& rules, uint32_t foreign) {
  BpfProgram program = {BpfReturn(foreign)};
  for (auto rule = rules.rbegin(); rule != rules.rend(); ++rule) {
    BpfProgram tree = {Load(offsetof(seccomp_data, nr))};
    Append(tree, TreeOf(rule->ranges));
    program = Branch(BPF_JMP | BPF_JEQ | BPF_K, rule->audit_arch, tree, program);
  }
  program.insert(program.begin(), Load(offsetof(seccomp_data, arch)));
  return program;
}

model::BpfInstruction BpfReturn(uint32_t action) { return {BPF_RET | BPF_K, 0, 0, action}; }

model::BpfInstruction BpfLoadArgumentLow(int index) {
  // Little-endian, as every architecture of the table is.
  return Load(offsetof(seccomp_data, args) + static_cast<size_t>(index) * sizeof(uint64_t));
}

}  // namespace holdfast::runtime

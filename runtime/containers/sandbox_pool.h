// SPDX-License-Identifier: Apache-2.0
// SandboxPool: sandboxes of the commonest shape that lie ready for pods to come, so that a start
// does not wait until the kernel has made one. Thread-safe; one thread of its own, of the least
// priority, fills and empties it.
//
// A member is made by the launcher and kept by holder and launcher as a pod's sandbox is, under
// keys of its own (keeper/common/keys.h). No process runs in it. It is taken once, by the agent
// that had it made: the launcher then renames its keys, which is one step. What lies there and is
// not known to this agent is of a former one, or was cut short: it is dropped, never taken. So
// wherever somebody dies, a member is a pod's or nobody's.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "holdfast/base/result.h"
#include "holdfast/model/launch_plan.h"
#include "runtime/containers/parts.h"
#include "runtime/containers/pool_rules.h"

namespace holdfast::runtime {

class SandboxPool {
 public:
  // One that was taken out. It is the caller's until this object goes: then it is a pod's, or
  // dropped.
  class Member {
   public:
    Member(SandboxPool& pool, std::string id) : pool_(&pool), id_(std::move(id)) {}
    Member(Member&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)), id_(std::move(other.id_)) {}
    Member& operator=(Member&&) = delete;
    ~Member() {
      if (pool_ != nullptr) pool_->Forget(id_);
    }
    const std::string& id() const { return id_; }

   private:
    SandboxPool* pool_;
    std::string id_;
  };

  // A start that is under way: meanwhile nothing is made.
  class UnderWay {
   public:
    explicit UnderWay(SandboxPool& pool) : pool_(pool) { pool_.StartBegan(); }
    UnderWay(const UnderWay&) = delete;
    UnderWay& operator=(const UnderWay&) = delete;
    ~UnderWay() { pool_.StartEnded(); }

   private:
    SandboxPool& pool_;
  };

  // `parts` is borrowed.
  explicit SandboxPool(Parts& parts) : parts_(parts) {}
  // Drops the members.
  ~SandboxPool();
  SandboxPool(const SandboxPool&) = delete;
  SandboxPool& operator=(const SandboxPool&) = delete;

  // Drops what a former agent left. Once, before other calls.
  Result<void> Start();

  void KeepReady(size_t members);
  // The keeper may have lost some.
  void LookAgain();
  // One that is what `plan` asks for but for the host name, which it gets from the launcher; nullopt: there is none.
  std::optional<Member> Take(const model::SandboxPlan& plan);
  UnderWay BeginStart() { return UnderWay(*this); }

 private:
  void Run();
  void Look();
  void DropOne();
  void Make();
  Result<void> MakeOne(const std::string& id);
  std::optional<Member> TakeOut();  // the caller locks
  void Failed(const std::string& id, const Error& error);
  void Forget(const std::string& id);
  void StartBegan();
  void StartEnded();

  Parts& parts_;
  std::mutex mutex_;  // what follows
  std::condition_variable changed_;
  PoolState state_;              // `ready` is the size of `ready_`
  std::set<std::string> ready_;  // ids
  std::set<std::string> known_;  // being made, ready, taken out
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace holdfast::runtime

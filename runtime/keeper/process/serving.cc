// SPDX-License-Identifier: Apache-2.0
#include "runtime/keeper/process/serving.h"

#include <sys/epoll.h>

#include <utility>

#include "holdfast/base/strings.h"

namespace holdfast::runtime::keeper {
namespace {

constexpr char kKeptKey[] = "key:";

}  // namespace

Result<void> Serving::Prepare(std::initializer_list<int> signals) {
  ASSIGN_OR_RETURN(loop_, Loop::Create());
  ASSIGN_OR_RETURN(signals_, SignalFd(signals));
  return {};
}

Result<std::optional<Handover>> Serving::Resume() const {
  if (options_.resume < 0) return std::optional<Handover>();
  ASSIGN_OR_RETURN(Handover handover, TakeHandover(options_.resume));
  return std::optional<Handover>(std::move(handover));
}

Result<UniqueFd> Serving::TakeListener(Handover& handover) {
  UniqueFd listener = handover.TakeFd("listener");
  if (!listener) return Internal("hand-over of the keeper: no listener");
  upgrades_ = static_cast<uint32_t>(handover.Number("upgrades"));
  return listener;
}

Result<void> Serving::TakeStore(Handover& handover) {
  for (auto& [key, fds] : handover.fds) {
    if (!key.starts_with(kKeptKey)) continue;
    RETURN_IF_ERROR(store_.Put(key.substr(sizeof kKeptKey - 1), std::move(fds)));
  }
  return {};
}

Result<void> Serving::Start(UniqueFd listener, Work work) {
  work_ = std::move(work);
  server_ = std::make_unique<PacketServer>(
      loop_, std::move(listener),
      [this](PacketServer::ConnectionId id, Message message) { Handle(id, std::move(message)); });
  RETURN_IF_ERROR(server_->Start());
  ASSIGN_OR_RETURN(timer_, TimerFd());
  RETURN_IF_ERROR(loop_.Add(timer_.get(), EPOLLIN, [this](uint32_t) {
    DrainTimer(timer_.get());
    work_.on_tick();
  }));
  return loop_.Add(signals_.get(), EPOLLIN, [this](uint32_t) {
    while (const int signal = ReadSignal(signals_.get())) work_.on_signal(signal);
  });
}

Result<void> Serving::Turn() {
  RETURN_IF_ERROR(SetTick());  // also for what was done before the first turn
  return loop_.RunOnce(std::chrono::milliseconds(-1));
}

Result<void> Serving::SetTick() {
  const std::chrono::milliseconds wanted = work_.tick();
  if (wanted == tick_) return {};
  tick_ = wanted;
  return SetTimer(timer_.get(), wanted);
}

void Serving::Handle(PacketServer::ConnectionId id, Message message) {
  switch (message.type) {
    case MessageType::kPing:
      return server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
    case MessageType::kUpgrade:
      return PrepareUpgrade(id, message);
    default:
      if (!store_.Serve(*server_, id, message)) work_.handle(id, std::move(message));
  }
}

// Refused while the hand-over cannot be made: it doubles the descriptors for a moment, and one that
// got lost would be somebody's log or terminal.
void Serving::PrepareUpgrade(PacketServer::ConnectionId id, const Message& message) {
  if (message.fds.empty()) return server_->Fail(id, InvalidArgument("upgrade: no binary"));
  auto copy = CopyBinary(message.fds[0].get());
  if (!copy) return server_->Fail(id, copy.error());
  if (const auto packed = PackHandover(); !packed) return server_->Fail(id, packed.error());
  next_binary_ = std::move(*copy);
  server_->Reply(id, MessageType::kOk, Encoder().U32(upgrades_).Take());
}

Result<Handover> Serving::PackHandover() const {
  Handover handover(lowest_fd_);
  handover.values["upgrades"] = StrCat(upgrades_ + 1);
  RETURN_IF_ERROR(handover.Give("listener", server_->listener()));
  for (const auto& [key, fds] : store_.entries()) {
    for (const UniqueFd& fd : fds) RETURN_IF_ERROR(handover.Give(StrCat(kKeptKey, key), fd.get()));
  }
  RETURN_IF_ERROR(work_.hand_over(handover));
  return handover;
}

void Serving::UpgradeIfAsked() {
  if (!next_binary_) return;
  const UniqueFd binary = std::move(next_binary_);
  const auto handover = PackHandover();
  if (!handover) return;  // since it was asked for; the client sees the old program answer
  (void)ReExecute(binary.get(), options_.ToArguments(), *handover);  // on failure: as before
}

}  // namespace holdfast::runtime::keeper

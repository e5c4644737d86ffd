// SPDX-License-Identifier: Apache-2.0
#include "agent/image_service.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "agent/config/eviction.h"
#include "agent/images/node_logins.h"
#include "agent/images/provider_config.h"
#include "agent/operate/image_users.h"
#include "agent/volume/mounted_images.h"
#include "holdfast/base/strings.h"
#include "holdfast/sys/files.h"
#include "holdfast/sys/probe.h"
#include "runtime/image/documents/reference.h"
#include "runtime/image/pull/registry_puller.h"

namespace holdfast::agent {
namespace {

// With no limit of their own, as many pulls go on.
constexpr size_t kUnlimitedPulls = 64;
constexpr size_t kMaxPolicyBytes = 1 << 20;

size_t PullsAtATime(const ImagePullConfig& config) {
  if (config.serialize) return 1;
  return config.max_parallel == 0 ? kUnlimitedPulls : config.max_parallel;
}

// `file`: "" for none.
Result<runtime::SignaturePolicy> ReadSignaturePolicy(const std::string& file) {
  if (file.empty()) return runtime::SignaturePolicy();
  ASSIGN_OR_RETURN(const std::string text, sys::ReadFileAt(AT_FDCWD, file, kMaxPolicyBytes));
  return WithContext(runtime::SignaturePolicy::Parse(text), file);
}

void TellWhatTheCageLacks() {
  if (sys::LandlockAbi() >= sys::kUsefulLandlock) return;
  spdlog::warn(
      "the kernel has no Landlock, or not in version {} (Linux 5.19; security modules: lsm=): what "
      "unpacks images is held by its user, its mount namespace and its list of system calls alone",
      sys::kUsefulLandlock);
}

void Inform(const std::string& line) { spdlog::info("{}", line); }
void Warn(const std::string& line) { spdlog::warn("{}", line); }

}  // namespace

Result<std::unique_ptr<ImageService>> ImageService::Open(ImageServiceOptions options) {
  std::unique_ptr<ImageService> made(new ImageService(std::move(options)));
  TellWhatTheCageLacks();
  RETURN_IF_ERROR(WithContext(made->OpenStore(), "image store"));
  RETURN_IF_ERROR(made->OpenPulled());
  RETURN_IF_ERROR(made->OpenProviders());
  made->OpenCollector();
  made->OpenPuller();
  made->OpenPusher();
  return made;
}

Result<void> ImageService::OpenStore() {
  const AgentConfig& config = options_.config;
  if (!config.image_pull.archive_directory.empty()) {
    archive_book_ =
        std::make_unique<ArchiveBook>(config.instance.root_dir + "/image-archives.json");
  }
  runtime::ImageStoreOptions options;
  options.root = config.instance.ImageDir();
  options.aside = config.instance.AsideDir();
  options.helper = config.programs.unpack;
  options.limits.reserve = ImageReserve(config.node.eviction);
  options.user_of = [this](const Image& image) { return UserOf(image); };
  ASSIGN_OR_RETURN(signature_policy_, ReadSignaturePolicy(config.image_pull.signature_policy_path));
  options.policy = signature_policy_;
  options.pinned_by = [this](const Digest& id) {
    return archive_book_ ? archive_book_->PinnedBy(id) : std::string();
  };
  ASSIGN_OR_RETURN(stored_, runtime::DiskImageStore::Open(std::move(options)));
  for (const std::string& warning : stored_->warnings()) Warn(warning);
  images_ =
      std::make_unique<NotifyingImageStore>(*stored_, options_.added, [this] { pulled_->Prune(); });
  const std::string& file = config.image_pull.short_names_path;
  if (!file.empty()) {
    ASSIGN_OR_RETURN(short_names_, runtime::ShortNames::Read(file));
  }
  by_short_name_ = std::make_unique<ShortNamedImages>(*images_, short_names_);
  return {};
}

// "" when nothing uses it.
std::string ImageService::UserOf(const Image& image) const {
  std::string user = UserOfImage(options_.view.ListPods(), image);
  if (!user.empty()) return user;
  const auto mounted = IsMountedImage(image.id.value);
  return mounted && !*mounted ? "" : "a volume of a pod";
}

Result<void> ImageService::OpenPulled() {
  const ImagePullConfig& config = options_.config.image_pull;
  PulledImagesOptions options;
  options.directory = options_.config.instance.root_dir + "/image_manager";
  options.log = Warn;
  ASSIGN_OR_RETURN(options.verification,
                   PullVerification::Make(config.verification, config.verification_allowlist));
  ASSIGN_OR_RETURN(pulled_, PulledImages::Open(std::move(options), *stored_, options_.clock));
  return {};
}

Result<void> ImageService::OpenProviders() {
  const ImagePullConfig& config = options_.config.image_pull;
  if (config.provider_config.empty()) return {};
  CredentialProvidersOptions options;
  ASSIGN_OR_RETURN(options.providers,
                   ReadProviderConfig(config.provider_config, config.provider_programs));
  options.programs = config.provider_programs;
  options.log = Warn;
  options.owner = options_.config.instance.run_dir + "/credential-providers";
  ASSIGN_OR_RETURN(providers_, CredentialProviders::Start(options_.clock, std::move(options)));
  return {};
}

void ImageService::OpenCollector() {
  collector_ = std::unique_ptr<ImageCollector>(new ImageCollector(
      {.images = *images_,
       .space = *stored_,
       .needed =
           [this] {
             auto needed = std::make_shared<const NeededImages>(options_.view.ListPods());
             return [needed](const Image& image) { return needed->Has(image); };
           },
       .events = options_.view,
       .clock = options_.clock,
       .node_name = options_.config.instance.node_name,
       .config = options_.config.image_gc,
       .log = Inform}));
}

void ImageService::OpenPuller() {
  const ImagePullConfig& config = options_.config.image_pull;
  runtime::PullerOptions options;
  options.helper = options_.config.programs.fetch;
  options.environment = runtime::ProxyEnvironment();
  options.hosts_directory = config.registry_config_path;
  options.policy = signature_policy_;
  options.at_a_time = PullsAtATime(config);
  options.per_second = config.per_second;
  options.burst = config.burst;
  options.stopping = &stopping_;
  puller_ = std::make_unique<NotifyingImagePuller>(
      std::make_unique<runtime::RegistryPuller>(*stored_, std::move(options)), options_.added);
  patient_puller_ =
      std::make_unique<RoomMakingPuller>(*puller_, [this] { return collector_->MakeRoom(); });
}

void ImageService::OpenPusher() {
  runtime::PusherOptions options;
  options.helper = options_.config.programs.fetch;
  options.environment = runtime::ProxyEnvironment();
  options.hosts_directory = options_.config.image_pull.registry_config_path;
  options.stopping = &stopping_;
  pusher_ = std::make_unique<runtime::RegistryPusher>(*stored_, std::move(options));
}

Result<std::unique_ptr<ImageArchives>> ImageService::Tend() {
  RETURN_IF_ERROR(WithContext(collector_->Start(), "image garbage collection"));
  if (!archive_book_) return std::unique_ptr<ImageArchives>();
  auto archives = std::unique_ptr<ImageArchives>(
      new ImageArchives({.directory = options_.config.image_pull.archive_directory,
                         .book = *archive_book_,
                         .images = *images_,
                         .node_name = options_.config.instance.node_name,
                         .events = options_.view,
                         .make_room = [this] { return collector_->MakeRoom(); },
                         .log = Inform}));
  RETURN_IF_ERROR(archives->Start());
  return archives;
}

void ImageService::Stop() {
  stopping_ = true;
  if (providers_) providers_->Stop();
}

void ImageService::UseAccounts(AccountTokens& accounts) {
  if (providers_) providers_->UseAccounts(accounts);
}

// What programs make, then what files have.
ProvidedLogins ImageService::Logins(const std::string& image, const TokenOwner* pod,
                                    const std::atomic<bool>& cancelled) {
  ProvidedLogins logins;
  const auto reference = runtime::ParseReference(image);  // a wrong name is the puller's to tell
  if (providers_ && reference) logins = providers_->Provide(reference->repository, pod, cancelled);
  const char* home = ::getenv("HOME");
  const std::string root = options_.config.instance.root_dir;
  logins.all.Add(ReadNodeLogins(NodeLoginFiles(root, home == nullptr ? "/root" : home), Warn));
  return logins;
}

size_t ImageService::MostThatWait() const {
  return std::max(kUnlimitedPulls, PullsAtATime(options_.config.image_pull));
}

}  // namespace holdfast::agent

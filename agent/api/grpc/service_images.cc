// SPDX-License-Identifier: Apache-2.0
// Images: list, get, remove, tag, prune, usage. Import and export are in image_transfer.cc.
#include <algorithm>
#include <chrono>
#include <utility>

#include "agent/api/grpc/image_messages.h"
#include "agent/api/grpc/service.h"

namespace holdfast::agent::api {

void FillImage(const Image& from, bool with_environment, v1::Image& to) {
  to.set_id(from.id.value);
  to.mutable_repo_tags()->Assign(from.repo_tags.begin(), from.repo_tags.end());
  to.mutable_repo_digests()->Assign(from.repo_digests.begin(), from.repo_digests.end());
  to.set_size_bytes(from.size_bytes);
  to.set_created_unix_nanos(from.created.since_epoch.count());
  to.set_os(from.os);
  to.set_architecture(from.architecture);
  to.set_pinned(from.pinned);
  to.set_artifact_type(from.artifact_type);
  to.set_layers(static_cast<uint32_t>(from.layers.size()));
  v1::ImageConfig& config = *to.mutable_config();
  const ImageConfig& source = from.config;
  config.mutable_entrypoint()->Assign(source.entrypoint.begin(), source.entrypoint.end());
  config.mutable_cmd()->Assign(source.cmd.begin(), source.cmd.end());
  if (with_environment) config.mutable_env()->Assign(source.env.begin(), source.env.end());
  config.set_user(source.user);
  config.set_working_dir(source.working_dir);
  config.set_stop_signal(source.stop_signal);
  config.mutable_exposed_ports()->Assign(source.exposed_ports.begin(), source.exposed_ports.end());
  config.mutable_volumes()->Assign(source.volumes.begin(), source.volumes.end());
  for (const auto& [key, value] : source.labels) (*config.mutable_labels())[key] = value;
}

ImageConfig ReadImageConfig(const v1::ImageConfig& from) {
  ImageConfig to;
  to.entrypoint.assign(from.entrypoint().begin(), from.entrypoint().end());
  to.cmd.assign(from.cmd().begin(), from.cmd().end());
  to.env.assign(from.env().begin(), from.env().end());
  to.user = from.user();
  to.working_dir = from.working_dir();
  to.stop_signal = from.stop_signal();
  to.exposed_ports.assign(from.exposed_ports().begin(), from.exposed_ports().end());
  to.volumes.assign(from.volumes().begin(), from.volumes().end());
  to.labels.insert(from.labels().begin(), from.labels().end());
  return to;
}

namespace {

bool ComesBefore(const Image& a, const Image& b) {
  const auto name = [](const Image& image) {
    return image.repo_tags.empty() ? std::string() : image.repo_tags.front();
  };
  return std::pair(name(a), a.id) < std::pair(name(b), b.id);
}

void FillUsage(const ImageUsageRow& from, v1::ImageUsageResponse::Usage& to) {
  FillImage(from.image, false, *to.mutable_image());
  to.set_size_bytes(from.size);
  to.set_shared_bytes(from.shared);
  to.set_unique_bytes(from.size - from.shared);
  to.set_in_use(from.in_use);
  to.set_used_unix_nanos(from.used.since_epoch.count());
}

}  // namespace

grpc::ServerUnaryReactor* NodeAgentService::ListImages(grpc::CallbackServerContext* context,
                                                       const v1::ListImagesRequest* /*request*/,
                                                       v1::ListImagesResponse* response) {
  return AnswerBlocking(context, Method::kListImages, *response,
                        [this, response]() -> Result<void> {
                          ASSIGN_OR_RETURN(std::vector<Image> images, core_.node.images().List());
                          std::sort(images.begin(), images.end(), ComesBefore);
                          for (const Image& image : images) {
                            FillImage(image, ShowsEnvironment(), *response->add_images());
                          }
                          return {};
                        });
}

grpc::ServerUnaryReactor* NodeAgentService::GetImage(grpc::CallbackServerContext* context,
                                                     const v1::GetImageRequest* request,
                                                     v1::Image* response) {
  return AnswerBlocking(
      context, Method::kGetImage, *response, [this, request, response]() -> Result<void> {
        ASSIGN_OR_RETURN(const Image image, core_.node.images().Get(request->reference()));
        FillImage(image, ShowsEnvironment(), *response);
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::RemoveImage(grpc::CallbackServerContext* context,
                                                        const v1::RemoveImageRequest* request,
                                                        v1::RemoveImageResponse* response) {
  return AnswerChange(context, Method::kRemoveImage, *response, request->reference(), {},
                      [this, request] { return core_.node.images().Remove(request->reference()); });
}

grpc::ServerUnaryReactor* NodeAgentService::TagImage(grpc::CallbackServerContext* context,
                                                     const v1::TagImageRequest* request,
                                                     v1::TagImageResponse* response) {
  return AnswerChange(
      context, Method::kTagImage, *response, request->source() + " " + request->target(), {},
      [this, request] { return core_.node.images().Tag(request->source(), request->target()); });
}

grpc::ServerUnaryReactor* NodeAgentService::PruneImages(grpc::CallbackServerContext* context,
                                                        const v1::PruneImagesRequest* request,
                                                        v1::PruneImagesResponse* response) {
  return AnswerChange(
      context, Method::kPruneImages, *response, request->all() ? "all unused" : "without a name",
      {}, [this, request, response]() -> Result<void> {
        const WallTime until{std::chrono::nanoseconds(request->until_unix_nanos())};
        ASSIGN_OR_RETURN(const FreedImages freed, core_.node.PruneImages({request->all(), until}));
        for (const Image& image : freed.images) {
          FillImage(image, false, *response->add_images());
        }
        response->set_reclaimed_bytes(freed.bytes);
        response->set_errors(freed.errors);
        return {};
      });
}

grpc::ServerUnaryReactor* NodeAgentService::ImageUsage(grpc::CallbackServerContext* context,
                                                       const v1::ImageUsageRequest* /*request*/,
                                                       v1::ImageUsageResponse* response) {
  return AnswerBlocking(
      context, Method::kImageUsage, *response, [this, response]() -> Result<void> {
        ASSIGN_OR_RETURN(ImagesUsage usage, core_.node.UsageOfImages());
        std::sort(usage.images.begin(), usage.images.end(),
                  [](const auto& a, const auto& b) { return ComesBefore(a.image, b.image); });
        for (const ImageUsageRow& row : usage.images) FillUsage(row, *response->add_images());
        response->set_total_bytes(usage.total);
        response->set_reclaimable_bytes(usage.reclaimable);
        response->set_partial_bytes(usage.partial);
        return {};
      });
}

}  // namespace holdfast::agent::api

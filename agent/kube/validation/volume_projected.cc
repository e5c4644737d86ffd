// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "holdfast/base/ascii.h"
#include "k8s/core/v1/volume.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr int64_t kLeastTokenSeconds = 600;
constexpr int64_t kMostTokenSeconds = int64_t{1} << 32;
constexpr int32_t kLeastCertificateSeconds = 3600;
constexpr int32_t kMostCertificateSeconds = 91 * 24 * 3600;
constexpr int32_t kMostKubernetesSeconds = 24 * 3600;

// The sources of one projected volume: they share one directory.
class ProjectionCheck {
 public:
  ProjectionCheck(std::string path, Report* report) : path_(std::move(path)), report_(*report) {}

  void Check(const corev1::VolumeProjection& source, const std::string& path) {
    if (source.has_secret()) CheckKeys(source.secret(), Child(path, "secret"));
    if (source.has_configmap()) CheckKeys(source.configmap(), Child(path, "configMap"));
    if (source.has_downwardapi()) CheckDownward(source.downwardapi(), Child(path, "downwardAPI"));
    if (source.has_serviceaccounttoken()) {
      CheckToken(source.serviceaccounttoken(), Child(path, "serviceAccountToken"));
    }
    if (source.has_clustertrustbundle()) {
      CheckTrust(source.clustertrustbundle(), Child(path, "clusterTrustBundle"));
    }
    if (source.has_podcertificate()) {
      CheckCertificate(source.podcertificate(), Child(path, "podCertificate"));
    }
    const int sources = source.has_secret() + source.has_configmap() + source.has_downwardapi() +
                        source.has_serviceaccounttoken() + source.has_clustertrustbundle() +
                        source.has_podcertificate();
    if (sources > 1) {
      report_.Forbidden(path, "may not specify more than 1 volume type per source");
    }
  }

 private:
  void Claim(const std::string& file) {
    if (!file.empty() && !files_.insert(file).second) {
      report_.Invalid(path_, file, "conflicting duplicate paths");
    }
  }

  template <class Source>
  void CheckKeys(const Source& source, const std::string& path) {
    if (source.localobjectreference().name().empty()) report_.Required(Child(path, "name"));
    for (int i = 0; i < source.items_size(); ++i) {
      const corev1::KeyToPath& item = source.items(i);
      const std::string here = Index(Child(path, "items"), i);
      if (item.key().empty()) report_.Required(Child(here, "key"));
      if (item.path().empty()) report_.Required(Child(here, "path"));
      CheckFilePath(item.path(), Child(here, "path"), &report_);
      if (item.has_mode()) CheckFileMode(item.mode(), Child(here, "mode"), &report_);
      Claim(item.path());
    }
  }

  void CheckDownward(const corev1::DownwardAPIProjection& source, const std::string& path) {
    for (int i = 0; i < source.items_size(); ++i) {
      CheckDownwardFile(source.items(i), Index(Child(path, "items"), i), &report_);
      Claim(source.items(i).path());
    }
  }

  void CheckToken(const corev1::ServiceAccountTokenProjection& token, const std::string& path) {
    const int64_t seconds = token.expirationseconds();
    const std::string here = Child(path, "expirationSeconds");
    if (seconds < kLeastTokenSeconds) {
      report_.InvalidNumber(here, seconds, "may not specify a duration less than 10 minutes");
    }
    if (seconds > kMostTokenSeconds) {
      report_.InvalidNumber(here, seconds, "may not specify a duration larger than 2^32 seconds");
    }
    if (token.path().empty()) {
      report_.Required(Child(path, "path"));
    } else {
      CheckFilePath(token.path(), Child(path, "path"), &report_);
    }
  }

  void CheckTrustName(const corev1::ClusterTrustBundleProjection& bundle, const std::string& path) {
    const std::string& name = bundle.name();
    if (name.empty()) report_.Required(path, "must be a valid object name");
    for (const std::string& fault : CheckTrustBundleName(name)) {
      report_.Invalid(path, name, "not a valid clustertrustbundlename: " + fault);
    }
  }

  void CheckTrust(const corev1::ClusterTrustBundleProjection& bundle, const std::string& path) {
    if (bundle.has_name() && bundle.has_signername()) {
      report_.InvalidLiteral(path, ShownJson(bundle),
                             "only one of name and signerName may be used");
    } else if (bundle.has_name()) {
      CheckTrustName(bundle, Child(path, "name"));
      if (bundle.has_labelselector()) {
        report_.InvalidLiteral(Child(path, "labelSelector"), ShownJson(bundle.labelselector()),
                               "labelSelector must be unset if name is specified");
      }
    } else if (bundle.has_signername()) {
      if (bundle.signername().empty()) {
        report_.Required(Child(path, "signerName"), "must be a valid signer name");
      }
      CheckSignerName(bundle.signername(), Child(path, "signerName"), &report_);
      if (bundle.has_labelselector()) {
        CheckLabelSelector(bundle.labelselector(), Child(path, "labelSelector"), &report_);
      }
    } else {
      report_.Required(path, "either name or signerName must be specified");
    }
    if (bundle.path().empty()) report_.Required(Child(path, "path"));
    CheckFilePath(bundle.path(), Child(path, "path"), &report_);
    Claim(bundle.path());
  }

  void CheckUserAnnotations(const corev1::PodCertificateProjection& certificate,
                            const std::string& path) {
    for (const auto& [key, value] : Sorted(certificate.userannotations())) {
      const Faults faults = CheckQualifiedName(ToLower(key));
      if (key.empty()) {
        report_.Required(path);
      } else if (!faults.empty()) {
        report_.InvalidEach(path, ToLower(key), faults);
      } else if (key.find('/') == std::string::npos) {
        report_.Invalid(path, ToLower(key),
                        "must be a domain-prefixed key (such as \"acme.io/foo\")");
      }
    }
  }

  void CheckCertificate(const corev1::PodCertificateProjection& certificate,
                        const std::string& path) {
    CheckSignerName(certificate.signername(), Child(path, "signerName"), &report_);
    CheckUserAnnotations(certificate, Child(path, "userAnnotations"));
    report_.OneOfShown(Child(path, "keyType"), certificate.keytype(),
                       {"RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"});
    const int32_t seconds = certificate.maxexpirationseconds();
    if (certificate.has_maxexpirationseconds() && seconds < kLeastCertificateSeconds) {
      report_.InvalidNumber(Child(path, "maxExpirationSeconds"), seconds,
                            "if provided, maxExpirationSeconds must be >= 3600");
    }
    const int32_t most = IsKubernetesSigner(certificate.signername()) ? kMostKubernetesSeconds
                                                                      : kMostCertificateSeconds;
    if (seconds > most) {
      report_.InvalidNumber(Child(path, "maxExpirationSeconds"), seconds,
                            StrCat("if provided, maxExpirationSeconds must be <= ", most));
    }
    const std::pair<std::string_view, const std::string*> files[] = {
        {"credentialBundlePath", &certificate.credentialbundlepath()},
        {"keyPath", &certificate.keypath()},
        {"certificateChainPath", &certificate.certificatechainpath()}};
    bool any = false;
    for (const auto& [field, file] : files) {
      if (file->empty()) continue;
      any = true;
      CheckFilePath(*file, Child(path, field), &report_);
      Claim(*file);
    }
    if (!any) {
      report_.Required(path,
                       "specify at least one of credentialBundlePath, keyPath, and "
                       "certificateChainPath");
    }
  }

  std::string path_;
  Report& report_;
  std::set<std::string> files_;
};

}  // namespace

void CheckDownwardFile(const corev1::DownwardAPIVolumeFile& file, const std::string& path,
                       Report* report) {
  if (file.path().empty()) report->Required(Child(path, "path"));
  CheckFilePath(file.path(), Child(path, "path"), report);
  if (file.has_fieldref()) {
    CheckFieldRef(file.fieldref(),
                  {"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace",
                   "metadata.uid"},
                  Child(path, "fieldRef"), report);
    if (file.has_resourcefieldref()) {
      report->Invalid(path, "resource",
                      "fieldRef and resourceFieldRef can not be specified simultaneously");
    }
  } else if (file.has_resourcefieldref()) {
    CheckResourceFieldRef(file.resourcefieldref(), true, Child(path, "resourceFieldRef"), report);
  } else {
    report->Required(path, "one of fieldRef and resourceFieldRef is required");
  }
  if (file.has_mode()) CheckFileMode(file.mode(), Child(path, "mode"), report);
}

void CheckProjected(const corev1::ProjectedVolumeSource& projected, const std::string& path,
                    Report* report) {
  CheckFileMode(projected.defaultmode(), Child(path, "defaultMode"), report);
  ProjectionCheck check(path, report);
  for (int i = 0; i < projected.sources_size(); ++i) {
    check.Check(projected.sources(i), Index(Child(path, "sources"), i));
  }
}

}  // namespace holdfast::agent::kube

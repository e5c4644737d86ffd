// SPDX-License-Identifier: Apache-2.0
// Sources of volumes that come over the network or from a driver of today.
#include <algorithm>

#include "agent/kube/validation/names.h"
#include "agent/kube/validation/rules.h"
#include "agent/kube/validation/shown.h"
#include "holdfast/base/ascii.h"
#include "k8s/core/v1/volume.pb.h"
#include "k8s/core/v1/volume_remote.pb.h"

namespace holdfast::agent::kube {
namespace {

constexpr size_t kDriverLength = 63;

bool NonEmptyAllOf(std::string_view text, bool (*allowed)(char)) {
  return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

// iqn.2001-04.com.example:storage.1 (RFC 3720, 3.2.6.3.1)
bool IsIqn(std::string_view name) {
  constexpr size_t kDate = 12;  // "iqn.2001-04."
  const size_t colon = name.find(':', kDate);
  if (name.size() < kDate || colon == std::string_view::npos) return false;
  const bool date = NonEmptyAllOf(name.substr(4, 4), IsDigit) && name[8] == '-' &&
                    NonEmptyAllOf(name.substr(9, 2), IsDigit) && name[11] == '.';
  const bool domain = NonEmptyAllOf(name.substr(kDate, colon - kDate), [](char c) {
    return IsAlphanumeric(c) || c == '-' || c == '.';
  });
  const bool own = NonEmptyAllOf(name.substr(colon + 1), [](char c) {
    return std::string_view(",;*&$| \t\n\f\r").find(c) == std::string_view::npos;
  });
  return name.starts_with("iqn.") && date && domain && own;
}

// Also the numbers of RFC 3720 (eui) and RFC 3980 (naa), as long as Kubernetes wants them.
bool IsInitiatorName(std::string_view name) {
  if (name.starts_with("iqn")) return IsIqn(name);
  const size_t length = name.starts_with("eui") ? 16 : 32;
  return name.size() == 4 + length && NonEmptyAllOf(name.substr(4), IsAlphanumeric);
}

void CheckInitiatorName(const std::string& name, const std::string& path, Report* report) {
  if (!name.starts_with("iqn") && !name.starts_with("eui") && !name.starts_with("naa")) {
    report->Invalid(path, name, "must be valid format starting with iqn, eui, or naa");
  } else if (!IsInitiatorName(name)) {
    report->Invalid(path, name, "must be valid format");
  }
}

void CheckNfs(const corev1::NFSVolumeSource& source, const std::string& path, Report* report) {
  if (source.server().empty()) report->Required(Child(path, "server"));
  if (source.path().empty()) report->Required(Child(path, "path"));
  if (!source.path().starts_with('/')) {
    report->Invalid(Child(path, "path"), source.path(), "must be an absolute path");
  }
}

void CheckIscsi(const corev1::ISCSIVolumeSource& source, const std::string& path, Report* report) {
  if (source.targetportal().empty()) report->Required(Child(path, "targetPortal"));
  if (source.iqn().empty()) {
    report->Required(Child(path, "iqn"));
  } else {
    CheckInitiatorName(source.iqn(), Child(path, "iqn"), report);
  }
  if (source.lun() < 0 || source.lun() > 255) {
    report->InvalidNumber(Child(path, "lun"), source.lun(), InclusiveRange(0, 255));
  }
  if ((source.chapauthdiscovery() || source.chapauthsession()) && !source.has_secretref()) {
    report->Required(Child(path, "secretRef"));
  }
  if (source.has_initiatorname()) {
    CheckInitiatorName(source.initiatorname(), Child(path, "initiatorName"), report);
  }
}

void CheckFc(const corev1::FCVolumeSource& source, const std::string& path, Report* report) {
  const bool names = !source.targetwwns().empty();
  if (!names && source.wwids().empty()) {
    report->Required(Child(path, "targetWWNs"),
                     "must specify either targetWWNs or wwids, but not both");
  }
  if (!names) return;
  if (!source.wwids().empty()) {
    report->InvalidLiteral(Child(path, "targetWWNs"), ShownList(source.targetwwns()),
                           "targetWWNs and wwids can not be specified simultaneously");
  }
  if (!source.has_lun()) {
    report->Required(Child(path, "lun"), "lun is required if targetWWNs is specified");
  } else if (source.lun() < 0 || source.lun() > 255) {
    report->InvalidNumber(Child(path, "lun"), source.lun(), InclusiveRange(0, 255));
  }
}

void CheckCsi(const corev1::CSIVolumeSource& source, const std::string& path, Report* report) {
  const std::string driver = Child(path, "driver");
  if (source.driver().empty()) {
    report->Required(driver);
  } else {
    if (source.driver().size() > kDriverLength) report->TooLong(driver, kDriverLength);
    report->InvalidEach(driver, source.driver(), CheckDns1123Subdomain(ToLower(source.driver())));
  }
  if (!source.has_nodepublishsecretref()) return;
  const std::string& secret = source.nodepublishsecretref().name();
  const std::string here = Child(path, "nodePublishSecretRef.name");
  if (secret.empty()) return report->Required(here);
  report->InvalidEach(here, secret, CheckDns1123Subdomain(secret));
}

}  // namespace

void CheckRemoteVolume(const corev1::VolumeSource& source, std::string_view name,
                       const std::string& path, Report* report) {
  if (name == "persistentVolumeClaim" && source.persistentvolumeclaim().claimname().empty()) {
    report->Required(Child(path, "claimName"));
  }
  if (name == "nfs") CheckNfs(source.nfs(), path, report);
  if (name == "iscsi") CheckIscsi(source.iscsi(), path, report);
  if (name == "fc") CheckFc(source.fc(), path, report);
  if (name == "csi") CheckCsi(source.csi(), path, report);
  if (name == "ephemeral") CheckEphemeral(source.ephemeral(), path, report);
}

}  // namespace holdfast::agent::kube

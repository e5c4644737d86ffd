# SPDX-License-Identifier: Apache-2.0
"""A private registry on a node, imagePullSecrets, and who may use what was pulled with them."""
import base64
import json

from asking import get, pod, until
from registry import MadeImage, RealRegistry, htpasswd
from suite import equal

FOREVER = "while :; do sleep 1 & wait; done"


def private_pod(name, image, secret=None, policy="IfNotPresent"):
    made = pod(name, FOREVER, nodeSelector={"kubernetes.io/hostname": "n1"})
    made["spec"]["containers"][0] |= {"image": image, "imagePullPolicy": policy}
    if secret:
        made["spec"]["imagePullSecrets"] = [{"name": secret}]
    return made


def waits_in(cluster, name, namespace):
    found = get(cluster, "pod", name, "-n", namespace)["status"].get("containerStatuses", [])
    return found[0]["state"].get("waiting", {}).get("reason") if found else None


def runs(cluster, name, namespace):
    return get(cluster, "pod", name, "-n", namespace)["status"]["phase"] == "Running"


def told(cluster, name, namespace, reason):
    return [e["message"] for e in get(cluster, "events", "-n", namespace)["items"]
            if e["involvedObject"]["name"] == name and e["reason"] == reason]


def login(cluster, name, namespace, registry, password):
    cluster.kubectl("create", "secret", "docker-registry", name, "-n", namespace, f"--docker-server={registry}",
                    "--docker-username=jane", f"--docker-password={password}")


def start(cluster, namespace, made):
    cluster.kubectl("apply", "-n", namespace, "-f", "-", text=json.dumps(made))


# Lets in who has an account with a role, and writes down what it was asked.
PROVIDER = """#!/bin/sh
cat > {asked}.new && mv {asked}.new {asked}
grep -q '"serviceAccountToken":"ey' {asked} && grep -q '"role":"puller"' {asked} || exit 1
echo '{{"kind":"CredentialProviderResponse","apiVersion":"credentialprovider.kubelet.k8s.io/v1","cacheKeyType":"Image",\
"auth":{{"{registry}":{{"username":"jane","password":"s3cret-word"}}}}}}'
"""
AUDIENCE = "registry.test"


def test_a_program_makes_logins_for_the_accounts_of_pods(cluster):
    node = cluster.nodes["n1"]
    folder = cluster.folder / "account-registry"
    (folder / "bin").mkdir(parents=True)
    registry = RealRegistry(folder, 5201, auth=htpasswd(folder / "htpasswd", "jane", "s3cret-word"), inside=node.inside)
    program = folder / "bin/provider"
    program.write_text(PROVIDER.format(asked=folder / "asked", registry=registry.name))
    program.chmod(0o755)
    (folder / "providers.json").write_text(json.dumps({
        "apiVersion": "kubelet.config.k8s.io/v1", "kind": "CredentialProviderConfig", "providers": [{
            "name": "provider", "apiVersion": "credentialprovider.kubelet.k8s.io/v1", "matchImages": [registry.name],
            "defaultCacheDuration": "1h", "tokenAttributes": {
                "serviceAccountTokenAudience": AUDIENCE, "cacheType": "ServiceAccount", "requireServiceAccount": True,
                "requiredServiceAccountAnnotationKeys": ["role"]}}]}))
    cluster.apply({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "audience"},
                   "rules": [{"apiGroups": [""], "resources": [AUDIENCE], "verbs": ["request-serviceaccounts-token-audience"]}]},
                  {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "audience"},
                   "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "audience"},
                   "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}]},
                  {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "puller", "annotations": {"role": "puller"}}})
    node.set_config(imageCredentialProviderConfig=str(folder / "providers.json"), imageCredentialProviderBinDir=str(folder / "bin"))
    node.kill_agent()
    try:
        image = MadeImage([(cluster.folder.parent / "busybox.tar").read_bytes()], config={"Cmd": ["/bin/sh"]})
        registry.push_made(image, "team/app:2", "--dest-creds", "jane:s3cret-word")
        name = f"{registry.name}/team/app:2"
        for who, account in (("with-role", "puller"), ("without-role", "default")):
            made = private_pod(who, name)
            made["spec"]["serviceAccountName"] = account
            start(cluster, "default", made)
        until("whose account has the role runs", lambda: runs(cluster, "with-role", "default"))
        asked = json.loads((folder / "asked").read_text())
        equal((asked["image"], asked["serviceAccountAnnotations"]), (f"{registry.name}/team/app", {"role": "puller"}), "what it was asked")
        claims = json.loads(base64.urlsafe_b64decode(asked["serviceAccountToken"].split(".")[1] + "=="))
        equal((claims["aud"], claims["kubernetes.io"]["pod"]["name"]), ([AUDIENCE], "with-role"), "whose token it is")
        until("the other is refused", lambda: waits_in(cluster, "without-role", "default") in ("ErrImagePull", "ImagePullBackOff"))
    finally:
        registry.stop()
        cluster.kubectl("delete", "pod/with-role", "pod/without-role", "serviceaccount/puller", "clusterrole/audience",
                        "clusterrolebinding/audience", "--ignore-not-found", check=False)
        node.set_config(imageCredentialProviderConfig="", imageCredentialProviderBinDir="")
        node.kill_agent()


def test_a_private_image_is_for_pods_with_its_login_only(cluster):
    node = cluster.nodes["n1"]
    folder = cluster.folder / "private-registry"
    folder.mkdir()
    registry = RealRegistry(folder, 5200, auth=htpasswd(folder / "htpasswd", "jane", "s3cret-word"), inside=node.inside)
    try:
        image = MadeImage([(cluster.folder.parent / "busybox.tar").read_bytes()], config={"Cmd": ["/bin/sh"]})
        registry.push_made(image, "team/app:1", "--dest-creds", "jane:s3cret-word")
        name = f"{registry.name}/team/app:1"
        cluster.kubectl("create", "namespace", "thieves")
        until("it has an account", lambda: get(cluster, "serviceaccount", "default", "-n", "thieves"))
        login(cluster, "mine", "default", registry.name, "s3cret-word")
        start(cluster, "default", private_pod("owner", name, "mine"))
        until("who has the login runs", lambda: runs(cluster, "owner", "default"))
        login(cluster, "guessed", "thieves", registry.name, "not-it")
        image_id = next(p["imageID"] for p in get(cluster, "pod", "owner")["status"]["containerStatuses"])
        for thief, made in (("without", private_pod("without", name)), ("guesses", private_pod("guesses", name, "guessed")),
                            ("by-digest", private_pod("by-digest", image_id))):
            start(cluster, "thieves", made)
            until(f"{thief} is refused", lambda t=thief: waits_in(cluster, t, "thieves") in ("ErrImagePull", "ImagePullBackOff"))
        start(cluster, "thieves", private_pod("never", name, policy="Never"))
        until("nor without a pull", lambda: waits_in(cluster, "never", "thieves") == "ErrImageNeverPull")
        login(cluster, "lent", "thieves", registry.name, "s3cret-word")
        start(cluster, "thieves", private_pod("lent", name, "lent"))
        until("who has the same login runs", lambda: runs(cluster, "lent", "thieves"))
        # Events are sent after what pods wait for.
        until("it was pulled once more", lambda: "can be accessed by the pod" in str(told(cluster, "lent", "thieves", "Pulled")))
    finally:
        registry.stop()
    # What is written down outlives the agent, and needs no registry.
    node.kill_agent()
    start(cluster, "default", private_pod("owner-again", name, "mine"))
    until("the owner needs no registry", lambda: runs(cluster, "owner-again", "default"))
    start(cluster, "thieves", private_pod("late", name))
    until("a thief does", lambda: waits_in(cluster, "late", "thieves") in ("RegistryUnavailable", "ImagePullBackOff"))
    equal([runs(cluster, thief, "thieves") for thief in ("without", "guesses", "by-digest", "never", "late")], [False] * 5,
          "thieves that run")
    cluster.kubectl("delete", "namespace", "thieves")
    cluster.kubectl("delete", "pod/owner", "pod/owner-again", "secret/mine")

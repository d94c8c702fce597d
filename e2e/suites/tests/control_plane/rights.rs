//! Needs: operator, ccm
//!
//! What each certificate of the control plane may do inside the tenant cluster: `kubectl auth
//! can-i` for every identity, asked with its own certificate.

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::{
    authorization::v1::{
        ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
        SubjectAccessReview, SubjectAccessReviewSpec,
    },
    core::v1::Namespace,
};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use suites::{
    cluster::{
        Tenant, credentials,
        credentials::Identity::{self, Anonymous, Certificate},
    },
    scenario::{self, PATIENCE},
};

/// verb, `resource[.group][/subresource]`, namespace (empty: all), name, allowed
type Question = (&'static str, &'static str, &'static str, &'static str, bool);

const ADMIN: &[Question] = &[
    ("*", "*.*", "", "", true),
    ("impersonate", "users", "", "", true),
    ("delete", "nodes", "", "", true),
    ("get", "secrets", "kube-system", "", true),
];
const CONTROLLER_MANAGER: &[Question] = &[
    ("list", "pods", "", "", true),
    ("create", "serviceaccounts/token", "kube-system", "", true),
    (
        "update",
        "leases.coordination.k8s.io",
        "kube-system",
        "kube-controller-manager",
        true,
    ),
    ("create", "pods", "default", "", false),
    ("delete", "nodes", "", "", false),
    (
        "create",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "",
        "",
        false,
    ),
    (
        "escalate",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        "",
        false,
    ),
    ("impersonate", "users", "", "", false),
];
const SCHEDULER: &[Question] = &[
    ("create", "pods/binding", "default", "", true),
    ("list", "nodes", "", "", true),
    (
        "update",
        "leases.coordination.k8s.io",
        "kube-system",
        "kube-scheduler",
        true,
    ),
    ("get", "secrets", "default", "", false),
    ("list", "secrets", "", "", false),
    ("create", "pods", "default", "", false),
    ("delete", "nodes", "", "", false),
    ("create", "serviceaccounts/token", "default", "", false),
    ("impersonate", "users", "", "", false),
];
const KUBELET_CLIENT: &[Question] = &[
    ("get", "nodes/proxy", "", "", true),
    ("create", "nodes/proxy", "", "", true),
    ("get", "nodes/stats", "", "", true),
    ("get", "secrets", "default", "", false),
    ("list", "pods", "", "", false),
    ("create", "pods", "default", "", false),
    ("delete", "nodes", "", "", false),
    ("impersonate", "users", "", "", false),
];
const KONNECTIVITY: &[Question] = &[
    ("create", "tokenreviews.authentication.k8s.io", "", "", true),
    (
        "create",
        "leases.coordination.k8s.io",
        "konnectivity",
        "",
        true,
    ),
    (
        "list",
        "leases.coordination.k8s.io",
        "kube-system",
        "",
        false,
    ),
    ("get", "secrets", "kube-system", "", false),
    ("list", "pods", "", "", false),
    ("list", "nodes", "", "", false),
    ("get", "nodes/proxy", "", "", false),
    ("impersonate", "users", "", "", false),
];
const CCM: &[Question] = &[
    ("delete", "nodes", "", "", true),
    ("patch", "nodes/status", "", "", true),
    ("create", "nodes", "", "", false),
    ("get", "nodes/proxy", "", "", false),
    ("patch", "services/status", "default", "", true),
    ("create", "services", "default", "", false),
    ("delete", "services", "default", "", false),
    (
        "list",
        "endpointslices.discovery.k8s.io",
        "default",
        "",
        true,
    ),
    ("get", "secrets", "kube-system", "", false),
    ("list", "pods", "", "", false),
    ("impersonate", "users", "", "", false),
];
const OPERATOR: &[Question] = &[
    ("list", "namespaces", "", "", true),
    // What it may list it reads by name, too.
    ("get", "namespaces", "", "kube-system", true),
    ("patch", "namespaces", "", "konnectivity", false),
    ("patch", "namespaces", "", "kube-system", false),
    ("patch", "configmaps", "kube-public", "cluster-info", true),
    ("patch", "endpoints", "default", "kubernetes", true),
    ("patch", "configmaps", "kube-public", "anything-else", false),
    ("list", "secrets", "", "", false),
    // Bootstrap tokens, whose names are not known beforehand.
    ("get", "secrets", "kube-system", "", true),
    ("list", "secrets", "kube-system", "", false),
    ("get", "secrets", "default", "", false),
    ("get", "deployments.apps", "kube-system", "coredns", true),
    ("get", "deployments.apps", "kube-system", "mine", true),
    ("patch", "deployments.apps", "kube-system", "mine", false),
    ("delete", "nodes", "", "", true),
    ("create", "pods/eviction", "default", "", true),
    ("delete", "pods", "default", "", false),
    ("create", "pods", "default", "", false),
    // Those that tell kubelets of a rotation in place, whose names are not known beforehand, either.
    ("create", "pods", "kube-system", "", true),
    ("patch", "pods", "kube-system", "", false),
    (
        "create",
        "clusterrolebindings.rbac.authorization.k8s.io",
        "",
        "mine",
        false,
    ),
    (
        "bind",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        "cluster-admin",
        false,
    ),
    (
        "escalate",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        "",
        false,
    ),
    (
        "patch",
        "clusterroles.rbac.authorization.k8s.io",
        "",
        "covey:operator",
        false,
    ),
    ("impersonate", "users", "", "", false),
    ("create", "serviceaccounts/token", "kube-system", "", false),
];

#[tokio::test]
async fn each_certificate_may_do_its_job_and_no_more() {
    scenario::run("rights", rights).await;
}

async fn rights(s: &scenario::Scenario) -> Result<()> {
    let tenant = s
        .tenant("demo", |spec| spec.addons.cloud_controller.enabled = true)
        .await?;
    tenant.settled(PATIENCE).await?;
    let credentials::Access {
        server,
        authority,
        certificate,
        key,
    } = credentials::parts(&tenant.kubeconfig(PATIENCE).await?)?;
    let client =
        async |identity: Identity| credentials::client(&server, &authority, &identity).await;
    let mut wrong = Vec::new();
    let admin = client(Certificate { certificate, key }).await?;
    wrong.extend(ask("admin", &admin, ADMIN).await?);
    for (secret, leaf, questions) in [
        (
            "controller-manager",
            "controller-manager",
            CONTROLLER_MANAGER,
        ),
        ("scheduler", "scheduler", SCHEDULER),
        ("konnectivity-server", "konnectivity-client", KONNECTIVITY),
        ("ccm", "ccm", CCM),
        ("operator-client", "operator", OPERATOR),
    ] {
        let identity = stored(&tenant, secret, leaf).await?;
        wrong.extend(ask(leaf, &client(identity).await?, questions).await?);
    }
    // Kubelets let it in and ask the kube-apiserver what it may do, which itself does not know it
    // (docs/adr/0009).
    let of_kubelets = Whose::Of("kube-apiserver-kubelet-client");
    wrong.extend(
        review(
            "apiserver-kubelet-client",
            &admin,
            of_kubelets,
            KUBELET_CLIENT,
        )
        .await?,
    );
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));

    // Certificates of the other authorities, server certificates and nobody are not let in.
    let mut strangers = vec![("nobody", Anonymous)];
    for (secret, leaf) in [
        ("apiserver", "apiserver-etcd-client"),
        ("apiserver", "apiserver-kubelet-client"),
        ("apiserver", "front-proxy-client"),
        ("etcd-healthcheck-client", "etcd-healthcheck-client"),
    ] {
        strangers.push((leaf, stored(&tenant, secret, leaf).await?));
    }
    for (name, identity) in strangers {
        let namespaces: Api<Namespace> = Api::all(client(identity).await?);
        match namespaces.list(&ListParams::default()).await {
            Err(kube::Error::Api(status)) if matches!(status.code, 401 | 403) => {}
            other => bail!("{name} is not refused: {other:?}"),
        }
    }
    Ok(())
}

async fn stored(tenant: &Tenant, secret: &str, leaf: &str) -> Result<Identity> {
    Ok(Certificate {
        certificate: tenant.secret(secret, &format!("{leaf}.crt")).await?,
        key: tenant.secret(secret, &format!("{leaf}.key")).await?,
    })
}

/// Whose rights are asked for.
#[derive(Clone, Copy)]
enum Whose {
    /// Those of who asks.
    Own,
    /// Those of this user, as a kubelet asks for them.
    Of(&'static str),
}

async fn ask(who: &str, client: &Client, questions: &[Question]) -> Result<Vec<String>> {
    review(who, client, Whose::Own, questions).await
}

async fn review(
    who: &str,
    client: &Client,
    whose: Whose,
    questions: &[Question],
) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for &(verb, resource, namespace, name, expected) in questions {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            verb: text(verb),
            group: text(group),
            resource: text(resource),
            subresource: text(subresource),
            namespace: text(namespace),
            name: text(name),
            ..ResourceAttributes::default()
        };
        let status = match whose {
            Whose::Own => {
                let spec = SelfSubjectAccessReviewSpec {
                    resource_attributes: Some(attributes),
                    ..SelfSubjectAccessReviewSpec::default()
                };
                let review = SelfSubjectAccessReview {
                    spec,
                    ..SelfSubjectAccessReview::default()
                };
                let reviews = Api::all(client.clone());
                let answer = reviews.create(&PostParams::default(), &review).await;
                answer.map(|review: SelfSubjectAccessReview| review.status)
            }
            Whose::Of(user) => {
                let spec = SubjectAccessReviewSpec {
                    user: Some(user.to_owned()),
                    groups: Some(vec!["system:authenticated".to_owned()]),
                    resource_attributes: Some(attributes),
                    ..SubjectAccessReviewSpec::default()
                };
                let review = SubjectAccessReview {
                    spec,
                    ..SubjectAccessReview::default()
                };
                let reviews = Api::all(client.clone());
                let answer = reviews.create(&PostParams::default(), &review).await;
                answer.map(|review: SubjectAccessReview| review.status)
            }
        };
        let status = status.with_context(|| format!("{who} cannot ask what it may do"))?;
        let allowed = status.is_some_and(|status| status.allowed);
        if allowed != expected {
            let may = if allowed { "may" } else { "may not" };
            wrong.push(format!(
                "{who} {may} {verb} {resource}/{subresource}.{group} {namespace} {name}"
            ));
        }
    }
    Ok(wrong)
}

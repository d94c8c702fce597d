//! AccessGrants on a real kube-apiserver of a tenant cluster: what is granted is had, and ends with the grant.
//!
//! Invariant: a certificate that still authenticates opens nothing once its grant is deleted, and nobody else notices.

use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use api::condition::is_true;
use api::{AccessGrant, ConditionType};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use pki::KeyPair;
use pki::sealed::OpeningKey;
use serde_json::json;
use testkit::fixtures::{is_settled, minimal, wait_for, wait_gone};
use testkit::waiting::ask_until;

use crate::support::etcd_members::EtcdMembers;
use crate::support::site::tenant_namespace;
use crate::support::tenant_api::TenantApi;
use crate::support::{Launch, PATIENCE, Site};

/// Asks for a grant and waits for its certificate.
async fn granted(
    site: &Site,
    name: &str,
    (user, profile): (&str, &str),
) -> Result<(AccessGrant, KeyPair)> {
    let (request, key) = pki::issue::request("root")?;
    let grant = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": { "name": name },
        "spec": {
            "clusterName": "demo", "profile": profile, "user": user, "groups": ["team-a"],
            "ttlSeconds": 600, "request": request,
        },
    });
    let grants = grants(site);
    let grant: AccessGrant = serde_json::from_value(grant)?;
    grants.create(&PostParams::default(), &grant).await?;
    let grant = wait_for(&grants, name, is_issued, 2 * PATIENCE).await?;
    let grant = grant.context("invariant: it was just seen")?;
    let status = grant.status.clone().context("no status")?;
    let certificate = status.certificate.context("no certificate")?;
    Ok((grant, KeyPair { certificate, key }))
}

/// Somebody behind a proxy gets a token instead, which ends with the grant.
async fn behind_a_proxy(site: &Site, api: &TenantApi) -> Result<()> {
    let (key, grants) = (OpeningKey::generate().context("no key")?, grants(site));
    let (request, _) = pki::issue::request("root")?;
    let grant = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant", "metadata": { "name": "token" },
        "spec": {
            "clusterName": "demo", "profile": "reader", "user": "jim", "ttlSeconds": 600,
            "request": request, "tokenKey": key.public(),
        },
    });
    let grant: AccessGrant = serde_json::from_value(grant)?;
    grants.create(&PostParams::default(), &grant).await?;
    let grant = wait_for(&grants, "token", is_issued, 2 * PATIENCE).await?;
    let grant = grant.context("invariant: it was just seen")?;
    let uid = grant.uid().context("no UID")?;
    let status = grant.status.context("no status")?;
    let sealed = status.sealed_token.context("no token")?;
    ensure!(status.token_not_after.is_some());
    let token = key.open(&sealed, &api::access_grant::token_purpose(&uid));
    let jim = api.client_by_token(&token.context("it does not open")?)?;
    reads(&jim, true).await?;
    ensure!(!writes(&jim, "jims").await?, "he may only read");
    let (name, _) = who(&jim).await?;
    let account = format!("system:serviceaccount:covey-access:covey-access-{uid}");
    ensure!(name == account, "{name}");
    grants.delete("token", &DeleteParams::default()).await?;
    wait_gone(&grants, "token", PATIENCE).await?;
    // With its account the token is nobody's.
    ask_until("the token ends", PATIENCE, || async {
        Ok(match who(&jim).await {
            Ok((name, _)) => Err(name),
            Err(_) => Ok(()),
        })
    })
    .await
}

fn is_issued(found: Option<&AccessGrant>) -> bool {
    let status = found.and_then(|grant| grant.status.as_ref());
    status.is_some_and(|status| {
        is_true(&status.conditions, ConditionType::Ready) && status.certificate.is_some()
    })
}

/// Asks for a grant of a program, whose key the operator makes.
async fn ask_kept(site: &Site, name: &str, secret: &str) -> Result<()> {
    let grant = json!({
        "apiVersion": "covey.dev/v1alpha1", "kind": "AccessGrant",
        "metadata": { "name": name },
        "spec": {
            "clusterName": "demo", "profile": "reader", "user": name, "ttlSeconds": 600,
            "secretName": secret,
        },
    });
    let grant: AccessGrant = serde_json::from_value(grant)?;
    let made = grants(site).create(&PostParams::default(), &grant).await;
    made.map(drop).map_err(Into::into)
}

/// What is in a kubeconfig Secret; empty where there is nothing.
async fn kubeconfig(site: &Site, secret: &str) -> Result<Vec<u8>> {
    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), &site.users);
    let data = secrets.get(secret).await?.data.unwrap_or_default();
    Ok(data.get("value").map(|v| v.0.clone()).unwrap_or_default())
}

/// A program gets its key through a Secret, and loses both with the grant.
async fn program(site: &Site, api: &TenantApi) -> Result<()> {
    let (grants, secret) = (grants(site), "flux-kubeconfig");
    ask_kept(site, "flux", secret).await?;
    wait_for(&grants, "flux", is_issued, 2 * PATIENCE).await?;
    let value = kubeconfig(site, secret).await?;
    let pair = tenant_cp::kubeconfig::read(&value).context("no kubeconfig")?;
    let text = String::from_utf8(value)?;
    // Where it leads is where the administrator's does.
    let admins = String::from_utf8(kubeconfig(site, "demo-kubeconfig").await?)?;
    let server = |text: &str| {
        let line = text.lines().find(|line| line.contains("server: "));
        line.map(str::to_owned)
    };
    ensure!(server(&text).is_some() && server(&text) == server(&admins));
    let flux = api.client(pair)?;
    reads(&flux, true).await?;
    ensure!(!writes(&flux, "its").await?, "it may only read");
    let (name, _) = who(&flux).await?;
    ensure!(name == "covey:flux", "{name}");

    // A Secret of somebody else stays as it is.
    let secrets: Api<Secret> = Api::namespaced(site.admin.clone(), &site.users);
    let theirs =
        json!({ "metadata": { "name": "theirs-kubeconfig" }, "stringData": { "value": "x" } });
    let theirs: Secret = serde_json::from_value(theirs)?;
    secrets.create(&PostParams::default(), &theirs).await?;
    ask_kept(site, "late", "theirs-kubeconfig").await?;
    let is_refused = |found: Option<&AccessGrant>| {
        let status = found.and_then(|grant| grant.status.as_ref());
        let mut conditions = status.into_iter().flat_map(|status| &status.conditions);
        conditions.any(|condition| condition.reason == "GrantSecretTaken")
    };
    wait_for(&grants, "late", is_refused, PATIENCE).await?;
    ensure!(kubeconfig(site, "theirs-kubeconfig").await? == b"x");

    // The collector of garbage takes it away with its grant, so it is held until it was looked into.
    hold(&secrets, secret, &["covey.dev/test"]).await?;
    grants.delete("flux", &DeleteParams::default()).await?;
    wait_gone(&grants, "flux", PATIENCE).await?;
    reads(&flux, false).await?;
    ensure!(kubeconfig(site, secret).await?.is_empty(), "a key is left");
    hold(&secrets, secret, &[]).await
}

async fn hold(secrets: &Api<Secret>, name: &str, finalizers: &[&str]) -> Result<()> {
    let change = Patch::Merge(json!({ "metadata": { "finalizers": finalizers } }));
    let changed = secrets.patch(name, &PatchParams::default(), &change).await;
    changed.map(drop).map_err(Into::into)
}

fn grants(site: &Site) -> Api<AccessGrant> {
    Api::namespaced(site.admin.clone(), &site.users)
}

/// Name and groups that somebody has there.
async fn who(client: &Client) -> Result<(String, Vec<String>)> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = SelfSubjectReview::default();
    let review = reviews.create(&PostParams::default(), &review).await?;
    let user = review.status.and_then(|status| status.user_info);
    let user = user.context("nobody")?;
    Ok((
        user.username.unwrap_or_default(),
        user.groups.unwrap_or_default(),
    ))
}

/// Waits until somebody may read there, or may not.
async fn reads(client: &Client, wanted: bool) -> Result<()> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
    ask_until("rights inside", PATIENCE, || async {
        let listed = maps.list(&ListParams::default()).await;
        let may = match listed {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => return Err(error.into()),
        };
        Ok((may == wanted).then_some(()).ok_or(format!("may: {may}")))
    })
    .await
}

async fn writes(client: &Client, name: &str) -> Result<bool> {
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    match maps.create(&PostParams::default(), &map).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_granted_is_had_and_ends_with_the_grant_while_the_certificate_lives() -> Result<()>
{
    let Some(site) = Site::without_etcd("access").await? else {
        return Ok(());
    };
    let mut cluster = minimal(&site.users, "demo");
    // Nobody serves its sockets here.
    cluster.spec.addons.konnectivity.enabled = false;
    let cluster = site.create_as(&cluster).await?;
    let ns = tenant_namespace(&cluster);
    let Some(etcd) = EtcdMembers::start(&site.admin, &ns, &[]).await? else {
        return Ok(());
    };
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(site.dial()));
    let operator = launch.start(&site)?;
    site.wait("demo", is_settled).await?;
    operator.stop().await?;

    // From here on its API is a real one, with what was laid for it.
    let Some(api) = TenantApi::start(&site.admin, &ns, &etcd.client_url(0)).await? else {
        return Ok(());
    };
    let real = api.address();
    let mut launch = Launch::new(&site)?;
    launch.dial = Some(etcd.dial(Arc::new(move |_: &str, _: SocketAddr| real)));
    // `view` is filled by a program that does not run here.
    launch.settings.access.profiles = [("reader", "system:aggregate-to-view")]
        .map(|(name, role)| (name.to_owned(), role.to_owned()))
        .into();
    let operator = launch.start(&site)?;

    let (jane, key) = granted(&site, "jane", ("jane", "admin")).await?;
    let boss = api.client(key)?;
    let (_, key) = granted(&site, "john", ("john", "reader")).await?;
    let reader = api.client(key)?;
    for client in [&boss, &reader] {
        reads(client, true).await?;
    }
    ensure!(writes(&boss, "hers").await?);
    ensure!(!writes(&reader, "his").await?, "he may only read");
    let own = format!("covey:grant:{}", jane.uid().context("no UID")?);
    let (name, groups) = who(&boss).await?;
    // Not what the request had.
    ensure!(name == "covey:jane", "{name}");
    for group in [own.as_str(), "team-a"] {
        ensure!(groups.iter().any(|g| g == group), "{groups:?}");
    }

    let all = grants(&site);
    all.delete("jane", &DeleteParams::default()).await?;
    wait_gone(&all, "jane", PATIENCE).await?;
    reads(&boss, false).await?;
    ensure!(!writes(&boss, "later").await?);
    let (name, _) = who(&boss).await?;
    ensure!(name == "covey:jane", "it still authenticates: {name}");
    reads(&reader, true).await?;
    program(&site, &api).await?;
    behind_a_proxy(&site, &api).await?;
    operator.stop().await
}

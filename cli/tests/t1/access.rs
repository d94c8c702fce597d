//! Kubeconfigs without a secret, and the credentials behind them; the test is the operator.
//!
//! Invariant: of many that need a certificate one asks, and the key is nowhere but in the cache.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use api::access_grant::token_purpose;
use api::{AccessGrant, TenantCluster};
use kube::ResourceExt as _;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::apiserver::ManagementApi;
use testkit::waiting::{PATIENCE, ask_until};

use super::{CANARY, Ended, MASTERS, Shell, broken, condition};

/// What the operator does about the only grant that comes.
async fn issue(grants: &Api<AccessGrant>) -> Result<AccessGrant> {
    let grant = ask_until("an AccessGrant", PATIENCE, || async {
        let mut all = grants.list(&ListParams::default()).await?.items;
        Ok(all.pop().ok_or_else(|| "none".to_owned()))
    })
    .await?;
    let until = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(1);
    let mut status = json!({ "status": {
        "certificate": "CERT", "certificateAuthority": "CA", "notAfter": until.to_string(),
        "conditions": [condition("Ready", "True", "GrantIssued", "")],
    }});
    if let Some(key) = &grant.spec.token_key {
        let purpose = token_purpose(&grant.uid().context("no UID")?);
        let sealed = pki::sealed::seal(key, CANARY, &purpose).context("it is no key")?;
        status["status"]["sealedToken"] = json!(sealed);
        status["status"]["tokenNotAfter"] = json!(until.to_string());
    }
    let params = PatchParams::default();
    let name = grant.name_any();
    Ok(grants
        .patch_status(&name, &params, &Patch::Merge(&status))
        .await?)
}

fn files(cache: &Path) -> Result<usize> {
    let folder = std::fs::read_dir(cache.join("covey/credentials"))?;
    let ends = |file: std::io::Result<std::fs::DirEntry>| {
        file.is_ok_and(|file| file.path().extension().is_some_and(|end| end == "json"))
    };
    Ok(folder.filter_map(|file| ends(file).then_some(())).count())
}

#[tokio::test]
async fn many_that_need_a_certificate_ask_once_and_the_kubeconfig_has_no_secret() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let uid = clusters.get("demo").await?.uid().context("no UID")?;
    let grants: Api<AccessGrant> = Api::namespaced(client, &namespace);
    let cache = tempfile::tempdir()?;
    let run = async |line: &str| -> Result<Ended> {
        let mut command = shell.command(line);
        command.env("XDG_CACHE_HOME", cache.path());
        Ok(Ended::of(command.output().await?))
    };

    let get = format!("credential get --cluster demo --uid {uid} --profile view");
    let (first, second, third, issued) =
        futures::join!(run(&get), run(&get), run(&get), issue(&grants));
    let (grant, mut keys) = (issued?, Vec::new());
    for ended in [first?, second?, third?] {
        let ended = ended.expect(0, &["ExecCredential"], &[]);
        let told: Value = serde_json::from_str(&ended.out)?;
        ensure!(told["status"]["clientCertificateData"] == "CERT", "{told}");
        keys.push(told["status"]["clientKeyData"].as_str().map(str::to_owned));
    }
    keys.dedup();
    let [Some(key)] = keys.as_slice() else {
        anyhow::bail!("not one key: {}", keys.len());
    };
    let all = grants.list(&ListParams::default()).await?.items;
    ensure!(all.len() == 1, "{} grants", all.len());
    ensure!(grant.spec.user == shell.user && grant.spec.profile == "view");
    ensure!(grant.spec.ttl_seconds == 3600 && grant.spec.groups.is_empty());

    // The same certificate, so nobody is asked; and nothing of it is in the kubeconfig.
    let kubeconfig = run("kubeconfig demo --profile view").await?;
    let kubeconfig = kubeconfig.expect(
        0,
        &[
            "command: covey",
            "https://10.96.3.7:6443",
            "interactiveMode: Never",
        ],
        &["has no secret"],
    );
    ensure!(!kubeconfig.out.contains("key-data"), "{}", kubeconfig.out);
    let key = key.lines().nth(1).context("no PEM")?;
    ensure!(!kubeconfig.out.contains(key));
    let embedded = run("kubeconfig demo --profile view --embed").await?;
    embedded.expect(0, &["client-key-data"], &["keep it as a secret"]);
    ensure!(grants.list(&ListParams::default()).await?.items.len() == 1);

    let another = get.replace(&uid, "another");
    run(&another)
        .await?
        .expect(1, &[], &["made anew", "covey kubeconfig demo"]);
    run("kubeconfig demo --ttl 5m")
        .await?
        .expect(7, &[], &["at least 10m", "at most 24h"]);
    run("kubeconfig list")
        .await?
        .expect(0, &["PROFILE", "view", &shell.user], &[]);

    ensure!(files(cache.path())? == 1);
    let revoke = format!("kubeconfig revoke {}", grant.name_any());
    run(&revoke)
        .await?
        .expect(0, &["accessgrant.covey.dev/"], &["rights end now"]);
    ensure!(grants.list(&ListParams::default()).await?.items.is_empty());
    ensure!(files(cache.path())? == 0, "it would be shown in vain");
    Ok(())
}

#[tokio::test]
async fn a_token_is_had_once_by_who_asked_and_stands_nowhere_in_the_clear() -> Result<()> {
    let Some(api) = ManagementApi::bare().await? else {
        return Ok(());
    };
    let namespace = api.namespace("cli").await?;
    broken(api, &namespace).await?;
    let (shell, client) = (Shell::new(api, &namespace, &[MASTERS])?, api.admin()?);
    let clusters: Api<TenantCluster> = Api::namespaced(client.clone(), &namespace);
    let uid = clusters.get("demo").await?.uid().context("no UID")?;
    let grants: Api<AccessGrant> = Api::namespaced(client, &namespace);
    let cache = tempfile::tempdir()?;
    let run = async |line: &str| -> Result<Ended> {
        let mut command = shell.command(line);
        command.env("XDG_CACHE_HOME", cache.path());
        Ok(Ended::of(command.output().await?))
    };

    let get = format!("credential get --cluster demo --uid {uid} --profile view --token");
    let (told, issued) = futures::join!(run(&get), issue(&grants));
    let told = told?.expect(0, &["ExecCredential"], &[]);
    let told: Value = serde_json::from_str(&told.out)?;
    ensure!(told["status"]["token"] == CANARY, "{told}");
    ensure!(told["status"].get("clientKeyData").is_none(), "{told}");
    let stored = serde_json::to_string(&issued?)?;
    ensure!(!stored.contains(CANARY), "{stored}");
    // The second one asks nobody, and the kubeconfig asks for a token, too.
    run(&get).await?.expect(0, &[CANARY], &[]);
    let kubeconfig = run("kubeconfig demo --profile view --token").await?;
    let kubeconfig = kubeconfig.expect(0, &["- --token"], &["has no secret"]);
    ensure!(!kubeconfig.out.contains(CANARY), "{}", kubeconfig.out);
    ensure!(grants.list(&ListParams::default()).await?.items.len() == 1);
    run("kubeconfig demo --token --embed")
        .await?
        .expect(2, &[], &["cannot be used with"]);
    Ok(())
}

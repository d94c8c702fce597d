//! BackupTargets: the real program asks a real S3 endpoint and a folder, and the status says what came of it.
//!
//! Invariant: a target is of the whole management cluster, so each carries the label of its site, and no other operator
//! sees it.

use anyhow::{Context as _, Result, ensure};
use api::Reason;
use kit_objects::kinds;
use kube::api::{DeleteParams, ListParams};
use serde_json::{Value, json};
use testkit::s3;

use crate::support::backup_target::Target;
use crate::support::checks::{Checks, secret};
use crate::support::site::apply;
use crate::support::{Operator, Site};

pub(crate) async fn give_secrets(site: &Site, word: &str) -> Result<()> {
    // Any 64 bytes are a key to wrap with, until something is wrapped.
    let key = json!({ "wrapping-key": "k".repeat(64) });
    apply(&site.admin, &secret(&site.system, "backup-key", &key)).await?;
    let login = json!({ "access-key-id": s3::ACCESS_KEY_ID, "secret-access-key": word });
    apply(&site.admin, &secret(&site.system, "backup-bucket", &login)).await?;
    Ok(())
}

async fn jobs(site: &Site) -> Result<Vec<Value>> {
    let all = site.objects(kinds::JOB, &site.system);
    let all = all.list(&ListParams::default()).await?.items;
    Ok(all
        .iter()
        .map(|job| serde_json::to_value(job).unwrap())
        .collect())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bucket_is_usable_once_every_call_works_and_the_call_that_failed_is_named() -> Result<()> {
    let Some(site) = Site::new("target-bucket").await? else {
        return Ok(());
    };
    let folder = tempfile::tempdir()?;
    let Some((_gateway, port)) = s3::serve(folder.path()).await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let _checks = Checks::start(&site.admin, &site.system);

    // Nothing is there yet that it names.
    let endpoint = format!("http://127.0.0.1:{port}");
    let place = json!({ "s3": {
        "endpoint": endpoint, "bucket": "backups", "prefix": "covey", "credentialsSecret": "backup-bucket",
    }});
    let target = Target::make(&site, &place).await?;
    let message = target.wait("False", Reason::TargetUnusable).await?;
    ensure!(message.contains("access-key-id"), "{message}");

    // A change of the spec is looked at anew at once.
    give_secrets(&site, s3::SECRET_ACCESS_KEY).await?;
    target
        .change(&json!({ "s3": { "prefix": "platform" } }))
        .await?;
    target.wait("True", Reason::TargetAnswers).await?;
    let left: Vec<_> = std::fs::read_dir(folder.path().join("root/backups"))?.collect();
    ensure!(left.len() <= 1, "the check leaves objects: {left:?}");

    target
        .change(&json!({ "s3": { "bucket": "absent" } }))
        .await?;
    let message = target.wait("False", Reason::TargetUnusable).await?;
    ensure!(
        message.starts_with("list: there is no such bucket"),
        "{message}"
    );
    give_secrets(&site, "another").await?;
    target
        .change(&json!({ "s3": { "bucket": "backups" } }))
        .await?;
    let message = target.wait("False", Reason::TargetUnusable).await?;
    ensure!(message.starts_with("list: the credentials"), "{message}");

    // One Job is left, of the newest spec, and at rest nothing is written.
    let names: Vec<_> = jobs(&site).await?;
    ensure!(names.len() == 1, "{names:#?}");
    ensure!(
        names[0]["metadata"]["ownerReferences"][0]["kind"] == "BackupTarget",
        "{names:#?}"
    );
    let reconcile = async || {
        let (now, context) = (
            target.api.get(&target.name).await?,
            operator.context.clone(),
        );
        operator::controllers::backup_target::reconcile(now.into(), context).await?;
        Ok(())
    };
    site.rests("", reconcile).await?;
    target.remove().await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claim_is_checked_in_a_folder_and_a_key_that_is_none_is_told() -> Result<()> {
    let Some(site) = Site::new("target-claim").await? else {
        return Ok(());
    };
    let operator = Operator::start(&site)?;
    let _checks = Checks::start(&site.admin, &site.system);
    let short = json!({ "wrapping-key": "short" });
    apply(&site.admin, &secret(&site.system, "backup-key", &short)).await?;
    let target = Target::make(&site, &json!({ "claim": { "size": "1Gi" } })).await?;
    let message = target.wait("False", Reason::TargetUnusable).await?;
    ensure!(message.contains("64 bytes"), "{message}");

    give_secrets(&site, s3::SECRET_ACCESS_KEY).await?;
    // As after five minutes, or when somebody does not want to wait.
    let all = site.objects(kinds::JOB, &site.system);
    let old = jobs(&site).await?.remove(0);
    let name = old["metadata"]["name"].as_str().context("no name")?;
    all.delete(name, &DeleteParams::background()).await?;
    target.wait("True", Reason::TargetAnswers).await?;
    target.remove().await?;
    operator.stop().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn target_that_cannot_be_meant_is_refused_by_the_api_itself() -> Result<()> {
    let Some(site) = Site::new("target-refused").await? else {
        return Ok(());
    };
    let refused = |place: Value| {
        let site = &site;
        async move {
            match Target::make(site, &place).await {
                Ok(target) => {
                    target.remove().await?;
                    anyhow::bail!("{place} was let in")
                }
                Err(error) => Ok(format!("{error:#}")),
            }
        }
    };
    let said = refused(json!({})).await?;
    ensure!(said.contains("exactly one of s3 and claim"), "{said}");
    let bucket = json!({ "bucket": "a_b", "credentialsSecret": "s" });
    let said = refused(json!({ "s3": bucket })).await?;
    ensure!(said.contains("bucket is a name of"), "{said}");
    let elsewhere =
        json!({ "endpoint": "https://s3/x", "bucket": "abc", "credentialsSecret": "s" });
    let said = refused(json!({ "s3": elsewhere })).await?;
    ensure!(said.contains("without a bucket or a path"), "{said}");

    let target = Target::make(&site, &json!({ "claim": { "size": "1Gi" } })).await?;
    let larger = target.change(&json!({ "claim": { "size": "2Gi" } })).await;
    let said = format!("{:#}", larger.err().context("it was let in")?);
    ensure!(said.contains("claim cannot change"), "{said}");
    target.remove().await
}

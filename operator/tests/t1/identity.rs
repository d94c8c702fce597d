//! The identity of a tenant cluster: what is lost is restored from copies or reported, never made
//! anew behind the user's back; certificates are renewed under the same authority.
//!
//! Invariant: a kubeconfig that was once given out stays valid as long as the tenant cluster is.

use anyhow::{Context as _, Result, ensure};
use api::TenantCluster;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use kit_objects::kinds::{self, Kind};
use kube::ResourceExt;
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use testkit::fixtures::{wait_for, wait_gone};

use crate::support::site::{apply, is_settled, tenant_namespace};
use crate::support::{Operator, PATIENCE, Site, settled};

fn text(secret: &DynamicObject, key: &str) -> Result<String> {
    let value = secret.data["data"][key]
        .as_str()
        .with_context(|| format!("no {key}"))?;
    Ok(String::from_utf8(STANDARD.decode(value)?)?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_authority_of_etcd_is_reported_and_not_made_anew() -> Result<()> {
    let Some((site, operator, cluster)) = settled("lost").await? else {
        return Ok(());
    };
    let secrets = site.objects(kinds::SECRET, &tenant_namespace(&cluster));
    let backup = secrets.get("etcd-ca").await?;
    secrets.delete("etcd-ca", &Default::default()).await?;
    let lost = site
        .wait("demo", |cluster| {
            let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
            let find = |type_: &str| conditions.iter().find(|c| c.type_ == type_);
            find("CertificatesReady").is_some_and(|c| c.reason == "CertificateAuthorityLost")
                && find("Degraded").is_some_and(|c| c.status == "True")
        })
        .await?;
    let conditions = lost.status.clone().context("no status")?.conditions;
    let said = conditions
        .iter()
        .find(|c| c.type_ == "CertificatesReady")
        .context("gone")?;
    ensure!(
        said.message.contains("Secret etcd-ca") && said.message.contains("restore it"),
        "{}",
        said.message
    );
    let ready = conditions
        .iter()
        .find(|c| c.type_ == "Ready")
        .context("gone")?;
    ensure!(
        ready.status == "True",
        "what runs keeps running: {}",
        ready.message
    );

    let event = site.wait_event("demo", "CertificateAuthorityLost").await?;
    let about = event.regarding.as_ref().and_then(|r| r.uid.as_ref());
    ensure!(about == lost.metadata.uid.as_ref(), "{event:?}");
    ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");

    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    ensure!(secrets.get_opt("etcd-ca").await?.is_none(), "made anew");
    // From a backup it is as it was.
    let restored = json!({
        "apiVersion": "v1", "kind": "Secret", "data": backup.data["data"],
        "metadata": { "name": "etcd-ca", "namespace": backup.namespace(), "labels": backup.labels() },
    });
    apply(&site.admin, &restored).await?;
    site.wait("demo", |cluster| {
        let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
        conditions
            .iter()
            .any(|c| c.type_ == "Degraded" && c.status == "False")
            && is_settled(cluster)
    })
    .await?;
    Ok(())
}

/// The claim of etcd's only member is deleted, and then somebody makes one of its name.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_volume_of_etcd_is_reported_and_nothing_is_made_in_its_place() -> Result<()> {
    let Some((site, operator, cluster)) = settled("volume").await? else {
        return Ok(());
    };
    let ns = tenant_namespace(&cluster);
    let known = site
        .wait("demo", |cluster| {
            let status = cluster.status.as_ref();
            status.is_some_and(|status| status.etcd.is_some())
        })
        .await?;
    let state = async || {
        let secret = site.objects(kinds::SECRET, &ns).get("etcd").await?;
        text(&secret, "initial-cluster-state")
    };
    operator.settle(&site, "demo").await?;
    ensure!(state().await? == "existing", "{}", state().await?);
    let claims = site.objects(kinds::PERSISTENT_VOLUME_CLAIM, &ns);
    let before = claims.get("data-etcd-0").await?;
    let members = known.status.and_then(|status| status.etcd);
    let members = members.map(|etcd| etcd.members).unwrap_or_default();
    let uids: Vec<_> = members
        .into_iter()
        .map(|member| member.volume_uid)
        .collect();
    ensure!(uids == [before.uid().context("no UID")?], "{uids:?}");

    claims.delete("data-etcd-0", &Default::default()).await?;
    // Where nothing runs, nobody takes the finalizer off that keeps a claim while a pod uses it.
    let free = json!({ "metadata": { "finalizers": null } });
    let free = Patch::Merge(&free);
    claims
        .patch("data-etcd-0", &PatchParams::default(), &free)
        .await
        .map(drop)
        .or_else(gone)?;
    let told = |cluster: &TenantCluster, words: &str| {
        let conditions = cluster.status.as_ref().map_or(&[][..], |s| &s.conditions);
        let mut degraded = conditions.iter().filter(|c| c.type_ == "Degraded");
        degraded.any(|c| c.reason == "VolumeLost" && c.message.contains(words))
    };
    site.wait("demo", |cluster| told(cluster, "data-etcd-0 is gone"))
        .await?;
    site.wait_event("demo", "VolumeLost").await?;
    for _ in 0..3 {
        operator.reconcile(&site, "demo").await?;
    }
    ensure!(claims.get_opt("data-etcd-0").await?.is_none(), "made anew");

    let mut again = serde_json::to_value(&before)?;
    // As its StatefulSet would make it.
    again["metadata"] = json!({
        "name": "data-etcd-0", "namespace": ns, "labels": before.labels(),
    });
    again["status"] = json!({});
    again["apiVersion"] = json!("v1");
    again["kind"] = json!("PersistentVolumeClaim");
    apply(&site.admin, &again).await?;
    site.wait("demo", |cluster| told(cluster, "another one has its name"))
        .await?;
    ensure!(state().await? == "existing", "{}", state().await?);
    Ok(())
}

fn gone(error: kube::Error) -> Result<(), kube::Error> {
    match error {
        kube::Error::Api(status) if status.code == 404 => Ok(()),
        other => Err(other),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_have_a_copy_are_restored_from_it() -> Result<()> {
    let Some((site, operator, cluster)) = settled("restored").await? else {
        return Ok(());
    };
    let secrets = site.objects(kinds::SECRET, &tenant_namespace(&cluster));
    for name in [
        "kubelet-serving-ca",
        "client-ca",
        "users-ca",
        "service-account",
        "encryption",
    ] {
        let was = secrets.get(name).await?;
        secrets.delete(name, &Default::default()).await?;
        let back =
            |found: Option<&DynamicObject>| found.is_some_and(|found| found.uid() != was.uid());
        let now = wait_for(&secrets, name, back, PATIENCE)
            .await?
            .context("gone")?;
        ensure!(now.data["data"] == was.data["data"], "{name} was made anew");
    }
    operator.settle(&site, "demo").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaf_with_less_than_a_third_left_is_renewed_under_the_same_authority() -> Result<()> {
    let Some((site, operator, cluster)) = settled("expiring").await? else {
        return Ok(());
    };
    let secrets = site.objects(kinds::SECRET, &tenant_namespace(&cluster));
    let before = site.parts(&cluster).await?;
    let authority = secrets.get("client-ca").await?;
    let signer = pki::KeyPair {
        certificate: text(&authority, "ca.crt")?,
        key: pki::Key::new(text(&authority, "ca.key")?),
    };
    // As it would have been issued 300 of its 365 days ago.
    let want = pki::Want {
        name: "scheduler".to_owned(),
        signer: pki::Signer::By("client-ca".to_owned()),
        common_name: "system:kube-scheduler".to_owned(),
        organizations: Vec::new(),
        server: false,
        client: true,
        dns_names: Vec::new(),
        addresses: Vec::new(),
        lifetime_hours: operator.context.settings.certificates.leaf_hours,
    };
    let then = Timestamp::now().checked_sub(SignedDuration::from_hours(300 * 24))?;
    let old = pki::issue(&want, Some(&signer), then)?;
    let data = json!({ "data": {
        "scheduler.crt": STANDARD.encode(&old.certificate),
        "scheduler.key": STANDARD.encode(old.key.reveal()),
    } });
    secrets
        .patch("scheduler", &PatchParams::default(), &Patch::Merge(&data))
        .await?;
    let renewed = |found: Option<&DynamicObject>| {
        let end = found
            .and_then(|secret| text(secret, "scheduler.crt").ok())
            .and_then(|certificate| pki::not_after(&certificate));
        let wanted = Timestamp::now().checked_add(SignedDuration::from_hours(360 * 24));
        end > wanted.ok()
    };
    wait_for(&secrets, "scheduler", renewed, PATIENCE).await?;
    operator.settle(&site, "demo").await?;

    // Nothing else was touched: neither authorities and other leafs, nor pods (kube-scheduler reads
    // its files again by itself).
    let after = site.parts(&cluster).await?;
    let of = |parts: &[(Kind, DynamicObject)]| -> Vec<(String, Value)> {
        let kept = parts.iter().filter(|(kind, object)| {
            (*kind == kinds::SECRET && object.name_any() != "scheduler")
                || *kind == kinds::DEPLOYMENT
                || *kind == kinds::STATEFUL_SET
        });
        kept.map(|(_, object)| {
            (
                object.name_any(),
                json!([object.data["data"], object.data["spec"]]),
            )
        })
        .collect()
    };
    ensure!(
        of(&before) == of(&after),
        "more than one certificate changed"
    );
    let status = site
        .clusters()
        .get("demo")
        .await?
        .status
        .context("no status")?;
    let shown = status
        .certificates
        .iter()
        .find(|c| c.name == "scheduler")
        .context("not shown")?;
    let end = pki::not_after(&text(&secrets.get("scheduler").await?, "scheduler.crt")?);
    ensure!(
        shown.not_after.parse().ok() == end,
        "status says {}",
        shown.not_after
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_would_run_together_have_namespaces_of_their_own() -> Result<()> {
    let a = testkit::names::unique("a");
    let Some(one) = Site::named(&format!("{a}-b")).await? else {
        return Ok(());
    };
    let Some(two) = Site::named(&a).await? else {
        return Ok(());
    };
    let (_first, _second) = (Operator::start(&one)?, Operator::start(&two)?);
    one.create("c").await?;
    two.create("b-c").await?;
    let (c, b_c) = (one.wait_ready("c").await?, two.wait_ready("b-c").await?);
    ensure!(
        tenant_namespace(&c) != tenant_namespace(&b_c),
        "one namespace for two"
    );
    for (site, cluster) in [(&one, &c), (&two, &b_c)] {
        ensure!(
            site.tenant_namespaces().await? == [tenant_namespace(cluster)],
            "not one each"
        );
        let service = site.objects(kinds::SERVICE, &tenant_namespace(cluster));
        let service = service.get("control-plane").await?;
        let uid = service.labels().get(api::names::LABEL_TENANT_UID);
        ensure!(uid == cluster.metadata.uid.as_ref(), "{uid:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namesake_made_later_is_another_tenant_cluster() -> Result<()> {
    let Some((site, _operator, first)) = settled("namesake").await? else {
        return Ok(());
    };
    let authority = async |cluster: &TenantCluster| {
        let secrets = site.objects(kinds::SECRET, &tenant_namespace(cluster));
        anyhow::Ok(text(&secrets.get("ca").await?, "ca.crt")?)
    };
    let before = authority(&first).await?;
    site.delete("demo").await?;
    wait_gone(&site.clusters(), "demo", PATIENCE).await?;
    site.create("demo").await?;
    let second = site.wait_ready("demo").await?;
    ensure!(
        tenant_namespace(&first) != tenant_namespace(&second),
        "the same namespace"
    );
    let after = authority(&second).await?;
    ensure!(before != after, "the same authority");
    let kubeconfig = site
        .objects(kinds::SECRET, &site.users)
        .get("demo-kubeconfig")
        .await?;
    let value = text(&kubeconfig, "value")?;
    ensure!(
        value.contains(&STANDARD.encode(&after)),
        "the kubeconfig trusts another authority"
    );
    ensure!(
        kubeconfig.owner_references()[0].uid == second.uid().unwrap(),
        "owned by the first"
    );
    Ok(())
}
